"""The nodes that print the root events."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from diagnosis.kinds.logs.compare.detectors import cause
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job
from tests.diagnosis.test_log_engine import fallen_gpu


def test_the_only_node_with_the_fault_is_seen(tmp_path: Path) -> None:
    clues = list(cause.look(case_of(fallen_gpu(), tmp_path)))
    assert {clue.node for clue in clues} == {"gpu-0003"}
    assert clues[0].reason == "gpu-0003 is the only node with: the GPU has fallen off the bus"


def test_without_root_events_there_is_nothing_to_see(tmp_path: Path) -> None:
    assert list(cause.look(case_of(Job(nodes=4, iterations=12).completes(), tmp_path))) == []


def speed(
    node: str, reporters: list[int], category: str | None = "performance.network", slow_from: int | None = None
) -> Any:
    """A case whose leading event is written by source 7 on ``node``; ``reporters``: sources that report progress."""
    return SimpleNamespace(
        lead={"event": 3, "category": category, "signature": category and "a.rule"},
        pace=SimpleNamespace(slow_from=slow_from),
        catalogue=SimpleNamespace(cells=pl.DataFrame({"event": [3, 3, 4], "source": [7, 7, 9], "node": [node] * 3})),
        progress=SimpleNamespace(beats=pl.DataFrame({"source": reporters})),
        home={0: "n1"}.get,
    )


def test_who_speaks_for_the_job_says_nothing_of_the_speed_of_its_own_machine() -> None:
    assert cause.is_of_the_job(speed("n2", reporters=[7, 7]))  # the only one that reports progress
    assert cause.is_of_the_job(speed("n1", reporters=[5, 6, 7]))  # on the machine of rank 0
    assert not cause.is_of_the_job(speed("n2", reporters=[5, 6, 7]))
    assert not cause.is_of_the_job(speed("n2", reporters=[7], category="hardware.gpu.ecc"))


def test_an_unknown_line_of_the_reporter_about_a_slow_job_is_of_the_job() -> None:
    assert cause.is_of_the_job(speed("n2", reporters=[7], category=None, slow_from=90))
    assert not cause.is_of_the_job(speed("n2", reporters=[7], category=None))
