"""The nodes that print the root events."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.compare.detectors import cause
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job
from tests.diagnosis.test_log_engine import fallen_gpu


def test_the_only_node_with_the_fault_is_seen(tmp_path: Path) -> None:
    clues = list(cause.find_clues(case_of(fallen_gpu(), tmp_path)))
    assert {clue.node for clue in clues} == {"gpu-0003"}
    assert clues[0].reason == "gpu-0003 is the only node with: the GPU has fallen off the bus"


def test_without_root_events_there_is_nothing_to_see(tmp_path: Path) -> None:
    assert list(cause.find_clues(case_of(Job(nodes=4, iterations=12).completes(), tmp_path))) == []
