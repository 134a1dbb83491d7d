"""Single files of 512 ranks: their content, and that machine and rank are named with every kind of name."""

from __future__ import annotations

import itertools

import pytest

from lab.exams.single_file import LAUNCHERS, Log, logs
from lab.measure.single_file import report_of, row

FIRST = list(itertools.islice(logs(3), len(LAUNCHERS)))


def test_the_same_seed_makes_the_same_bytes_and_each_log_names_who_is_at_fault() -> None:
    assert [log.text for log in itertools.islice(logs(3), 2)] == [log.text for log in FIRST[:2]]
    assert all(log.node in log.text for log in logs(3))


@pytest.mark.parametrize("log", FIRST, ids=lambda log: log.name)
def test_machine_and_rank_are_named_in_a_file_of_512_ranks(log: Log) -> None:
    found = row(log, report_of(log))
    assert (found["node"], found["rank"] in (1.0, None), found["stranger"]) == (1.0, True, 0.0)
