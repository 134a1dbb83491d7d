"""A job that was stopped after it had stalled, if only stacks or flows show the stall: its logs
print no progress with times. Whoever stopped it ended what had hung.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs
from msgspec.structs import replace

from diagnosis import taxonomy
from diagnosis.evidence import FlowFinding, StackFinding
from diagnosis.facts.silences import is_long_silence
from diagnosis.model import Role
from diagnosis.records.result import LogDiagnosis, LogEvent, Verdict
from diagnosis.taxonomy import UNKNOWN


def with_stall(logs: LogDiagnosis, stacks: StackFinding, flows: FlowFinding) -> LogDiagnosis:
    """``logs`` of a stopped job as of a hang, if stacks or flows show a stall; else unchanged."""
    is_stop = "decision" in taxonomy.load().get(logs.verdict.id).traits
    if not logs.is_failure or logs.symptom != "crash" or not is_stop:
        return logs
    if not (stacks.is_stuck or _was_silent(logs, flows)):
        return logs
    unknown = taxonomy.load()[UNKNOWN]
    verdict = Verdict(unknown.id, unknown.category, unknown.subcategory, 0.0)
    events = tuple(map(_as_end, logs.events))
    hung = replace(logs, symptom="hang", stage="training", verdict=verdict)
    return replace(hung, events=events, indicators=())


def _as_end(event: LogEvent) -> LogEvent:
    """A stop is the end of a job that hung, and no cause of it."""
    return structs.replace(event, role=Role.TEARDOWN.value) if event.role == Role.ROOT else event


def _was_silent(logs: LogDiagnosis, flows: FlowFinding) -> bool:
    """Whether the last step of every job in flows ended long before the stop, by its own pace."""
    ends = [event for event in logs.events if event.role == Role.ROOT and event.is_stamped]
    stopped_at = min((end.first_at for end in ends if end.first_at is not None), default=None)
    courses = [job.steps for job in flows.jobs if len(job.steps) > 1]
    if stopped_at is None or not courses:
        return False
    for steps in courses:
        usual_s = float(np.median([step.seconds for step in steps]))
        if not is_long_silence(stopped_at - steps[-1].end, usual_s):
            return False
    return True
