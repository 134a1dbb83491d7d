"""Joins the suspects of logs, flows and stacks into one ranking (noisy or over sources, so that agreement counts more
than the number of messages).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from diagnosis import stats, taxonomy, thresholds
from diagnosis.kinds.stacks.blame.stack_cause import cause as stack_cause
from diagnosis.result import LogDiagnosis, Suspect, Verdict

THRESHOLDS: Final = thresholds.of("localize")

#: Verdicts of the logs without a cause.
_WITHOUT_CAUSE: Final = ("unknown", "framework.collective.timeout")
MAX_SUSPECTS: Final = 32


def of_logs(logs: LogDiagnosis | None) -> list[Suspect]:
    """The log engine's nodes and other culprits as suspects."""
    if logs is None:
        return []
    nodes = [Suspect(n.node, "node", n.score, ("logs",), n.reasons, is_suspect=n.is_suspect) for n in logs.nodes]
    return [*nodes, *logs.culprits]


def of_report(part: Mapping[str, Any] | None, source: str, logs: LogDiagnosis | None = None) -> list[Suspect]:
    """The suspects of flows or stacks, which are plain dicts. Flows show slow members: if the logs show a crash and no
    slowdown, this is only a hint. For a hung job flows show the member that should have sent next (``how``: ceased).
    """
    out = []
    hangs = logs is not None and logs.is_failure and logs.symptom == "hang"
    is_beside = source == "flows" and logs is not None and logs.is_failure and logs.symptom != "slow"
    for row in (part or {}).get("suspects") or []:
        if row.get("how") == "ceased" and not hangs:
            continue  # for a crash, the member that fell silent first proves little
        score = float(row.get("score") or 0.0) * (THRESHOLDS.hint if is_beside and row.get("how") != "ceased" else 1.0)
        ranks = tuple(int(r) for r in row.get("ranks") or [])
        is_suspect = bool(row.get("suspect", score >= THRESHOLDS.accused)) and not (
            is_beside and score < THRESHOLDS.accused
        )
        reasons = tuple(str(r) for r in row.get("reasons") or [])
        sources = tuple(row.get("from") or (source,))
        out.append(
            Suspect(str(row["entity"]), str(row.get("kind") or "node"), score, sources, reasons, ranks, is_suspect)
        )
    return out


def with_stacks(logs: LogDiagnosis, stack_part: Mapping[str, Any]) -> LogDiagnosis:
    """``logs`` with the category of the stacks, if the logs have none; else unchanged."""
    found = stack_cause(stack_part)
    if found is None or not logs.is_failure or logs.verdict.id not in _WITHOUT_CAUSE:
        return logs
    leaf = taxonomy.load().get(found[0])
    other = (
        (logs.verdict.id, min(logs.verdict.confidence, THRESHOLDS.replaced)) if logs.verdict.confidence > 0 else None
    )
    reason = f"The stacks show the cause: {stack_part.get('headline') or stack_part.get('reason')}"
    return replace(
        logs,
        verdict=Verdict(leaf.id, leaf.category, leaf.subcategory, found[1], other),
        inferred=(reason, *logs.inferred),
    )


def fuse(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """One entry an entity; scores join over sources, reasons are kept in order of weight; ranked by score. O(n
    log n)."""
    groups: dict[tuple[str, str], list[Suspect]] = {}
    for suspect in suspects:
        groups.setdefault((suspect.kind, suspect.entity), []).append(suspect)
    joined = []
    for (kind, entity), same in groups.items():
        best: dict[str, float] = {}
        for s in same:
            for source in s.sources:
                best[source] = max(best.get(source, 0.0), min(s.score, 1.0))
        trust = {source: THRESHOLDS.trust.get(source, THRESHOLDS.other_trust) for source in best}
        ordered = sorted(same, key=lambda s: -s.score)
        reasons = tuple(dict.fromkeys(r for s in ordered for r in s.reasons))
        ranks = tuple(sorted({r for s in same for r in s.ranks}))
        # two kinds of evidence that only rank may accuse together
        score = stats.fuse(trust[source] * score for source, score in best.items())
        is_suspect = any(s.is_suspect for s in same) or (len(best) > 1 and score >= THRESHOLDS.accused)
        # one scale over all kinds: ranked entities stay below accused ones
        score = max(score, THRESHOLDS.accused) if is_suspect else min(score, THRESHOLDS.ranked)
        joined.append(Suspect(entity, kind, score, tuple(sorted(best)), reasons, ranks, is_suspect))
    joined.sort(key=lambda s: (-round(s.score, 6), s.kind, s.entity))
    return tuple(joined[:MAX_SUSPECTS])
