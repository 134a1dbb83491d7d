"""No step of an analysis of flows grows faster than its records and members, and each says what it costs.

Compared are the calls and turns of loops of Python (``counting_steps``) of each step. What is done with columns costs
none of them, so a step that looks at records one by one is noticed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from diagnosis.kinds.flows.tell import engine, one_job
from diagnosis.processing import jit
from tests.diagnosis.kinds.flows.simulate import Job, simulate
from tests.diagnosis.kinds.flows.test_pieces import report_of
from tests.diagnosis.test_growth import MOST_POWER, counted
from tests.patience import counting_steps

STEPS: Final[tuple[tuple[ModuleType, str], ...]] = (
    (engine, "load_capture"),
    (engine, "align_windows"),
    (engine, "recognise"),
    (one_job, "split_successive"),
    (one_job, "classify_pairs"),
    (one_job, "correct_clocks"),
    (one_job, "divide_by_unit"),
    (one_job, "find_steps"),
    (one_job, "close_steps"),
    (one_job, "with_work"),
    (one_job, "without_planned"),
    (one_job, "begin_rows"),
    (one_job, "find_layout"),
    (one_job, "exact_to_s"),
    (one_job, "measure_transfers"),
    (one_job, "stage_times"),
    (one_job, "late_members"),
    (one_job, "slow_workers"),
    (one_job, "find_stragglers"),
    (engine, "slow_transfers"),
    (engine, "explain"),
    (engine, "find_lasting_slowness"),
    (engine, "describe"),
)
#: What a step may take beside, as turns of loops.
BESIDE: Final = 2_000


@pytest.mark.parametrize(("module", "name"), STEPS)
def test_each_step_of_flows_says_what_it_costs(module: ModuleType, name: str) -> None:
    assert "O(" in (getattr(module, name).__doc__ or "")


def steps_of_each(job: Job, place: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The steps of Python of each step of the analysis."""
    jit.load()  # compiling a loop takes a million steps
    capture = simulate(job)
    report_of(capture.records, capture.inventory, place / "before")
    spent: Counter[str] = Counter()
    with monkeypatch.context() as patched, counting_steps() as so_far:
        for module, name in STEPS:
            patched.setattr(module, name, counted(name, module, name, so_far, spent))
        report_of(capture.records, capture.inventory, place / "counted")
    return spent


@pytest.mark.parametrize("twice", ["steps", "dp"])
def test_no_step_of_flows_grows_faster_than_the_job(
    twice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tp=2, pp=4, dp=8, gpus=2, steps=20)
    few = steps_of_each(job, tmp_path / "few", monkeypatch)
    larger = replace(job, **{twice: 2 * getattr(job, twice)})
    many = steps_of_each(larger, tmp_path / "many", monkeypatch)
    assert len(few) == len(STEPS)
    assert {step for step in few if many[step] > 2**MOST_POWER * few[step] + BESIDE} == set()
