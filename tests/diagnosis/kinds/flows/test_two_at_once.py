"""Two machines that are slow at the same time are one hypothesis beside each of them."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.kinds.flows.slow.delays import EVIDENCE, Candidate
from diagnosis.kinds.flows.slow.stragglers import probabilities
from diagnosis.kinds.flows.slow.two_at_once import with_two

LATE, OTHERS = EVIDENCE.index("late"), EVIDENCE.index("others")


def most_probable(late: list[float]) -> tuple[str, ...]:
    """The names of the likeliest candidate, of machines that were late for such shares of the lost
    time; empty for nobody.
    """
    evidence = np.zeros((len(late), len(EVIDENCE)))
    evidence[:, LATE] = late
    evidence[:, OTHERS] = [-max(np.delete(late, at)) for at in range(len(late))]
    machines = [Candidate("node", (f"n{at}",), (at,)) for at in range(len(late))]
    candidates, weighed = with_two(machines, 4 * evidence)
    p = probabilities(weighed)
    names = [one.names for one in candidates]
    return [*names, ()][int(p.argmax())]


@pytest.mark.parametrize(
    ("late", "who"),
    [
        ([0.45, 0.02, 0.03, 0.4, 0.05, 0.02, 0.02, 0.04], ("n0", "n3")),
        ([0.9, 0.02, 0.03, 0.1, 0.05, 0.02, 0.02, 0.04], ("n0",)),
        ([0.9, 0.02, 0.03, 0.0, 0.0, 0.0, 0.0, 0.0], ("n0",)),
        ([0.23, 0.09, 0.22, 0.2, 0.24, 0.14, 0.15, 0.21], ()),  # a start that warms up
        ([0.1, 0.1, 0.12, 0.09, 0.1, 0.1, 0.11, 0.1], ()),
        ([0.45, 0.4, 0.0, 0.0], ("n0",)),  # two of four are no small part
    ],
)
def test_two_machines_are_named_if_both_delay_and_no_third_one_does(late: list[float], who: tuple[str, ...]) -> None:
    assert most_probable(late) == who
