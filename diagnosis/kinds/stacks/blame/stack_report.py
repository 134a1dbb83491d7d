"""Findings of all kinds of stack evidence, joined into the report's ``stacks`` object."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from diagnosis import stats, thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.blame import evict
from diagnosis.kinds.stacks.blame.collectives import Verdict
from diagnosis.kinds.stacks.blame.voting import MAX_LISTED, Outcome
from diagnosis.kinds.stacks.ranks.cluster import Group, icicle, icicle_rows
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.layout import Layout
from diagnosis.kinds.stacks.read.stack_frames import TRUNCATED

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
THRESHOLDS: Final = thresholds.of("stack_report")
LIMITS: Final = thresholds.limits("stack_report")

_MAX_GROUPS = 200
#: Sorts after every rank.
_NO_RANK = 1 << 30
_SOURCE_TEXT = {
    "stacks": "stacks",
    "flight_recorder": "Flight Recorder",
    "watchdog": "watchdog lines",
    "ras": "NCCL RAS",
}


@dataclass(slots=True)
class Accusation:
    """The evidence against one rank (or a node without a known rank), by kind."""

    rank: int | None
    node: str | None
    scores: dict[str, float] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Independent kinds of evidence that agree strengthen each other."""
        return round(stats.fuse(self.scores.values()), 4)


@dataclass(slots=True)
class Findings:
    """All findings before the sentences are made."""

    rounds: int = 1
    notes: list[str] = field(default_factory=list)
    layout: Layout = field(default_factory=Layout)
    processes: list[Process] = field(default_factory=list)
    artifacts: dict[int, str] = field(default_factory=dict)
    node_of: dict[int, str] = field(default_factory=dict)
    outcome: Outcome | None = None
    collectives: Verdict | None = None
    recorded: list[int] = field(default_factory=list)
    unrecorded: list[int] = field(default_factory=list)
    accused: dict[tuple[int | None, str | None], Accusation] = field(default_factory=dict)

    def accuse(self, rank: int | None, node: str | None, score: float, reason: str, source: str) -> None:
        """Add one reason; the best score of each kind of evidence counts."""
        node = node or (self.node_of.get(rank) if rank is not None else None)
        accusation = self.accused.setdefault((rank, None if rank is not None else node), Accusation(rank, node))
        accusation.scores[source] = max(score, accusation.scores.get(source, 0.0))
        if reason not in accusation.reasons:
            accusation.reasons.append(reason)


def to_report(found: Findings) -> dict[str, Any]:
    """The ``stacks`` object of ``docs/report.md``, with ``suspects`` for the fusion. JSON-able and deterministic."""
    ranked = sorted(found.accused.values(), key=_order)
    strong = _agreed_accusations(ranked, found.notes)
    suspects = [a.rank for a in strong if a.rank is not None]
    shown = _shown_round(found)
    outliers = sorted({*_voted_outliers(found), *suspects})
    candidates = _candidates(found, suspects, outliers)
    evict_ranks = _evict_ranks(candidates, suspects, outliers)
    nodes = list(dict.fromkeys(a.node for a in strong if a.node))
    evict_nodes = list(dict.fromkeys([*nodes, *_nodes(evict_ranks, found.node_of)]))
    _note_absent(found, shown)
    reason = _reason(found)
    names_somebody = bool(suspects or nodes)
    votes = [] if found.outcome is None else found.outcome.votes
    return {
        "suspect_ranks": suspects,
        "suspect_nodes": nodes,
        "evict_ranks": evict_ranks,
        "evict_nodes": evict_nodes,
        "groups": [_group_row(g) for g in shown.groups[:_MAX_GROUPS]],
        "missing_ranks": shown.missing[:MAX_LISTED],
        "failed_ranks": shown.failed,
        "empty_ranks": shown.empty,
        "outlier_ranks": outliers,
        "headline": _headline(reason, nodes) if names_somebody else reason,
        "reason": reason,
        "rule": _rule(found),
        "rounds": found.rounds,
        "is_moving": found.outcome is not None and found.outcome.is_moving,
        "explained_by": _candidate_row(candidates[0]) if candidates else None,
        "candidates": [_candidate_row(c) for c in candidates[:24]],
        "tie": [_candidate_row(c) for c in evict.tied_candidates(candidates)[:8]],
        "votes": [{**_candidate_row(c), "rounds": n} for c, n in votes][:16],
        "layout": {
            **found.layout.sizes,
            "order": found.layout.order,
            "world_size": found.layout.world_size,
            "source": found.layout.source,
        },
        "collectives": _collective_rows(found),
        "notes": found.notes,
        "icicle": icicle_rows(icicle(shown.groups)) if shown.groups else [],
        "ranks": [
            {
                "rank": p.rank,
                "node": found.node_of.get(p.rank or 0),
                "path": p.path,
                "line": p.dump.line,
                "round": p.round,
                "status": p.dump.status,
            }
            for p in found.processes
        ],
        "suspects": _suspects(strong, ranked),
    }


@dataclass(frozen=True, slots=True)
class _Shown:
    """The round that the report shows: its groups, and the ranks without a usable dump."""

    groups: list[Group]
    missing: list[int]
    absent: int
    failed: list[int]
    empty: list[int]


def _shown_round(found: Findings) -> _Shown:
    if found.outcome is None:
        return _Shown([], found.unrecorded, len(found.unrecorded), [], [])
    shown = found.outcome.shown
    return _Shown(shown.groups, shown.missing, shown.absent, shown.failed, shown.empty)


def _order(a: Accusation) -> tuple[float, int, str]:
    """The strongest first, then by rank, nodes without a rank last."""
    return -a.score, _NO_RANK if a.rank is None else a.rank, a.node or ""


def _voted_outliers(found: Findings) -> tuple[int, ...]:
    """The outliers of the verdict on all rounds, if it accuses a rank."""
    verdict = None if found.outcome is None else found.outcome.verdict
    return () if verdict is None or not verdict.ranks else verdict.outliers


def _candidates(found: Findings, suspects: list[int], outliers: list[int]) -> list[evict.Candidate]:
    """Sets of ranks that explain the outliers, best first; none where nobody is accused."""
    if not suspects:
        return []
    outcome = found.outcome
    covers_suspects = outcome is not None and set(outcome.verdict.outliers) >= set(suspects)
    voted = outcome.candidates if outcome is not None and covers_suspects else []
    return voted or evict.candidates(outliers, found.layout)


def _evict_ranks(candidates: list[evict.Candidate], suspects: list[int], outliers: list[int]) -> list[int]:
    """The ranks to replace: those of the best candidate, and every suspect."""
    if not suspects:
        return []
    explained = candidates[0].ranks if candidates else outliers
    return sorted({*explained, *suspects})


def _rule(found: Findings) -> str:
    """The rule that decided."""
    if found.outcome is not None:
        return found.outcome.verdict.rule
    return "collectives" if found.collectives else "none"


def _agreed_accusations(ranked: list[Accusation], notes: list[str]) -> list[Accusation]:
    """The accused: those of the strongest kind of evidence. Disagreements are reported."""
    by_source: dict[str, set[int]] = {}
    for a in ranked:
        for source, score in a.scores.items():
            if score > 0 and a.rank is not None:
                by_source.setdefault(source, set()).add(a.rank)
    names = sorted(by_source)
    notes += [
        f"{_SOURCE_TEXT[one]} accuse rank {fold_ranks(by_source[one])}, "
        f"{_SOURCE_TEXT[other]} rank {fold_ranks(by_source[other])}: they disagree, so a human should decide."
        for one, other in combinations(names, 2)
        if not by_source[one] & by_source[other]
    ]
    if not ranked:
        return []
    best = ranked[0].score
    several = {a.rank for a in ranked if sum(s > 0 for s in a.scores.values()) > 1}
    if several:  # ranks that two kinds of evidence accuse come before those that one accuses
        return [a for a in ranked if a.rank in several or a.score >= best - THRESHOLDS.equal]
    return [a for a in ranked if a.score >= min(THRESHOLDS.named, best - THRESHOLDS.near)]


def _reason(found: Findings) -> str:
    parts = []
    if found.outcome:
        parts.append(found.outcome.verdict.reason)
    if found.collectives:
        verdict = found.collectives
        source = "Flight Recorder" if found.recorded else "Watchdog lines"
        for word, ranks in (("host", verdict.host), ("device", verdict.device)):
            if ranks:
                first = min(ranks)
                verb = "is stuck on its" if len(ranks) == 1 else "are stuck on their"
                parts.append(f"{source}: {ranks_text(ranks)} {verb} {word}: rank {first} {ranks[first]}.")
        if verdict.mismatch and not verdict.host and not verdict.device:
            first = min(verdict.mismatch)
            parts.append(f"{source}: {ranks_text(verdict.mismatch)} {verdict.mismatch[first]}.")
        if not verdict.ranks and found.recorded:
            parts.append("Flight Recorder: no rank is missing from a collective or behind its peers.")
    parts += [
        f"RAS: {a.node or ''} {r}."
        for a in found.accused.values()
        for s in [a.scores.get("ras")]
        if s
        for r in a.reasons[-1:]
    ][:3]
    return " ".join(parts) or "The stack evidence could not be compared."


def _headline(reason: str, nodes: list[str]) -> str:
    """The first clause of the reason, with the nodes: the title of an incident."""
    first = re.split(r"(?<=\w\))\.|[;.](?:\s|$)", reason, maxsplit=1)[0].rstrip(".")
    where = ", ".join(nodes[: LIMITS.nodes]) + (
        f" and {len(nodes) - LIMITS.nodes} more" if len(nodes) > LIMITS.nodes else ""
    )
    return f"{first} ({where})." if where else f"{first}."


def _note_rounds(found: Findings) -> None:
    """The ranks that are missing in some rounds: rounds are compared in their common ranks."""
    if found.rounds < 2:
        return
    seen: dict[int, set[int]] = {}
    for p in found.processes:
        seen.setdefault(p.round, set()).add(p.rank if p.rank is not None else -1)
    everyone = set().union(*seen.values())
    partial = [
        f"round {at + 1} lacks {ranks_text(lacking)}"
        for at, ranks in sorted(seen.items())
        if (lacking := everyone - ranks)
    ]
    if partial:
        shown = "; ".join(partial[: LIMITS.rounds]) + (
            f"; {len(partial) - LIMITS.rounds} more rounds lack some" if len(partial) > LIMITS.rounds else ""
        )
        found.notes.append(f"The {found.rounds} rounds are not of the same ranks: {shown}.")


def _note_absent(found: Findings, shown: _Shown) -> None:
    """Say which ranks have no dump, or none that could be read whole."""
    _note_rounds(found)
    if shown.missing:
        found.notes.append(_missing_text(found, shown))
    if cut := sorted(_ranks_of_cut_dumps(found.processes)):
        total = len({p.rank for p in found.processes})
        which = f" (rank {fold_ranks(cut)})" if len(cut) <= LIMITS.cut else ""
        found.notes.append(
            f"{len(cut)} of {total} dumps break off in the middle of a stack{which}; what is there was compared."
        )
    if shown.failed:
        found.notes.append(
            f"The dump of rank {fold_ranks(shown.failed)} failed in the tool itself; "
            "that proves nothing about the rank."
        )
    if shown.empty:
        found.notes.append(
            f"The dump of rank {fold_ranks(shown.empty)} is empty: the process may have been gone, "
            "or the tool was not allowed to read it."
        )


def _missing_text(found: Findings, shown: _Shown) -> str:
    world_size = found.layout.world_size
    share = f"{shown.absent} of {world_size} ranks"
    is_listed = shown.absent <= LIMITS.absent
    text = f"No dump of rank {fold_ranks(shown.missing)} ({share})." if is_listed else f"No dump of {share}."
    if shown.absent <= BLAME.missing_share * (world_size or 1):
        return text
    return f"{text} So many are not accused: the upload is not complete, or the layout is another job's."


def _ranks_of_cut_dumps(processes: Iterable[Process]) -> set[int]:
    return {p.rank for p in processes if p.dump.status == TRUNCATED and p.rank is not None}


def _group_row(g: Group) -> dict[str, Any]:
    return {
        "ranks": g.ranks,
        "folded": fold_ranks(g.ranks),
        "frames": [f.label for f in g.frames],
        "key": list(g.key),
        "dominant": g.dominant,
        "activity": g.activity.kind,
        "what": g.activity.what,
        "dimension": g.activity.dim,
    }


def _candidate_row(c: evict.Candidate) -> dict[str, Any]:
    return {
        "kind": c.kind,
        "groups": [fold_ranks(g) for g in c.groups[:16]],
        "ranks": len(c.ranks),
        "score": c.score,
        "coverage": round(c.coverage, 4),
        "precision": round(c.precision, 4),
    }


def _collective_rows(found: Findings) -> dict[str, Any] | None:
    v = found.collectives
    if v is None:
        return None
    return {
        "host_stuck": sorted(v.host),
        "device_stuck": sorted(v.device),
        "mismatched": sorted(v.mismatch),
        "collective": v.collective,
        "ranks_with_dump": fold_ranks(found.recorded),
        "ranks_without_dump": found.unrecorded[:MAX_LISTED],
    }


def _nodes(ranks: Iterable[int], node_of: dict[int, str]) -> list[str]:
    return list(dict.fromkeys(node_of[r] for r in ranks if r in node_of))


def _suspects(strong: list[Accusation], ranked: list[Accusation]) -> list[dict[str, Any]]:
    """For the fusion: each accused rank, and each node with the best of its ranks; weak ones with half their score."""
    named = {id(a) for a in strong}
    rows: list[dict[str, Any]] = []
    by_node: dict[str, list[Accusation]] = {}
    for a in ranked[:256]:
        if a.rank is not None:
            rows.append(
                {
                    "entity": f"rank {a.rank}",
                    "kind": "rank",
                    "score": _shown_score(a, named),
                    "from": ["stacks"],
                    "evidence": sorted(s for s, score in a.scores.items() if score > 0),
                    "reasons": [_reason_sentence([a.rank], r) for r in a.reasons[:6]],
                    "node": a.node,
                    "ranks": [a.rank],
                    "suspect": id(a) in named,
                }
            )
        if a.node:
            by_node.setdefault(a.node, []).append(a)
    nodes: list[dict[str, Any]] = [
        {
            "entity": node,
            "kind": "node",
            "score": max(_shown_score(a, named) for a in accusations),
            "from": ["stacks"],
            "reasons": _reasons_of(accusations)[:6],
            "ranks": sorted(a.rank for a in accusations if a.rank is not None),
            "suspect": any(id(a) in named for a in accusations),
        }
        for node, accusations in by_node.items()
    ]
    return [*sorted(nodes, key=lambda n: -float(n["score"])), *rows]


def _shown_score(a: Accusation, named: set[int]) -> float:
    return a.score if id(a) in named else round(THRESHOLDS.unnamed * a.score, 4)


def _reasons_of(accusations: list[Accusation]) -> list[str]:
    """Each reason once, with all the node's ranks that share it."""
    ranks: dict[str, list[int]] = {}
    for a in accusations:
        for reason in a.reasons:
            ranks.setdefault(reason, []).extend([] if a.rank is None else [a.rank])
    return [_reason_sentence(r, reason) for reason, r in ranks.items()]


def _reason_sentence(ranks: list[int], reason: str) -> str:
    subject = ranks_text(ranks) if ranks else "a process"
    return f"{subject}: {reason}" if reason.startswith("its ") else f"{subject} {reason}"
