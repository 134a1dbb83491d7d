"""The fits of how sure verdicts are."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.decide import verdict_probability
from lab.measure.calibration import NAMES, SIGNS, Judged, fit


@pytest.mark.parametrize("kind", NAMES)
def test_stored_weights_have_the_sign_that_their_meaning_demands(kind: str) -> None:
    columns = dict.fromkeys(NAMES[kind], 0.0)
    without = verdict_probability.probability(kind, columns)
    for name, sign in SIGNS.items():
        if name in columns:
            assert (verdict_probability.probability(kind, columns | {name: 1.0}) - without) * sign >= 0


def test_a_source_of_many_verdicts_counts_as_the_square_root_of_their_number() -> None:
    none = (0.0,) * len(NAMES["failure"])
    many = [Judged("a", "large", "failure", none, 0.5, is_right=True)] * 9
    few = [Judged("a", f"small {n}", "failure", none, 0.5, is_right=False) for n in range(3)]
    assert fit([*many, *few])[0] == pytest.approx(0.0, abs=1e-3)
