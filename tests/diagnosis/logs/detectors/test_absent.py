"""A node of the job that wrote nothing at all."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs.detectors import absent
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def clues_of(job: Job, work: Path) -> list[str]:
    return [clue.node for clue in absent.look(case_of(job.timed_out(job.ends + 600), work))]


def test_the_one_node_without_a_log_is_seen(tmp_path: Path) -> None:
    assert clues_of(Job(nodes=6, iterations=12, absent=frozenset({3})), tmp_path) == ["gpu-0003"]


def test_half_of_the_nodes_without_logs_are_an_incomplete_upload(tmp_path: Path) -> None:
    assert clues_of(Job(nodes=6, iterations=12, absent=frozenset({3, 4, 5})), tmp_path) == []
