"""The statistics that all analyses share."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.values import stats


@pytest.mark.parametrize(
    ("count", "total", "is_odd"), [(1, 2, True), (1, 1, False), (0, 8, False), (2, 8, True), (3, 8, False)]
)
def test_one_of_a_small_group_or_a_quarter_of_a_large_one_is_odd(count: int, total: int, is_odd: bool) -> None:
    assert stats.is_minority(count, total) is is_odd


def test_who_is_not_among_the_odd_ones_is_among_nearly_all() -> None:
    assert stats.is_nearly_all(6, 8)
    assert not stats.is_nearly_all(5, 8)
    assert not stats.is_nearly_all(0, 0)


def test_hints_that_agree_are_surer_than_each_and_never_certain() -> None:
    assert stats.fuse([0.5, 0.5]) == pytest.approx(0.75)
    assert stats.fuse([1.0] * 3) < 1
    assert stats.fuse([]) == 0


def test_a_lasting_change_is_found_where_it_begins() -> None:
    values = np.array([1.0, 1.1, 5.0, 0.9, 1.0, 1.0, 2.0, 2.1, 1.9, 2.0, 2.0])
    assert stats.change_point(values, 3) == 6
    assert stats.change_point(values[:4], 3) is None


def test_a_spread_is_not_moved_by_one_wild_value() -> None:
    assert stats.spread([1.0, 2.0, 3.0, 4.0, 1_000.0]) == pytest.approx(1.4826)


def test_each_row_and_each_column_of_a_table_has_the_spread_of_its_values() -> None:
    table = np.array([[1.0, 2.0, 3.0, 90.0], [5.0, 5.0, 5.0, 5.0]])
    assert stats.spreads(table, 1).tolist() == [stats.spread(row) for row in table]
    assert stats.spreads(table, 0).tolist() == [stats.spread(column) for column in table.T]
