"""A node that does not print what nearly all print."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs.detectors import lacking
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def clues_of(but: tuple[int, ...], work: Path) -> set[str]:
    job = Job(nodes=8, iterations=12)
    return {clue.node for clue in lacking.look(case_of(job.timed_out(job.ends + 600, but), work))}


def test_the_node_that_reports_no_time_out_is_the_one_waited_for(tmp_path: Path) -> None:
    assert clues_of((5,), tmp_path) == {"gpu-0005"}


def test_where_half_report_it_nobody_is_odd(tmp_path: Path) -> None:
    assert clues_of((0, 1, 2, 3), tmp_path) == set()
