"""Counters of progress in lines."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.kinds.logs.pace import counter_words, progress


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("iter: 121,000  loss: 2.11", 121_000),
        ("iter 12,345,678 | loss 2.11", 12_345_678),
        ("step 12, 345 samples", 12),
        ("iteration 7,12", 7),
    ],
)
def test_a_counter_may_have_commas_between_thousands(line: str, number: int) -> None:
    found = counter_words.counter(line)
    assert found is not None and found[1] == number


def test_a_counter_goes_on_in_another_wording_of_its_line() -> None:
    points = pl.DataFrame({"masked": [1] * 6 + [2] * 3 + [3] * 3, "n": [*range(10, 16), 7, 8, 9, 2, 3, 4]})
    points = points.with_columns(series=pl.col("masked"), file=pl.lit(0), line=pl.int_range(pl.len()))
    assert set(progress._agreeing_points(points)["masked"]) == {1, 2}


def test_a_counter_that_goes_on_with_a_loss_that_is_no_number_may_come_far_beyond_the_former_wording() -> None:
    points = pl.DataFrame({"masked": [1] * 100 + [2] * 60, "n": [*range(1, 101), *range(101, 161)]})
    points = points.with_columns(series=pl.col("masked"), file=pl.lit(0), line=pl.int_range(pl.len()))
    assert progress._agreeing_points(points)["n"].max() == 160
