"""Who is at fault: the fused suspects as one list with probabilities, most probable first.

``diagnosis.joining.joined_suspects`` fuses the suspects of logs, flows and stacks. Here they become a statement:
the accused, or nobody. A machine and a rank of it are one culprit, named once.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion.findings import places_of, rank_place
from diagnosis.conclusion.model import Fault
from diagnosis.evidence import PLACE_KINDS, Finding, Place, StackFinding, Suspect
from diagnosis.evidence.stack_findings import DumpedRank
from diagnosis.records.result import LineRef, LogDiagnosis, LogEvent

LIMITS: Final = thresholds.limits("fault")

#: Maximum number of entries of ``seen`` and ``fault``.
MAX_LISTED: Final = 64
#: The parameters of a line that name a device.
DEVICE_PARAMETERS: Final = ("pci", "gpu", "device", "hca", "nic", "port")


def find_faults(
    suspects: Iterable[Suspect],
    node_of: Mapping[int, str],
    wrote: Mapping[str, set[int]],
) -> tuple[Fault, ...]:
    """The accused.

    Args:
        suspects: the fused ranking.
        node_of: the known node of each rank (:func:`node_of_ranks`).
        wrote: the ranks of a node that wrote root lines (:func:`root_writers`).

    O(suspects).
    """
    named = [suspect for suspect in suspects if suspect.is_suspect and suspect.kind in PLACE_KINDS]
    found = [_merged_fault(same, wrote) for same in _groups_by_culprit(named, node_of)]
    found.sort(key=lambda fault: (-fault.p, fault.place))
    return tuple(found[:MAX_LISTED])


def node_of_ranks(logs: LogDiagnosis, stacks: StackFinding) -> dict[int, str]:
    """The node of each rank, from stacks and lines of events; the first statement counts."""
    found: dict[int, str] = {}
    rows: Iterator[DumpedRank | LineRef] = itertools.chain(stacks.ranks, _lines_of(logs.events))
    for rank, node in ((row.rank, row.node) for row in rows):
        if rank is not None and node:
            found.setdefault(rank, node)
    return found


def root_writers(logs: LogDiagnosis) -> dict[str, set[int]]:
    """The ranks of each node that wrote root lines."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in _lines_of(logs.roots):
        if line.rank is not None and line.node:
            found[line.node].add(line.rank)
    return found


def _lines_of(events: Iterable[LogEvent]) -> Iterator[LineRef]:
    return itertools.chain.from_iterable(event.lines for event in events)


def _groups_by_culprit(named: Sequence[Suspect], node_of: Mapping[int, str]) -> list[list[Suspect]]:
    """The accused in groups of one culprit each: a node with its accused ranks."""
    nodes = [suspect for suspect in named if suspect.kind == "node"]
    others = [suspect for suspect in named if suspect.kind != "node"]
    group_of = {node.entity: [node] for node in nodes}
    machine_of_rank = dict(node_of)
    for node in nodes:
        machine_of_rank |= dict.fromkeys(node.ranks, node.entity)
    alone: list[list[Suspect]] = []
    for suspect in others:
        group = group_of.get(_machine_of(suspect, machine_of_rank))
        if group is None:
            alone.append([suspect])
        else:
            group.append(suspect)
    return [*group_of.values(), *alone]


def _machine_of(suspect: Suspect, machine_of_rank: Mapping[int, str]) -> str:
    """The node of an accused rank; empty for other suspects."""
    rank = _place(suspect).rank
    if suspect.kind != "rank" or rank is None:
        return ""
    return machine_of_rank.get(rank, "")


def _merged_fault(same: Sequence[Suspect], wrote: Mapping[str, set[int]]) -> Fault:
    """One culprit. The parts share their evidence, so the most probable of them counts."""
    place = _place(same[0])
    if place.kind == "node":
        place = Place("node", place.name, _only_rank(same, wrote.get(place.name, ())))
    p = max(min(1.0, max(0.0, part.score)) for part in same)
    reasons = dict.fromkeys(itertools.chain.from_iterable(part.reasons for part in same))
    sources = dict.fromkeys(itertools.chain.from_iterable(part.sources for part in same))
    return Fault(place, round(p, 4), tuple(reasons), tuple(sources))


def _only_rank(same: Sequence[Suspect], writers: Iterable[int]) -> int | None:
    """The one rank of a node that is accused, else the one that wrote root lines."""
    accused = {_place(part).rank for part in same[1:]} - {None}
    ranks = accused or set(same[0].ranks) or set(writers)
    return ranks.pop() if len(ranks) == 1 else None


def places_seen(
    logs: LogDiagnosis,
    stacks: StackFinding,
    fault: Iterable[Fault],
    slow: Iterable[Finding] = (),
) -> tuple[tuple[Place, str], ...]:
    """Where the failure was seen, also if nobody is at fault: the accused, writers of the root
    lines, ranks that others wait for, and machines of the ``slow`` findings. The accused come
    first, so that no limit leaves one out.
    """
    seen = _seen_by_logs(logs)
    seen += [(rank_place(rank), "the others wait for it") for rank in stacks.suspect_ranks]
    seen += [(Place("node", name), "the others wait for a rank of it") for name in stacks.suspect_nodes]
    for finding in slow:
        seen += [(place, finding.text) for place in finding.places[:MAX_LISTED]]
    why_of: dict[tuple[str, str], str] = {}
    place_of: dict[tuple[str, str], Place] = {}
    for place, why in seen:  # a machine is listed once, with or without a known rank
        why_of.setdefault((place.kind, place.name), why)
        place_of.setdefault((place.kind, place.name), place)
    accused: dict[tuple[str, str], Place] = {}
    for row in fault:
        key = (row.place.kind, row.place.name)
        accused[key] = row.place
        why_of.setdefault(key, next(iter(row.reasons), "accused"))
    ordered = {**accused, **place_of, **accused}
    return tuple((place, why_of[key]) for key, place in ordered.items())[:MAX_LISTED]


def _seen_by_logs(logs: LogDiagnosis) -> list[tuple[Place, str]]:
    """Who wrote the root lines, else the first line of the end; devices that root lines name."""
    seen: list[tuple[Place, str]] = []
    for event in logs.roots:
        in_order = filter(None, (line.node for line in event.writers))
        names = list(dict.fromkeys([*in_order, *event.node_names]))
        writers = [Place("node", name) for name in names[:MAX_LISTED]]
        places = (*writers, *places_of(event.lines))
        seen += [(place, "wrote a line that states the cause") for place in places]
    if not logs.roots:
        seen += [(place, "wrote the first line about the end") for place in places_of(logs.lines)]
    for indicator in logs.indicators:
        devices = [name for kind, name in indicator.parameters.items() if kind in DEVICE_PARAMETERS]
        seen += [(Place("device", name), "named in a line that states the cause") for name in devices]
    return seen


def _place(suspect: Suspect) -> Place:
    if suspect.kind != "rank":
        rank = suspect.ranks[0] if len(suspect.ranks) == 1 else None
        return Place(suspect.kind, suspect.entity, rank)
    rank = suspect.ranks[0] if suspect.ranks else _number_in(suspect.entity)
    name = suspect.entity if rank is None else str(rank)
    return Place("rank", name, rank)


def _number_in(name: str) -> int | None:
    """The number that the digits of a name are, if it is short enough for a rank."""
    digits = "".join(filter(str.isdigit, name))
    return int(digits) if 0 < len(digits) < LIMITS.digits else None
