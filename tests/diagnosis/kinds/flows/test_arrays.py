"""Small helpers of all phases of flows."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.kinds.flows.capture.arrays import close_holes


@pytest.mark.parametrize(
    ("before", "most", "after"),
    [
        ("1011", 1, "1111"),
        ("1001", 1, "1001"),
        ("1001", 2, "1111"),
        ("0110", 2, "0110"),
        ("0000", 4, "0000"),
        ("", 1, ""),
    ],
)
def test_short_holes_between_two_that_are_so_are_closed(before: str, most: int, after: str) -> None:
    mask = np.array([one == "1" for one in before], dtype=bool)
    assert "".join("01"[int(one)] for one in close_holes(mask, most)) == after
