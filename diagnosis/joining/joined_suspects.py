"""Joins the suspects of logs, flows and stacks into one ranking (noisy or over sources, so that
agreement counts more than the number of messages).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence import FlowFinding, Suspect
from diagnosis.records.result import NO_LOGS, LogDiagnosis
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("joined_suspects")

MAX_SUSPECTS: Final = 32


def of_logs(logs: LogDiagnosis | None) -> list[Suspect]:
    """The log engine's nodes and other culprits as suspects."""
    if logs is None:
        return []
    nodes = [Suspect(n.node, "node", n.score, ("logs",), n.reasons, is_suspect=n.is_suspect) for n in logs.nodes]
    return [*nodes, *logs.culprits]


def of_flows(flows: FlowFinding, logs: LogDiagnosis | None) -> list[Suspect]:
    """The suspects of the flows. They are slow members: if the logs show a crash and no slowdown,
    this is only a hint. Of a hung job they are the member that should have sent next (``how``:
    ceased); of a crash that proves little. Without a line of logs they are the member that fell
    silent in the middle of a step (``how``: overdue).
    """
    seen = logs or NO_LOGS
    is_crashed = seen.is_failure and seen.symptom != "slow"
    out = []
    for row in flows.suspects:
        is_silent = row.how in {"ceased", "overdue"}
        if not is_silent:
            out.append(_as_hint(row) if is_crashed else row)
        elif _is_told(row, seen):
            out.append(row)
    return out


def _is_told(silent: Suspect, seen: LogDiagnosis) -> bool:
    if silent.how == "ceased":
        return seen.is_failure and seen.symptom == "hang"
    return not seen.has_evidence


def _as_hint(row: Suspect) -> Suspect:
    score = row.score * THRESHOLDS.hint
    is_suspect = row.is_suspect and score >= THRESHOLDS.accused
    return msgspec.structs.replace(row, score=score, is_suspect=is_suspect)


def fuse(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """One entry an entity; scores join over sources, reasons are kept in order of weight; ranked by score. O(n
    log n)."""
    groups: dict[tuple[str, str], list[Suspect]] = {}
    for suspect in suspects:
        groups.setdefault((suspect.kind, suspect.entity), []).append(suspect)
    joined = [_joined(same) for same in groups.values()]
    joined.sort(key=lambda s: (-round(s.score, 6), s.kind, s.entity))
    return tuple(joined[:MAX_SUSPECTS])


def _joined(same: Sequence[Suspect]) -> Suspect:
    """What all kinds of evidence say of one entity, as one entry."""
    best: dict[str, float] = {}
    for suspect in same:
        for source in suspect.sources:
            best[source] = max(best.get(source, 0.0), min(suspect.score, 1.0))
    trust = {source: THRESHOLDS.trust.get(source, THRESHOLDS.other_trust) for source in best}
    whole = stats.fuse(trust[source] * score for source, score in best.items())
    # two kinds of evidence that only rank may accuse together
    is_suspect = any(s.is_suspect for s in same) or (len(best) > 1 and whole >= THRESHOLDS.accused)
    # one scale over all kinds: ranked entities stay below accused ones
    shown = max(whole, THRESHOLDS.accused) if is_suspect else min(whole, THRESHOLDS.ranked)
    ordered = sorted(same, key=lambda s: -s.score)
    reasons = tuple(dict.fromkeys(chain.from_iterable(s.reasons for s in ordered)))
    ranks = tuple(sorted(set(chain.from_iterable(s.ranks for s in same))))
    return Suspect(same[0].entity, same[0].kind, shown, tuple(sorted(best)), reasons, ranks, is_suspect)
