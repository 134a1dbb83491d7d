"""Who is at fault: the fused suspects as one list with probabilities, most probable first.

The suspects of logs, flows and stacks are fused before (``diagnosis.localize``). Here they become a statement: the
accused, or the smallest set of which one is meant, or nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from diagnosis.conclusion.findings import places_of, rank_place
from diagnosis.conclusion.model import KINDS, Fault, Place
from diagnosis.model import Role
from diagnosis.result import LogDiagnosis, Suspect

#: Entries of ``seen`` and ``fault``.
LISTED: Final = 64
#: A set of candidates larger than this says nothing.
CANDIDATES: Final = 8


def accused(suspects: Iterable[Suspect], condition: str) -> tuple[Fault, ...]:
    """The accused, or of a degraded job the few of which one is slow. O(suspects)."""
    rows = [s for s in suspects if s.kind in KINDS]
    named = [s for s in rows if s.is_suspect]
    if condition == "degraded" and not named:
        named = candidates(rows)
    found = [Fault(_place(s), round(min(1.0, max(0.0, s.score)), 4), tuple(s.reasons), tuple(s.sources)) for s in named]
    found.sort(key=lambda f: (-f.p, f.place))
    return tuple(found[:LISTED])


def candidates(rows: Sequence[Suspect]) -> list[Suspect]:
    """The suspects of equal, highest score where they are few: evidence cannot separate them, one of them is meant."""
    if not rows:
        return []
    top = max(s.score for s in rows)
    same = [s for s in rows if s.score >= top - 1e-6]
    if top <= 0 or len(same) > CANDIDATES:
        return []
    return same


def seen(
    logs: LogDiagnosis | None, stacks: Mapping[str, Any] | None, fault: Iterable[Fault]
) -> tuple[tuple[Place, str], ...]:
    """Where the failure was seen, also when nobody is at fault: who wrote the root lines, who is waited for."""
    found: dict[Place, str] = {}
    if logs is not None and logs.is_failure:
        roots = [e for e in logs.events if e.role == Role.ROOT.value]
        for event in roots:
            for name in event.node_names[:LISTED]:
                found.setdefault(Place("node", name), "wrote a line that tells the cause")
            for place in places_of(event.lines):
                found.setdefault(place, "wrote a line that tells the cause")
        if not roots:
            for place in places_of(logs.lines):
                found.setdefault(place, "wrote the first line that tells of the end")
        for indicator in logs.indicators:
            for kind, name in indicator.parameters.items():
                if kind in ("pci", "gpu", "device", "hca", "nic", "port"):
                    found.setdefault(Place("device", name), "named in a line that tells the cause")
    for rank in (stacks or {}).get("suspect_ranks") or ():
        found.setdefault(rank_place(int(rank)), "the others wait for it")
    for name in (stacks or {}).get("suspect_nodes") or ():
        found.setdefault(Place("node", str(name)), "the others wait for a rank of it")
    for row in fault:
        found.setdefault(row.place, row.reasons[0] if row.reasons else "accused")
    each: dict[tuple[str, str], tuple[Place, str]] = {}
    for place, why in found.items():  # a machine is listed once, whether or not one rank of it is known
        each.setdefault((place.kind, place.name), (place, why))
    return tuple(each.values())[:LISTED]


def _place(suspect: Suspect) -> Place:
    if suspect.kind == "rank":
        digits = "".join(ch for ch in suspect.entity if ch.isdigit())
        rank = suspect.ranks[0] if suspect.ranks else int(digits) if 0 < len(digits) < 9 else None
        return Place("rank", str(rank) if rank is not None else suspect.entity, rank)
    return Place(suspect.kind, suspect.entity, suspect.ranks[0] if len(suspect.ranks) == 1 else None)


def names(fault: Sequence[Fault], kind: str = "node") -> list[str]:
    """Names of one kind, most probable first."""
    return [f.place.name for f in fault if f.place.kind == kind]
