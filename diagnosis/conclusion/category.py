"""The category with its alternatives: shares of one whole, so they sum to at most 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import Finding
from diagnosis.kinds.checks import weigh
from diagnosis.kinds.checks.check_outputs import Result
from diagnosis.kinds.stacks.blame.stack_cause import cause
from diagnosis.result import LogDiagnosis
from diagnosis.taxonomy import UNKNOWN

THRESHOLDS: Final = thresholds.of("category")

NONE: Final = "none"
#: Conditions without a current problem.
CONDITIONS_WITHOUT_PROBLEM: Final = ("healthy", "running", "recovered", "unknown")


def shares(
    condition: str,
    logs: LogDiagnosis | None,
    findings: Sequence[Finding],
    stacks: Mapping[str, Any],
    results: Sequence[Result] = (),
) -> list[tuple[str, float]]:
    """Categories with their probabilities after the results of checks, the answer first."""
    rows = _shares_from_evidence(condition, logs, findings, stacks)
    if condition in CONDITIONS_WITHOUT_PROBLEM or condition == "cancelled":
        return rows
    return cap_shares(weigh.update_categories(rows, results))


def _shares_from_evidence(
    condition: str, logs: LogDiagnosis | None, findings: Sequence[Finding], stacks: Mapping[str, Any]
) -> list[tuple[str, float]]:
    if logs is not None and logs.is_failure:
        if logs.verdict.id in (NONE, UNKNOWN):
            owed = next((f.category for f in findings if f.what == "flows_ceased" and f.category), "")
            return [(owed, THRESHOLDS.flows_only)] if owed else [(UNKNOWN, 0.0)]
        rows = [(logs.verdict.id, logs.verdict.confidence)]
        if logs.verdict.runner_up is not None:
            rows.append(logs.verdict.runner_up)
        return cap_shares(rows)
    if condition == "degraded":
        slow = [f for f in findings if f.source == "flows" and f.what == "slow" and f.places]
        if slow:
            best = max(slow, key=lambda f: f.p)
            return cap_shares(
                [(best.category or "performance.step", max(THRESHOLDS.named, best.p)), ("performance.step", 1.0)]
            )
        alarm = next((f.category for f in findings if f.source == "watch"), None)
        if alarm is None or any(f.what == "slow" and f.source != "watch" for f in findings):
            return [("performance.step", THRESHOLDS.slow)]
        return [(alarm, 0.0 if alarm == UNKNOWN else THRESHOLDS.alarm)]
    if condition in CONDITIONS_WITHOUT_PROBLEM:
        sure = logs.verdict.confidence if logs is not None else THRESHOLDS.no_logs
        return [(NONE, round(sure, 4))]
    if condition == "cancelled":
        return [("platform.scheduler.cancelled", THRESHOLDS.cancelled)]
    found = cause(stacks)
    return [(UNKNOWN, 0.0)] if found is None else [found]


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
