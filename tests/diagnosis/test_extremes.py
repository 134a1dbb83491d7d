"""The least, the greatest and the middle value of a column."""

import polars as pl

from diagnosis.values.extremes import greatest, least, middle


def test_columns_without_a_number_have_no_extremes_and_the_middle_zero() -> None:
    for values in ([], [None, None]):
        column = pl.Series(values, dtype=pl.Int64)
        assert (least(column), greatest(column), middle(column)) == (None, None, 0.0)


def test_unknown_values_do_not_count() -> None:
    column = pl.Series([None, 4, 1, 9], dtype=pl.UInt64)
    assert (least(column), greatest(column), middle(column)) == (1, 9, 4.0)


def test_whole_numbers_of_a_column_with_fractions_are_whole() -> None:
    assert (least(pl.Series([2.0, 3.0])), greatest(pl.Series([2.0, 3.0]))) == (2, 3)
