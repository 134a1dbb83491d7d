"""A node whose log ends well before those of its peers."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs.detectors import early
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def test_the_node_that_fell_silent_first_is_seen(tmp_path: Path) -> None:
    job = Job(nodes=6, iterations=12)
    job.cut = {2: job.ends - 60}
    clues = list(early.look(case_of(job.timed_out(job.ends + 600), tmp_path)))
    assert [clue.node for clue in clues] == ["gpu-0002"]
    assert clues[0].tells == "hardware.host.lost"


def test_nodes_that_all_write_to_the_end_are_not(tmp_path: Path) -> None:
    job = Job(nodes=6, iterations=12)
    assert list(early.look(case_of(job.timed_out(job.ends + 600), tmp_path))) == []
