"""Chooses one of the eight conditions of a job: one ordered table, the first row that holds decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from diagnosis.conclusion.log_sentence import STATED_ENDS
from diagnosis.conclusion.model import Slowdown
from diagnosis.evidence import FlowFinding, Result, StackFinding
from diagnosis.model import HANG_ALARM, AlarmNote
from diagnosis.result import LogDiagnosis


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of the table."""

    logs: LogDiagnosis | None
    flows: FlowFinding
    stacks: StackFinding
    slowdowns: tuple[Slowdown, ...]
    stated_outcome: str = ""
    #: the alarms of a job while it runs, and those that ended
    alarms: tuple[AlarmNote, ...] = ()
    #: outcomes of checks and bad values of state reports
    results: tuple[Result, ...] = ()

    @property
    def is_failure(self) -> bool:
        return self.logs is not None and self.logs.is_failure

    @property
    def symptom(self) -> str:
        return self.logs.symptom if self.logs is not None else ""

    @property
    def outcome(self) -> str:
        """As the logs show it. Logs that run to their last line show no end of a job that people say has ended."""
        shown = self.logs.outcome if self.logs is not None else "unknown"
        return "unknown" if shown == "running" and self.stated_outcome in STATED_ENDS else shown

    @property
    def is_lasting_slow(self) -> bool:
        """A slow group or switch that only flows show, without logs about the end of the job."""
        return self.logs is None and any(row.kind in ("slow_group", "slow_switch") for row in self.flows.slow)

    @property
    def is_stuck(self) -> bool:
        """An alarm of a hang that holds, or held to the end of a job of which nothing shows a good end."""
        hangs = [alarm for alarm in self.alarms if alarm.kind == HANG_ALARM and alarm.until is None]
        return any(alarm.ended_at is None or self.outcome != "succeeded" for alarm in hangs)

    @property
    def has_stacks_alone(self) -> bool:
        """Stacks without logs: people dump them of hung or slow jobs."""
        return self.logs is None and self.stacks.has_evidence

    @property
    def has_broken_part(self) -> bool:
        """A report shows a broken part, and nothing else shows how the job goes."""
        return self.outcome == "unknown" and bool(self.faults_shown)

    @property
    def works_beside_fault(self) -> bool:
        """A report shows a broken part, and the job runs or completed all the same."""
        return self.outcome in ("running", "succeeded") and bool(self.faults_shown)

    @property
    def shows_slow_place(self) -> bool:
        """What is shown first is slow, and nothing else shows how the job goes."""
        is_slowness = [result.outcome.adds.startswith("performance.") for result in self.faults_shown]
        return self.outcome == "unknown" and any(is_slowness[:1])

    @property
    def has_failed_run(self) -> bool:
        """A run that states its own result failed, such as a test of the network."""
        return any(result.is_of_run for result in self.faults_shown)

    @property
    def faults_shown(self) -> list[Result]:
        """The results that alone show that something is broken."""
        return [result for result in self.results if result.is_fault]

    @property
    def has_ended(self) -> bool:
        return any(alarm.ended_at is not None for alarm in self.alarms)

    @property
    def has_recovered(self) -> bool:
        logs = self.logs
        return (
            logs is not None
            and logs.outcome == "succeeded"
            and any(a.outcome == "failed" and a.number < logs.attempt for a in logs.attempts)
        )


#: The order decides: an end that a person caused outranks the course before it, and a hang outranks a slowdown. A job
#: that ended well is healthy only if no earlier row holds.
TABLE: Final[tuple[tuple[str, Callable[[Situation], bool], str], ...]] = (
    ("hung", lambda s: s.is_failure and s.symptom == "hang", "progress stopped and nothing had ended"),
    ("degraded", lambda s: s.is_failure and s.symptom == "slow", "the job became slow"),
    ("cancelled", lambda s: s.is_failure and s.outcome == "cancelled", "a person or the scheduler ended the job"),
    ("failed", lambda s: s.is_failure, "the job ended with an error"),
    ("hung", lambda s: s.is_stuck, "the job makes no progress while it runs"),
    ("hung", lambda s: s.has_stacks_alone and not s.stacks.is_moving, "the stacks do not change"),
    ("degraded", lambda s: s.has_stacks_alone and s.stacks.is_moving, "the stacks change: it is slow"),
    ("degraded", lambda s: bool(s.slowdowns) or s.is_lasting_slow, "steps took longer than usual"),
    ("degraded", lambda s: any(a.ended_at is None for a in s.alarms), "the running job has or had an alarm"),
    ("degraded", lambda s: s.shows_slow_place, "a place is slow, or slower than the others"),
    ("failed", lambda s: s.has_broken_part, "a report of the machines shows a broken part"),
    ("degraded", lambda s: s.works_beside_fault, "a report of the machines shows a broken part while the job works"),
    ("recovered", lambda s: s.has_recovered, "an earlier launch failed, the last one ended well"),
    ("cancelled", lambda s: s.outcome == "cancelled", "a person or the scheduler ended the job"),
    ("running", lambda s: s.outcome == "running", "the logs continue to the last moment"),
    ("healthy", lambda s: s.outcome == "succeeded", "the job reports a good end"),
    ("healthy", lambda s: s.logs is None and bool(s.flows.jobs), "the flows show no slow step"),
)


def condition(situation: Situation) -> tuple[str, str]:
    """The condition and why."""
    for name, holds, why in TABLE:
        if holds(situation):
            return name, why
    return "unknown", "no evidence shows how the job ended"


#: How a job ended, by its condition; a job of another condition ended as its logs say.
_OUTCOME_OF_CONDITION: Final = {
    "failed": "failed",
    "recovered": "succeeded",
    "cancelled": "cancelled",
    "running": "running",
}


def outcome(name: str, situation: Situation) -> str:
    """How the job ended: succeeded, failed, cancelled, running, or unknown. A job that hung did not succeed, and a
    running one has not ended.
    """
    if situation.is_stuck and not situation.is_failure:
        return "failed" if situation.has_ended else "running"
    if name == "failed" and not situation.is_failure:
        # a broken part alone ends no job
        return "failed" if situation.has_failed_run else situation.outcome
    seen = _OUTCOME_OF_CONDITION.get(name, situation.outcome)
    return "failed" if name == "hung" and seen in ("succeeded", "unknown") else seen
