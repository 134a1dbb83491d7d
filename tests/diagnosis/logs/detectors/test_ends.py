"""The end of a job: launchers that never ended their workers, and quiet nodes."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs.detectors import quiet, undismissed
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def job(nodes: int = 8) -> Job:
    return Job(nodes=nodes, iterations=12)


def test_the_launcher_that_never_ends_its_workers_is_seen(tmp_path: Path) -> None:
    case = case_of(job().torn_down(500, but=(4,)), tmp_path)
    assert [clue.node for clue in undismissed.look(case)] == ["gpu-0004"]


def test_launchers_that_end_together_prove_nothing(tmp_path: Path) -> None:
    case = case_of(job().torn_down(500), tmp_path)
    assert [*undismissed.look(case), *quiet.look(case)] == []


def test_a_node_that_writes_nothing_at_the_end_is_lost(tmp_path: Path) -> None:
    made = job()
    case = case_of(made.timed_out(made.ends + 600, but=(6,)).torn_down(made.ends + 605, but=(6,)), tmp_path)
    assert [clue.node for clue in quiet.look(case)] == ["gpu-0006"]
