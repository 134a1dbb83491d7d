"""When what is wrong began: the first slow step, the line of the cause, or the last progress."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from diagnosis.conclusion.conclude import _moment
from diagnosis.conclusion.condition import Situation, condition
from diagnosis.conclusion.model import Moment, Slowdown
from diagnosis.evidence import Finding, FlowFinding, StackFinding
from diagnosis.records.result import NO_LOGS, LogDiagnosis
from diagnosis.records.timeline_rows import IterationRow, Timeline
from tests.diagnosis.conclusion.test_decisions import BROKEN, ENDED, FAILED, POINT, ROOT, SLOW_PLACE, STRETCH

ODD = Finding("watch", "slow", "It became slow", at=95.0)


@pytest.mark.parametrize(
    ("name", "logs", "stretches", "chain", "expected"),
    [
        ("healthy", ENDED, (), (ROOT,), None),
        ("running", ENDED, (), (ROOT,), None),
        ("unknown", ENDED, (), (ROOT,), None),
        ("failed", FAILED, (), (POINT, ROOT), (100.0, None, "training", 12, "the first line of the cause")),
        ("failed", FAILED, (STRETCH,), (POINT, ROOT), (100.0, None, "training", 12, "the first line of the cause")),
        ("failed", FAILED, (), (Finding("logs", "root", "x"), POINT),
         (90.0, None, "training", 12, "the last progress")),
        ("hung", None, (), (Finding("logs", "x", "x"), Finding("stacks", "x", "x", at=7.0)),
         (7.0, None, None, None, "the first dated finding")),
        ("degraded", None, (replace(STRETCH, at=200.0), STRETCH), (),
         (100.0, 140.0, "training", 3, "the first slow step")),
        ("degraded", replace(ENDED, stage="evaluation"),
         (replace(STRETCH, at=None), replace(STRETCH, is_over=False)), (),
         (100.0, None, "evaluation", 3, "the first slow step")),
        ("degraded", FAILED, (), (ROOT,), (100.0, None, None, None, "the first line of the cause")),
        ("degraded", FAILED, (), (POINT, ODD), (95.0, None, None, None, "the first dated finding")),
        ("degraded", FAILED, (), (POINT,), (None, None, None, None, "the first dated finding")),
    ],
)  # fmt: skip
def test_the_moment_is_that_of_the_first_slow_step_the_cause_or_the_last_progress(
    name: str, logs: LogDiagnosis | None, stretches: tuple[Slowdown, ...], chain: tuple[Finding, ...],
    expected: tuple[Any, ...] | None,
) -> None:  # fmt: skip
    situation = Situation(logs or NO_LOGS, FlowFinding(), StackFinding(), stretches)
    found = _moment(name, "it is so", situation, chain)
    assert found == (None if expected is None else Moment(*expected, why="it is so"))


@pytest.mark.parametrize(
    ("iterations", "at"),
    [([(30, 8.0), (31, 9.0), (40, 10.0)], 9.0), ([(30, 8.0), (40, 10.0)], 10.0), ([(30, 8.0)], None)],
)
def test_a_job_that_learns_nothing_any_more_is_so_since_the_iteration_that_its_sentence_names(
    iterations: list[tuple[int, float]], at: float | None
) -> None:
    rows = [IterationRow(number, ended_at) for number, ended_at in iterations]
    logs = replace(ENDED, timeline=Timeline(iterations=rows))
    lost = replace(BROKEN, iteration=31)
    situation = Situation(logs, FlowFinding(), StackFinding(), (), results=(lost,))
    name, why = condition(situation)
    assert (name, why) == ("degraded", "the loss shows that it learns nothing")
    progress = Finding("logs", "progress", "last iteration 65", at=20.0)
    found = _moment(name, why, situation, (progress,))
    assert found is not None
    assert (found.at, found.iteration) == (at, 31)


def test_a_slow_place_of_a_running_job_is_no_broken_part_and_no_loss() -> None:
    slow = replace(BROKEN, iteration=31, outcome=replace(BROKEN.outcome, adds="performance.straggler"))
    situation = Situation(ENDED, FlowFinding(), StackFinding(), (), results=(slow,))
    name, why = condition(situation)
    assert (name, why) == ("degraded", "a place is slow, or slower than the others")
    found = _moment(name, why, situation, ())
    assert found is not None
    assert found.iteration == 31


def test_a_slow_place_of_a_job_without_an_end_is_so_since_its_first_slow_step() -> None:
    slow = replace(SLOW_PLACE, iteration=31)
    situation = Situation(NO_LOGS, FlowFinding(), StackFinding(), (), results=(slow,))
    name, why = condition(situation)
    found = _moment(name, why, situation, ())
    assert found is not None
    assert (name, found.iteration) == ("degraded", 31)
