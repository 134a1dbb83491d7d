"""Phase 4, the fabric: explains units that are slow at the same time by an address, a machine or a switch that they
share and the other units do not. If several explain the same, all are candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.delays import leaves_of
from diagnosis.kinds.flows.slow.slowness import Episode, SlowReport, group_of
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.values.plain import times_as_long

THRESHOLDS: Final = thresholds.of("slow_reasons")
LIMITS: Final = thresholds.limits("slow_reasons")

#: Scores that differ by less are equal.
_SCORE_SLACK: Final = 1e-9
#: A group or pair of the job of this number.
type Unit = tuple[int, int]
#: What slow units may share: ``address``, ``node``, ``pair`` (of addresses) or ``switch``, and its name.
type Part = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Slowdown:
    """Units that were slow at the same time (s), the others that had traffic meanwhile, and how much longer the slow
    ones needed than usual, or than their ``peers`` (of each unit)."""

    slow: set[Unit]
    other: set[Unit]
    t0: float
    t1: float
    factor: float
    peers: dict[Unit, str]

    @property
    def than(self) -> str:
        """What the slow units are compared with."""
        return "others of its kind in the whole capture" if self.peers else "usual"


@dataclass(frozen=True, slots=True)
class _Fabric:
    """All jobs' traffic by unit, and their layouts."""

    transfers: list[Transfers]
    layouts: list[Layout]
    capture: Capture

    def members_of(self, units: Iterable[Unit]) -> set[int]:
        members: set[int] = set()
        for job, unit in units:
            members.update(self.transfers[job].units[unit])
        return members


def explain(
    episodes: list[Episode], transfers: list[Transfers], layouts: list[Layout], capture: Capture
) -> list[tuple[int | None, SlowReport]]:
    """Explains each group of simultaneous episodes by the common parts of its slow units. Returns (job or None for the
    fabric, finding). O(episodes · units).
    """
    fabric = _Fabric(transfers, layouts, capture)
    clusters = _simultaneous_episodes(episodes)
    return [_explanation(_slowdown(cluster, episodes, transfers), fabric) for cluster in clusters]


def _slowdown(cluster: list[Episode], episodes: list[Episode], transfers: list[Transfers]) -> _Slowdown:
    slow: set[Unit] = set()
    other = _bystanders(cluster, episodes, transfers)
    for episode in cluster:
        slow.update((episode.job, unit) for unit in episode.slow_units)
        other.update((episode.job, unit) for unit in episode.other_units)
    return _Slowdown(
        slow=slow,
        other=other - slow,
        t0=min(episode.t0 for episode in cluster),
        t1=max(episode.t1 for episode in cluster),
        factor=float(np.median([episode.factor for episode in cluster])),
        peers={(cluster[0].job, unit): name for unit, name in enumerate(cluster[0].peers)},
    )


def _member_text(member: int, capture: Capture) -> str:
    """A member by its machine and its address, or the address alone where no machine is known."""
    name, address = capture.machine(member), capture.names[member]
    return address if name == address else f"{name} ({address})"


def _simultaneous_episodes(episodes: list[Episode]) -> list[list[Episode]]:
    """Episodes that begin and end together (within a quarter of their length), across jobs and kinds of traffic."""
    clusters: list[list[Episode]] = []
    for episode in sorted(episodes, key=lambda e: (e.t0, e.t1)):
        slack = THRESHOLDS.together * (episode.t1 - episode.t0)
        for cluster in clusters:
            if abs(cluster[0].t0 - episode.t0) <= slack and abs(cluster[0].t1 - episode.t1) <= slack:
                cluster.append(episode)
                break
        else:
            clusters.append([episode])
    return clusters


def _bystanders(cluster: list[Episode], episodes: list[Episode], transfers: list[Transfers]) -> set[tuple[int, int]]:
    """Units (of any job) that had traffic meanwhile and were not slow in an overlapping episode."""
    t0, t1 = min(e.t0 for e in cluster), max(e.t1 for e in cluster)
    busy: set[tuple[int, int]] = set()
    for job, table in enumerate(transfers):
        inside = table.cells.filter((pl.col("first") <= t1) & (pl.col("last") >= t0))["unit"].unique().to_list()
        busy |= {(job, int(u)) for u in inside}
    for episode in episodes:
        if episode.t0 < t1 and episode.t1 > t0:
            busy.difference_update((episode.job, unit) for unit in episode.slow_units)
    return busy


def _explanation(slowdown: _Slowdown, fabric: _Fabric) -> tuple[int | None, SlowReport]:
    """The finding of the parts that explain a slowdown best, and its job; None for a switch, which has no job."""
    best = _best_parts(slowdown, fabric)
    addresses = sorted(name for kind, name in best if kind == "address")
    switches = sorted(name for kind, name in best if kind == "switch")
    is_narrow = 0 < len(addresses) <= 2
    is_pair_at_its_address = len(slowdown.slow) == 1 and bool(addresses)
    pairs = [name for kind, name in best if kind == "pair"]
    if len(pairs) == 1:
        return min(job for job, _ in slowdown.slow), _slow_path(pairs[0], slowdown, fabric)
    if switches and not is_narrow and not is_pair_at_its_address:
        return None, _slow_switch(switches, slowdown, fabric)
    owner = min(job for job, _ in slowdown.slow)
    culprits = _culprits(addresses, best, fabric.capture)
    return owner, _slow_group(culprits, fabric.layouts[owner], slowdown, fabric)


def _best_parts(slowdown: _Slowdown, fabric: _Fabric) -> list[Part]:
    """The parts of the highest score: the share of slow units that have it, less the share of its units that were not
    slow. Units count where others that they are compared with do not have it: what all of them have
    makes none of them slower than the others.
    """
    score = {}
    groups: dict[str, set[Unit]] = defaultdict(set)
    for unit in slowdown.peers.keys() & (slowdown.slow | slowdown.other):
        groups[slowdown.peers[unit]].add(unit)
    for part, units in _units_by_part(slowdown, fabric).items():
        common = set[Unit]().union(*(group for group in groups.values() if group <= units))
        share_of_slow = len((units & slowdown.slow) - common) / len(slowdown.slow)
        share_of_others = len((units & slowdown.other) - common) / len(units)
        score[part] = share_of_slow - share_of_others
    best = max(score.values())
    least = best - _SCORE_SLACK
    if best + _SCORE_SLACK < THRESHOLDS.least:
        return []
    return sorted(part for part, value in score.items() if value >= least)


def _units_by_part(slowdown: _Slowdown, fabric: _Fabric) -> dict[Part, set[Unit]]:
    """The units that have each part."""
    capture = fabric.capture
    units: dict[Part, set[Unit]] = defaultdict(set)
    for job, unit in slowdown.slow | slowdown.other:
        members = fabric.transfers[job].units[unit]
        if len(members) == 2 and slowdown.peers:
            units["pair", _pair_name(members, capture)].add((job, unit))
        for member in members:
            units["address", capture.names[member]].add((job, unit))
            place = capture.places.get(member)
            if place is not None and place.node:
                units["node", place.node].add((job, unit))
        for switch in fabric.transfers[job].switches[unit]:
            units["switch", switch].add((job, unit))
    return units


def _pair_name(members: Iterable[int], capture: Capture) -> str:
    return "-".join(sorted(capture.names[member] for member in members))


def _slow_switch(switches: list[str], slowdown: _Slowdown, fabric: _Fabric) -> SlowReport:
    """One of these switches is slow. If the job's only two leaves explain the same, it is the path between them that
    both have.
    """
    crossed = fabric.members_of(slowdown.slow | slowdown.other)
    is_link = len(switches) == 2 and set(leaves_of(crossed, fabric.capture).values()) == set(switches)
    link = "-".join(switches) if is_link else ""
    times = f"{times_as_long(slowdown.factor)} as {slowdown.than}"
    avoiding = " Those that avoid it did not." if slowdown.other else ""
    which = f"crosses {switches[0]} needed {times}.{avoiding}"
    confidence = THRESHOLDS.sure / len(switches)
    if is_link:
        which = f"crosses the link {link} needed {times}.{avoiding}"
        confidence = THRESHOLDS.sure
    elif len(switches) > 1:
        shown = f"{', '.join(switches[:-1][: LIMITS.shown])} and {switches[-1]}"
        which = f"crosses {shown} needed {times}. One of these {len(switches)} switches is slow."
    return SlowReport(
        "slow_switch",
        slowdown.t0,
        slowdown.t1,
        f"{len(slowdown.slow)} groups and pairs whose traffic {which}",
        switch=switches[0],
        candidates=switches,
        factor=slowdown.factor,
        link=link,
        confidence=confidence,
    )


def _slow_path(name: str, slowdown: _Slowdown, fabric: _Fabric) -> SlowReport:
    """What joins two machines is slow: each of them is as fast as usual with all others. A ring that
    is slow as well may have that path as a hop.
    """
    own = (unit for unit in slowdown.slow if _pair_name(fabric.members_of([unit]), fabric.capture) == name)
    members = sorted(fabric.members_of(own))
    pair = "-".join(sorted({fabric.capture.machine(member) for member in members}))
    times = f"{times_as_long(slowdown.factor)} as {slowdown.than}"
    return SlowReport(
        "slow_group",
        slowdown.t0,
        slowdown.t1,
        f"What the two machines of {pair} send to each other took {times}. What they send to others did not: "
        "the path between them is slow.",
        members=members,
        factor=slowdown.factor,
        link=pair,
        confidence=THRESHOLDS.doubtful,
    )


def _culprits(addresses: list[str], best: list[Part], capture: Capture) -> list[int]:
    """The members at these addresses; without any, those on the machines that explain the slowdown best."""
    if addresses:
        number = {name: index for index, name in enumerate(capture.names)}
        return [number[address] for address in addresses]
    machines = {name for kind, name in best if kind == "node"}
    return sorted(member for member, place in capture.places.items() if place.node in machines)


def _slow_group(culprits: list[int], layout: Layout, slowdown: _Slowdown, fabric: _Fabric) -> SlowReport:
    """A group is slow: by one of its members, or by a hop that flows do not show."""
    capture = fabric.capture
    members = fabric.members_of(slowdown.slow)
    first = culprits[0] if culprits else min(members)
    times = f"{times_as_long(slowdown.factor)} as {slowdown.than}"
    apart = " while its peers kept their speed" if slowdown.than == "usual" else ""
    if len(culprits) == 1:
        whose = _member_text(culprits[0], capture)
        reason = f"Transfers over {whose} took {times}{apart}: a slow link or adapter."
        confidence = THRESHOLDS.sure
    else:
        reason = (
            f"One ring of {len(members)} took {times}{apart}; "
            "all its hops slow down together, so flows do not show which link."
        )
        confidence = THRESHOLDS.doubtful
    nodes = {capture.places[member].node for member in culprits if member in capture.places}
    return SlowReport(
        "slow_group",
        slowdown.t0,
        slowdown.t1,
        reason,
        members=group_of(first, layout),
        culprits=culprits,
        nodes=sorted(nodes - {""}),
        factor=slowdown.factor,
        confidence=confidence,
    )
