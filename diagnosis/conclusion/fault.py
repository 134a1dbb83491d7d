"""Who is at fault: the fused suspects as one list with probabilities, most probable first.

``diagnosis.localize`` fuses the suspects of logs, flows and stacks. Here they become a statement: the accused, or the
smallest set that contains the culprit, or nobody. A machine and a rank of it are one culprit, named once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion.findings import places_of, rank_place
from diagnosis.conclusion.model import Fault
from diagnosis.evidence import PLACE_KINDS, Finding, Place, StackFinding, Suspect
from diagnosis.model import Role
from diagnosis.result import LogDiagnosis

THRESHOLDS: Final = thresholds.of("fault")
LIMITS: Final = thresholds.limits("fault")

#: Maximum number of entries of ``seen`` and ``fault``.
MAX_LISTED: Final = 64
#: The parameters of a line that name a device.
DEVICE_PARAMETERS: Final = ("pci", "gpu", "device", "hca", "nic", "port")
#: A larger set of candidates is not useful.
MAX_CANDIDATES: Final = 8


def find_faults(
    suspects: Iterable[Suspect],
    condition: str,
    node_of: Mapping[int, str] | None = None,
    wrote: Mapping[str, set[int]] | None = None,
) -> tuple[Fault, ...]:
    """The accused, or for a degraded job the few candidates of which one is slow.

    Args:
        suspects: the fused ranking.
        condition: the job's condition.
        node_of: the known node of each rank (:func:`node_of_ranks`).
        wrote: the ranks of a node that wrote root lines (:func:`root_writers`).

    O(suspects).
    """
    rows = [s for s in suspects if s.kind in PLACE_KINDS]
    named = [s for s in rows if s.is_suspect]
    if condition == "degraded" and not named:
        named = candidates(rows)
    found = [_merged_fault(same, wrote or {}) for same in _groups_by_culprit(named, node_of or {})]
    found.sort(key=lambda f: (-f.p, f.place))
    return tuple(found[:MAX_LISTED])


def node_of_ranks(logs: LogDiagnosis | None, stacks: StackFinding) -> dict[int, str]:
    """The node of each rank, from the stacks' table and the lines of the logs' events; the first statement counts."""
    stated = [(row.rank, row.node) for row in stacks.ranks]
    events = logs.events if logs is not None else ()
    stated += [(line.rank, line.node) for event in events for line in event.lines]
    found: dict[int, str] = {}
    for rank, node in stated:
        if rank is not None and node:
            found.setdefault(rank, node)
    return found


def root_writers(logs: LogDiagnosis | None) -> dict[str, set[int]]:
    """The ranks of each node that wrote root lines."""
    found: dict[str, set[int]] = {}
    for event in logs.events if logs is not None else ():
        for line in event.lines if event.role == Role.ROOT.value else ():
            if line.rank is not None and line.node:
                found.setdefault(line.node, set()).add(line.rank)
    return found


def _groups_by_culprit(named: Sequence[Suspect], node_of: Mapping[int, str]) -> list[list[Suspect]]:
    """The accused in groups of one culprit each: a node with those of its ranks that are accused as well."""
    at = {s.entity: [s] for s in named if s.kind == "node"}
    home = {**node_of, **{r: s.entity for s in named if s.kind == "node" for r in s.ranks}}
    single = []
    for s in named:
        if s.kind == "node":
            continue
        rank = _place(s).rank if s.kind == "rank" else None
        group = at.get(home.get(rank, "")) if rank is not None else None
        if group is None:
            single.append([s])
        else:
            group.append(s)
    return [*at.values(), *single]


def _merged_fault(same: Sequence[Suspect], wrote: Mapping[str, set[int]]) -> Fault:
    """One culprit. Its rank is named if only one rank is accused or wrote root lines. The parts share their evidence,
    so the most probable of them counts.
    """
    place = _place(same[0])
    ranks = {r for r in (_place(s).rank for s in same[1:]) if r is not None} or set(same[0].ranks)
    ranks = ranks or set(wrote.get(place.name, ()))
    if place.kind == "node":
        place = Place("node", place.name, ranks.pop() if len(ranks) == 1 else None)
    p = max(min(1.0, max(0.0, s.score)) for s in same)
    reasons = tuple(dict.fromkeys(r for s in same for r in s.reasons))
    return Fault(place, round(p, 4), reasons, tuple(dict.fromkeys(source for s in same for source in s.sources)))


def candidates(rows: Sequence[Suspect]) -> list[Suspect]:
    """The suspects with the highest scores, if they are few: evidence cannot separate them, one of them is at fault."""
    if not rows:
        return []
    top = max(s.score for s in rows)
    same = [s for s in rows if s.score >= THRESHOLDS.share * top]
    if top <= 0 or len(same) > MAX_CANDIDATES:
        return []
    return same


def places_seen(
    logs: LogDiagnosis | None,
    stacks: StackFinding,
    fault: Iterable[Fault],
    slow: Iterable[Finding] = (),
) -> tuple[tuple[Place, str], ...]:
    """Where the failure was seen, also if nobody is at fault: the accused, writers of the root lines, ranks that others
    wait for, and machines of the ``slow`` findings. The accused come first, so that no limit leaves one out.
    """
    seen = _seen_by_logs(logs) if logs is not None and logs.is_failure else []
    seen += [(rank_place(rank), "the others wait for it") for rank in stacks.suspect_ranks]
    seen += [(Place("node", name), "the others wait for a rank of it") for name in stacks.suspect_nodes]
    seen += [(place, finding.text) for finding in slow for place in finding.places[:MAX_LISTED]]
    each: dict[tuple[str, str], tuple[Place, str]] = {}
    for place, why in seen:  # a machine is listed once, with or without a known rank
        each.setdefault((place.kind, place.name), (place, why))
    named: dict[tuple[str, str], tuple[Place, str]] = {}
    for row in fault:
        key = (row.place.kind, row.place.name)
        _, why = each.pop(key, (row.place, row.reasons[0] if row.reasons else "accused"))
        named[key] = (row.place, why)
    return tuple({**named, **each}.values())[:MAX_LISTED]


def _seen_by_logs(logs: LogDiagnosis) -> list[tuple[Place, str]]:
    """Who wrote the root lines, else the first line about the end, and the devices that root lines name."""
    roots = [event for event in logs.events if event.role == Role.ROOT.value]
    seen: list[tuple[Place, str]] = []
    for event in roots:
        writers = [Place("node", name) for name in event.node_names[:MAX_LISTED]]
        seen += [(place, "wrote a line that states the cause") for place in (*writers, *places_of(event.lines))]
    if not roots:
        seen += [(place, "wrote the first line about the end") for place in places_of(logs.lines)]
    stated = [row for indicator in logs.indicators for row in indicator.parameters.items()]
    devices = [Place("device", name) for kind, name in stated if kind in DEVICE_PARAMETERS]
    return seen + [(device, "named in a line that states the cause") for device in devices]


def _place(suspect: Suspect) -> Place:
    if suspect.kind == "rank":
        digits = "".join(ch for ch in suspect.entity if ch.isdigit())
        rank = suspect.ranks[0] if suspect.ranks else int(digits) if 0 < len(digits) < LIMITS.digits else None
        return Place("rank", str(rank) if rank is not None else suspect.entity, rank)
    return Place(suspect.kind, suspect.entity, suspect.ranks[0] if len(suspect.ranks) == 1 else None)
