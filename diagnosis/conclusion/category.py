"""The category with its alternatives: shares of one whole, so they sum to at most 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from diagnosis import taxonomy, thresholds
from diagnosis.conclusion import weigh
from diagnosis.evidence import Finding, Result, StackFinding
from diagnosis.result import LogDiagnosis
from diagnosis.taxonomy import UNKNOWN

THRESHOLDS: Final = thresholds.of("category")

NONE: Final = "none"
#: The category of a job whose steps are slow while nothing shows why.
SLOW_STEPS: Final = "performance.step"
#: The category of a job that a person or the scheduler ended.
CANCELLED: Final = "platform.scheduler.cancelled"
#: Conditions without a current problem.
CONDITIONS_WITHOUT_PROBLEM: Final = ("healthy", "running", "recovered", "unknown")


def shares(
    condition: str,
    logs: LogDiagnosis | None,
    findings: Sequence[Finding],
    stacks: StackFinding,
    results: Sequence[Result] = (),
) -> list[tuple[str, float]]:
    """Categories with their probabilities after the results of checks, the answer first."""
    is_slow = any(f.what == "slow" or f.source == "watch" for f in findings)
    is_only_shown = condition == "degraded" and not is_slow and any(result.is_fault for result in results)
    rows = [(UNKNOWN, 0.0)] if is_only_shown else _shares_from_evidence(condition, logs, findings, stacks)
    if condition in CONDITIONS_WITHOUT_PROBLEM or condition == "cancelled":
        return rows
    return cap_shares(weigh.update_categories(rows, results))


def _shares_from_evidence(
    condition: str, logs: LogDiagnosis | None, findings: Sequence[Finding], stacks: StackFinding
) -> list[tuple[str, float]]:
    if logs is not None and logs.is_failure:
        return _shares_of_failure(logs, findings)
    if condition == "degraded":
        return _shares_of_slow_job(findings)
    if condition in CONDITIONS_WITHOUT_PROBLEM:
        sure = logs.verdict.confidence if logs is not None else THRESHOLDS.no_logs
        return [(NONE, round(sure, 4))]
    if condition == "cancelled":
        return [(CANCELLED, THRESHOLDS.cancelled)]
    if stacks.category:
        return [(stacks.category, stacks.category_p)]
    return [(UNKNOWN, 0.0)]


def _shares_of_failure(logs: LogDiagnosis, findings: Sequence[Finding]) -> list[tuple[str, float]]:
    """The logs' category and their runner-up; without one, that of a node that owes a message."""
    if logs.verdict.id in (NONE, UNKNOWN):
        owed = next((f.category for f in findings if f.what == "flows_ceased" and f.category), "")
        return [(owed, THRESHOLDS.flows_only)] if owed else [(UNKNOWN, 0.0)]
    rows = [(logs.verdict.id, logs.verdict.confidence)]
    if logs.verdict.runner_up is not None:
        rows.append(logs.verdict.runner_up)
    return cap_shares(rows)


def _shares_of_slow_job(findings: Sequence[Finding]) -> list[tuple[str, float]]:
    """The category of the surest finding of flows with a place; else that of slow steps, or of the only alarm."""
    slow = [f for f in findings if f.what == "slow"]
    placed = [f for f in slow if f.source == "flows" and f.places]
    if placed:
        best = max(placed, key=lambda f: f.p)
        return cap_shares([(best.category or SLOW_STEPS, max(THRESHOLDS.named, best.p)), (SLOW_STEPS, 1.0)])
    alarm = next((f.category for f in findings if f.source == "watch"), None)
    if alarm is None or any(f.source != "watch" for f in slow):
        return [(SLOW_STEPS, THRESHOLDS.slow)]
    return [(alarm, 0.0 if alarm == UNKNOWN else THRESHOLDS.alarm)]


def cap_shares(rows: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Probabilities of alternatives that exclude each other: at most 1 in total, in falling order, each once."""
    left = 1.0
    out: list[tuple[str, float]] = []
    seen: set[str] = set()
    for name, p in rows:
        share = min(max(p, 0.0), left)
        if name in seen or (out and share <= 0.0):
            continue
        if out:
            share = min(share, out[-1][1])
        seen.add(name)
        out.append((name, round(share, 4)))
        left = max(0.0, left - share)
    return out


def category_and_subcategory(leaf_id: str) -> tuple[str, str]:
    """Category and subcategory of a leaf."""
    leaf: Any = taxonomy.load().get(leaf_id)
    return leaf.category, leaf.subcategory
