"""Chooses one of the eight conditions of a job: one ordered table, the first row that holds
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Final

import msgspec

from diagnosis.conclusion.model import STATED_ENDS, Slowdown
from diagnosis.evidence import NO_FACTS, SETUP_CHECK, FactSummary, FlowFinding, Result, StackFinding
from diagnosis.model import HANG_ALARM, AlarmNote
from diagnosis.records.result import LogDiagnosis

#: Slow parts that last: without logs, what flows show of them is the course of the job.
_LASTING_KINDS: Final = ("slow_group", "slow_switch")


class Situation(msgspec.Struct, frozen=True):
    """The input of the table. ``logs``: ``NO_LOGS`` without log lines."""

    logs: LogDiagnosis
    flows: FlowFinding
    stacks: StackFinding
    slowdowns: tuple[Slowdown, ...]
    stated_outcome: str = ""
    #: the alarms of a job while it runs, and those that ended
    alarms: tuple[AlarmNote, ...] = ()
    #: outcomes of checks and bad values of state reports
    results: tuple[Result, ...] = ()
    facts: FactSummary = NO_FACTS

    def has_failed_with(self, symptom: str) -> bool:
        """Whether the logs show a failure with this symptom."""
        return self.logs.is_failure and self.logs.symptom == symptom

    @property
    def outcome(self) -> str:
        """As the logs show it; logs that run on do not show an end that people state."""
        if self.logs.outcome == "running" and self.stated_outcome in STATED_ENDS:
            return "unknown"
        return self.logs.outcome

    @property
    def is_cancelled(self) -> bool:
        return self.outcome == "cancelled"

    @property
    def has_stated_success(self) -> bool:
        """Calm flows alone, of a job of which people or the scheduler say that it ended well."""
        is_stated_good = self.stated_outcome == "succeeded"
        return self.has_only_calm_flows and is_stated_good

    @property
    def is_slow(self) -> bool:
        """Stretches of slow steps; or, without logs of the end, a slow group or switch."""
        kinds = {row.kind for row in self.flows.slow}
        is_lasting = not self.logs.has_evidence and not kinds.isdisjoint(_LASTING_KINDS)
        return is_lasting or bool(self.slowdowns)

    @property
    def is_stuck(self) -> bool:
        """An alarm of a hang that holds, or held to an end of which nothing good is shown."""
        lasting = [alarm for alarm in self.alarms if alarm.until is None]
        hangs = [alarm for alarm in lasting if alarm.kind == HANG_ALARM]
        is_open = self.outcome != "succeeded"
        return any(is_open or alarm.ended_at is None for alarm in hangs)

    @property
    def has_open_alarm(self) -> bool:
        """An alarm of a job whose end is not known."""
        return any(alarm.ended_at is None for alarm in self.alarms)

    @property
    def has_ended(self) -> bool:
        return any(alarm.ended_at is not None for alarm in self.alarms)

    @property
    def has_stacks_alone(self) -> bool:
        """Compared stacks without logs: people dump them of hung or slow jobs."""
        has_course = self.stacks.has_evidence and self.stacks.shows_course
        return has_course and not self.logs.has_evidence

    @property
    def has_broken_part(self) -> bool:
        """A report shows a broken part, and nothing else shows how the job goes."""
        return self.outcome == "unknown" and bool(self.faults_shown)

    @property
    def works_beside_fault(self) -> bool:
        """A report shows a broken part, and the job runs or completed all the same."""
        present = [result for result in self.faults_shown if not result.is_former]
        return self.outcome in ("running", "succeeded") and bool(present)

    @property
    def shown_since(self) -> int | None:
        """The iteration from which on the progress of the job shows what is wrong."""
        return next((one.iteration for one in self.faults_shown), None)

    @property
    def learns_nothing(self) -> bool:
        """The progress of a job that runs or completed shows what is wrong."""
        return self.works_beside_fault and self.shown_since is not None

    @property
    def works_slowly(self) -> bool:
        """The job runs or completed, and what is shown first is slow."""
        return self.works_beside_fault and self.faults_shown[0].outcome.adds.startswith("performance.")

    @property
    def shows_rank_behind(self) -> bool:
        """What is shown first is a rank that others wait for, and nothing shows that the job went
        on. A run that ended, such as a test of the network, waits no more.
        """
        present = [result for result in self.faults_shown if not result.is_of_run]
        is_wait = [result.outcome.adds.startswith("framework.collective.") for result in present]
        return self.outcome == "unknown" and any(is_wait[:1])

    @property
    def shows_slow_place(self) -> bool:
        """What is shown first is slow, and nothing else shows how the job goes."""
        is_slowness = [result.outcome.adds.startswith("performance.") for result in self.faults_shown]
        return self.outcome == "unknown" and any(is_slowness[:1])

    @property
    def shows_setup(self) -> bool:
        """What is shown first is a difference of set-up, and nothing else shows how the job goes."""
        is_setup = [result.check.id == SETUP_CHECK for result in self.faults_shown]
        return self.outcome == "unknown" and any(is_setup[:1])

    @property
    def has_failed_run(self) -> bool:
        """A run that states its own result failed, such as a test of the network."""
        return any(result.is_of_run for result in self.faults_shown)

    @property
    def has_stated_end(self) -> bool:
        """A report says that a process of the job ended badly, and the logs only break off."""
        is_stated = any(result.is_end for result in self.faults_shown)
        return is_stated and self.outcome in ("running", "unknown")

    @property
    def faults_shown(self) -> list[Result]:
        """The results that alone show that something is broken."""
        return [result for result in self.results if result.is_fault]

    @property
    def doubts(self) -> list[Result]:
        """The results that speak against a part. Without one of ``faults_shown`` among them, none
        shows alone that it is broken.
        """
        return [result for result in self.results if result.outcome.adds]

    @property
    def has_recovered(self) -> bool:
        """An earlier launch failed, the diagnosed one ended well."""
        earlier = [a.outcome for a in self.logs.attempts if a.number < self.logs.attempt]
        return self.logs.outcome == "succeeded" and "failed" in earlier

    @property
    def has_only_calm_flows(self) -> bool:
        """Flows without logs, and no member stopped in the middle of an exchange. Traffic ends
        alike whether the job completed or died between two exchanges.
        """
        ceased = chain.from_iterable(job.ceased for job in self.flows.jobs)
        owing = [member for member in ceased if member.owes]
        return self._has_flows_alone and not owing

    @property
    def _has_flows_alone(self) -> bool:
        """Jobs in flows, and no line of a log."""
        has_jobs = bool(self.flows.jobs)
        has_logs = self.logs.has_evidence
        return has_jobs and not has_logs


#: The order decides: an end that a person caused outranks the course before it, and a hang outranks a slowdown. A job
#: that ended well is healthy only if no earlier row holds.
TABLE: Final[tuple[tuple[str, Callable[[Situation], bool], str], ...]] = (
    ("hung", lambda s: s.has_failed_with("hang"), "progress stopped and nothing had ended"),
    ("degraded", lambda s: s.has_failed_with("slow"), "the job became slow"),
    ("cancelled", lambda s: s.logs.is_failure and s.is_cancelled, "a person or the scheduler ended the job"),
    ("failed", lambda s: s.logs.is_failure, "the job ended with an error"),
    ("hung", lambda s: s.is_stuck, "the job makes no progress while it runs"),
    ("hung", lambda s: s.has_stacks_alone and not s.stacks.is_moving, "the stacks do not change"),
    ("hung", lambda s: s.outcome == "unknown" and s.stacks.is_stuck, "ranks wait, and the stacks do not change"),
    ("degraded", lambda s: s.has_stacks_alone, "the stacks change: it is slow"),
    ("degraded", lambda s: s.is_slow, "steps took longer than usual"),
    ("degraded", lambda s: s.has_open_alarm, "the running job has or had an alarm"),
    ("hung", lambda s: s.shows_rank_behind, "a rank is behind, and nothing shows that the job went on"),
    ("degraded", lambda s: s.shows_slow_place, "a place is slow, or slower than the others"),
    ("degraded", lambda s: s.shows_setup, "nodes are not set up as the others, or as usual"),
    ("failed", lambda s: s.has_stated_end, "a report says that a process of the job ended badly"),
    ("failed", lambda s: s.has_broken_part, "a report of the machines shows a broken part"),
    ("degraded", lambda s: s.works_slowly, "a place is slow, or slower than the others"),
    ("degraded", lambda s: s.learns_nothing, "the loss shows that it learns nothing"),
    ("degraded", lambda s: s.works_beside_fault, "a report of the machines shows a broken part while the job works"),
    ("recovered", lambda s: s.has_recovered, "an earlier launch failed, the last one ended well"),
    ("cancelled", lambda s: s.is_cancelled, "a person or the scheduler ended the job"),
    ("running", lambda s: s.outcome == "running", "the logs continue to the last moment"),
    ("healthy", lambda s: s.outcome == "succeeded", "the job reports a good end"),
    ("healthy", lambda s: s.has_stated_success, "people say that it ended well"),
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
    """How the job ended: succeeded, failed, cancelled, running, or unknown. A job that hung did not
    succeed, and a running one has not ended.
    """
    shown = situation.outcome
    if not situation.logs.is_failure:
        if situation.is_stuck:
            return "failed" if situation.has_ended else "running"
        # a broken part alone ends no job
        is_stated = any((situation.has_failed_run, situation.has_stated_end))
        if name == "failed" and not is_stated:
            return shown
    ended = _OUTCOME_OF_CONDITION.get(name, shown)
    if name == "hung" and ended in ("succeeded", "unknown"):
        return "failed"
    return ended
