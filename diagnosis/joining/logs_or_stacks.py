"""Logs, stacks and flows of one job may say different things of its end. Here is decided which of them counts.

1. A job that was stopped after it had stalled hung: if its logs do not show the stall, stacks or flows may.
2. A cause that the logs name stands. Where they name none, the category of the stacks counts.
3. Which machine it was, all of them say together: :mod:`joined_suspects`, each kind with its trust.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import FlowFinding, StackFinding
from diagnosis.joining.stopped_hangs import with_stall
from diagnosis.records.result import LogDiagnosis, Verdict

THRESHOLDS: Final = thresholds.of("joined_suspects")

#: Verdicts of the logs without a cause.
_WITHOUT_CAUSE: Final = ("unknown", "framework.collective.timeout")
#: The verdict of logs that show slow steps and not why.
_SLOW: Final = "performance.step"


def with_other_evidence(logs: LogDiagnosis | None, stacks: StackFinding, flows: FlowFinding) -> LogDiagnosis | None:
    """What the logs say, with what only stacks and flows know of it."""
    return None if logs is None else with_stacks(with_stall(logs, stacks, flows), stacks)


def has_cause(logs: LogDiagnosis | None) -> bool:
    """Whether the logs of a failed job name its cause. That its steps are slow is none."""
    return logs is not None and logs.is_failure and logs.verdict.id not in (*_WITHOUT_CAUSE, _SLOW)


def with_stacks(logs: LogDiagnosis, stacks: StackFinding) -> LogDiagnosis:
    """``logs`` with the category of the stacks, if the logs have none; else unchanged."""
    if not stacks.category or not logs.is_failure or logs.verdict.id not in _WITHOUT_CAUSE:
        return logs
    leaf = taxonomy.load().get(stacks.category)
    former = logs.verdict
    other = (former.id, min(former.confidence, THRESHOLDS.replaced)) if former.confidence > 0 else None
    reason = f"The stacks show the cause: {stacks.headline or stacks.reason}"
    return replace(
        logs,
        verdict=Verdict(leaf.id, leaf.category, leaf.subcategory, stacks.category_p, other),
        inferred=(reason, *logs.inferred),
    )
