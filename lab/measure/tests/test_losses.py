"""How answers on less evidence are judged."""

from __future__ import annotations

from typing import Any

import pytest

from lab.measure.losses import CANNOT_SAY, HEALTHY, OTHER, SAME, comparison


def told(condition: str, *names: str, rank: int | None = None) -> dict[str, Any]:
    return {"condition": condition, "fault": [{"name": name, "rank": rank} for name in names]}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (told("failed", "n1"), SAME),
        (told("hung", "n3", "n1"), SAME),  # it is still among the accused
        (told("failed", "5", rank=5), SAME),  # the machine of the rank is not known any more
        (told("failed", "n3"), OTHER),
        (told("failed"), CANNOT_SAY),
        (told("unknown"), CANNOT_SAY),
        (told("running"), CANNOT_SAY),
        (told("recovered"), HEALTHY),
    ],
)
def test_less_evidence_may_say_the_same_or_nothing(after: dict[str, Any], expected: str) -> None:
    assert comparison(told("failed", "n1", rank=5), after) == expected
