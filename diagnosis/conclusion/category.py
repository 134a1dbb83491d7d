"""The category with its alternatives: shares of one whole, so they sum to at most 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import Finding, Result, StackFinding
from diagnosis.joining import checked_suspects
from diagnosis.records.result import LogDiagnosis
from diagnosis.taxonomy import UNKNOWN

THRESHOLDS: Final = thresholds.of("category")

NONE: Final = "none"
#: The category of a job whose steps are slow while nothing shows why.
SLOW_STEPS: Final = "performance.step"
#: The category of a job that a person or the scheduler ended.
CANCELLED: Final = "platform.scheduler.cancelled"
#: What ends jobs that are well.
_ENDS: Final = ("platform.scheduler.preemption", "platform.scheduler.time_limit")
#: Conditions without a current problem.
CONDITIONS_WITHOUT_PROBLEM: Final = ("healthy", "running", "recovered", "unknown")


def shares(
    condition: str,
    logs: LogDiagnosis,
    findings: Sequence[Finding],
    stacks: StackFinding,
    results: Sequence[Result] = (),
) -> list[tuple[str, float]]:
    """Categories with their probabilities after the results of checks, the answer first."""
    rows = _shares_from_evidence(condition, logs, findings, stacks)
    if _is_only_shown(condition, findings, results):
        rows = [(UNKNOWN, 0.0)]
    if condition == "cancelled":
        return _shares_of_end(rows, results)
    if condition in CONDITIONS_WITHOUT_PROBLEM:
        return rows
    return cap_shares(checked_suspects.update_categories(rows, results))


def _is_only_shown(condition: str, findings: Sequence[Finding], results: Sequence[Result]) -> bool:
    """Whether a job is degraded by a broken part that a report shows, and neither slow steps nor an
    alarm show it.
    """
    is_slow = any(finding.what == "slow" or finding.source == "watch" for finding in findings)
    is_shown = any(result.is_fault for result in results)
    return condition == "degraded" and is_shown and not is_slow


def _shares_of_end(rows: list[tuple[str, float]], results: Sequence[Result]) -> list[tuple[str, float]]:
    """Who ended the job, where a report says it: the job sees only that it was told to stop."""
    strongest_first = sorted(results, key=lambda result: -result.outcome.ratio)
    told = [
        (one.outcome.adds, checked_suspects.posterior(THRESHOLDS.ended, one.outcome.ratio))
        for one in strongest_first
        if one.outcome.adds in _ENDS
    ]
    return cap_shares([*told, *rows])


def _shares_from_evidence(
    condition: str, logs: LogDiagnosis, findings: Sequence[Finding], stacks: StackFinding
) -> list[tuple[str, float]]:
    if logs.is_failure:
        return _shares_of_failure(logs, findings)
    if condition == "degraded":
        return _shares_of_slow_job(findings)
    if condition in CONDITIONS_WITHOUT_PROBLEM:
        sure = logs.verdict.confidence if logs.has_evidence else THRESHOLDS.no_logs
        return [(NONE, round(sure, 4))]
    if condition == "cancelled":
        return [(CANCELLED, THRESHOLDS.cancelled)]
    if stacks.category:
        return [(stacks.category, stacks.category_p)]
    return [(UNKNOWN, 0.0)]


def _shares_of_failure(logs: LogDiagnosis, findings: Sequence[Finding]) -> list[tuple[str, float]]:
    """The logs' category and their runner-up; without one, that of a node that owes a message."""
    verdict = logs.verdict
    if verdict.id in (NONE, UNKNOWN):
        return _shares_of_silence(findings)
    rows = [(verdict.id, verdict.confidence)]
    if verdict.runner_up is not None:
        rows.append(verdict.runner_up)
    return cap_shares(rows)


def _shares_of_silence(findings: Sequence[Finding]) -> list[tuple[str, float]]:
    """The category of the first node whose flows stopped while it owed a message."""
    owed = [f.category for f in findings if f.what == "flows_ceased"]
    named = list(filter(None, owed))
    return [(named[0], THRESHOLDS.flows_only)] if named else [(UNKNOWN, 0.0)]


def _shares_of_slow_job(findings: Sequence[Finding]) -> list[tuple[str, float]]:
    """The category of the surest finding with a place; else of slow steps, or the only alarm."""
    slow = [f for f in findings if f.what == "slow"]
    placed = [f for f in slow if f.source == "flows" and f.places]
    if placed:
        best = max(placed, key=lambda f: f.p)
        return cap_shares([(best.category or SLOW_STEPS, max(THRESHOLDS.named, best.p)), (SLOW_STEPS, 1.0)])
    alarms = list(filter(None, (f.category for f in findings if f.source == "watch")))
    is_shown_elsewhere = not {f.source for f in slow} <= {"watch"}
    if not alarms or is_shown_elsewhere:
        return [(SLOW_STEPS, THRESHOLDS.slow)]
    sure = 0.0 if alarms[0] == UNKNOWN else THRESHOLDS.alarm
    return [(alarms[0], sure)]


def cap_shares(rows: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Probabilities of alternatives that exclude each other: at most 1 in total, in falling order,
    each once. The first stays also without any.
    """
    capped: dict[str, float] = {}
    left, last = 1.0, 1.0
    for name, p in rows:
        free = min(max(p, 0.0), left)
        has_nothing_left = bool(capped) and free <= 0.0
        if name in capped or has_nothing_left:
            continue
        share = min(free, last)
        capped[name] = share
        left, last = max(0.0, left - share), round(share, 4)
    return [(name, round(share, 4)) for name, share in capped.items()]


def category_and_subcategory(leaf_id: str) -> tuple[str, str]:
    """Category and subcategory of a leaf."""
    leaf: Any = taxonomy.load().get(leaf_id)
    return leaf.category, leaf.subcategory
