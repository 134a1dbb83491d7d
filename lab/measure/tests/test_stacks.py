"""The exam of hangs, one seed: its figures may not fall."""

from __future__ import annotations

import pytest

from lab.exams.stacks.exam import exam, wide
from lab.measure.stacks import mean, score


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, dict[str, float], str]]:
    return [(dumps.name, *score(dumps)) for dumps in exam(1)]


def test_hangs_are_found_in_every_form(rows: list[tuple[str, dict[str, float], str]]) -> None:
    weak = [f"{name}: {told}" for name, row, told in rows if row["covered"] < 1 or row["rank_f1"] < 0.6]
    assert not weak, "\n".join(weak)
    assert mean([row for _, row, _ in rows])["rank_f1"] >= 0.98


def test_no_form_of_dump_is_left_unread(rows: list[tuple[str, dict[str, float], str]]) -> None:
    assert not [told for _, row, told in rows if row["misread"]]


def test_one_of_512_ranks_that_is_stuck_on_its_device_is_found() -> None:
    row, told = score(next(wide(1)))
    assert (row["rank_f1"], row["node_f1"]) == (1.0, 1.0), told
