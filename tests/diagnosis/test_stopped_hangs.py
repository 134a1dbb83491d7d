"""A stopped job that stacks or flows show as stalled had hung."""

from __future__ import annotations

import pytest

from diagnosis.evidence import FlowFinding, StackFinding
from diagnosis.evidence.flow_findings import FlowJob, Interval
from diagnosis.joining.stopped_hangs import with_stall
from diagnosis.records.result import LogDiagnosis, LogEvent, Verdict

STOP = LogEvent("a", "told to stop", "root", category="platform.scheduler.cancelled", first_at=160.0)
STOPPED = LogDiagnosis(
    is_failure=True,
    outcome="cancelled",
    verdict=Verdict("platform.scheduler.cancelled", "platform", "scheduler", 0.9),
    symptom="crash",
    stage="training",
    iteration=30,
    events=(STOP,),
)
NO_FLOWS, NO_STACKS = FlowFinding(), StackFinding()


def flows_until(second: float) -> FlowFinding:
    return FlowFinding(jobs=(FlowJob(steps=tuple(Interval(second - n, second - n + 1) for n in (3, 2, 1))),))


def test_stacks_that_do_not_move_show_a_hang_before_the_stop() -> None:
    told = with_stall(STOPPED, StackFinding(suspect_ranks=(3,)), NO_FLOWS)
    assert (told.symptom, told.verdict.id, told.events[0].role) == ("hang", "unknown", "teardown")
    assert with_stall(STOPPED, StackFinding(suspect_ranks=(3,), is_moving=True), NO_FLOWS) == STOPPED


@pytest.mark.parametrize(("last_step_at", "symptom"), [(120.0, "hang"), (158.0, "crash")])
def test_flows_that_ended_long_before_the_stop_show_a_hang(last_step_at: float, symptom: str) -> None:
    assert with_stall(STOPPED, NO_STACKS, flows_until(last_step_at)).symptom == symptom
