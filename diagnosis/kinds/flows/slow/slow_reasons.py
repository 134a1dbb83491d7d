"""Phase 4, the fabric: explains units that are slow at the same time by an address, a machine or a switch that they
share and the other units do not. If several explain the same, all are candidates.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.parallelism import Layout
from diagnosis.kinds.flows.slow.delays import leaves_of
from diagnosis.kinds.flows.slow.slowness import Episode, SlowReport, group_of
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.plain import times_as_long

THRESHOLDS: Final = thresholds.of("slow_reasons")
LIMITS: Final = thresholds.limits("slow_reasons")


def explain(
    episodes: list[Episode], transfers: list[Transfers], layouts: list[Layout], capture: Capture
) -> list[tuple[int | None, SlowReport]]:
    """Explains each group of simultaneous episodes by the common parts of its slow units. Returns (job or None for the
    fabric, finding).
    """
    found: list[tuple[int | None, SlowReport]] = []
    for cluster in _simultaneous_episodes(episodes):
        slow_units = {(e.job, u) for e in cluster for u in e.slow_units}
        other_units = {(e.job, u) for e in cluster for u in e.other_units} - slow_units
        other_units |= _bystanders(cluster, episodes, transfers) - slow_units
        t0, t1 = min(e.t0 for e in cluster), max(e.t1 for e in cluster)
        factor = float(np.median([e.factor for e in cluster]))
        found.append(
            _explanation(
                slow_units,
                other_units,
                t0=t0,
                t1=t1,
                factor=factor,
                transfers=transfers,
                layouts=layouts,
                capture=capture,
            )
        )
    return found


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
    slow = {(e.job, u) for e in episodes if e.t0 < t1 and e.t1 > t0 for u in e.slow_units}
    return busy - slow


def _explanation(
    slow_units: set[tuple[int, int]],
    other_units: set[tuple[int, int]],
    *,
    t0: float,
    t1: float,
    factor: float,
    transfers: list[Transfers],
    layouts: list[Layout],
    capture: Capture,
) -> tuple[int | None, SlowReport]:
    """Scores addresses, machines and switches: the share of slow units that have it, less the share of its units that
    were not slow. If the job's only two leaves explain the same, it is the path between them that both have.
    """
    having: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for job, unit in slow_units | other_units:
        for member in transfers[job].units[unit]:
            having[("address", capture.names[member])].add((job, unit))
            if member in capture.places and capture.places[member].node:
                having[("node", capture.places[member].node)].add((job, unit))
        for switch in transfers[job].switches[unit]:
            having[("switch", switch)].add((job, unit))
    score = {c: len(u & slow_units) / len(slow_units) - len(u & other_units) / len(u) for c, u in having.items()}
    best = max(score.values())
    top = [c for c, s in score.items() if s >= best - 1e-9]
    jobs = sorted({job for job, _ in slow_units})
    times = f"{times_as_long(factor)} as usual"
    addresses = sorted(name for kind, name in top if kind == "address")
    switches = sorted(name for kind, name in top if kind == "switch")
    if switches and (len(slow_units) > 1 or not addresses) and not (addresses and len(addresses) <= 2):
        crossed = {m for job, unit in slow_units | other_units for m in transfers[job].units[unit]}
        is_link = len(switches) == 2 and set(leaves_of(crossed, capture).values()) == set(switches)
        link = "-".join(switches) if is_link else ""
        avoiding = " Those that avoid it did not." if other_units else ""
        which = f"crosses {f'the link {link}' if is_link else switches[0]} needed {times}.{avoiding}"
        if len(switches) > 1 and not is_link:
            shown = f"{', '.join(switches[:-1][: LIMITS.shown])} and {switches[-1]}"
            which = f"crosses {shown} needed {times}. One of these {len(switches)} switches is slow."
        reason = f"{len(slow_units)} groups and pairs whose traffic {which}"
        found = SlowReport(
            "slow_switch", t0, t1, reason, switch=switches[0], candidates=switches, factor=factor, link=link
        )
        found.confidence = THRESHOLDS.sure if is_link else THRESHOLDS.sure / len(switches)
        return None, found
    number = {name: index for index, name in enumerate(capture.names)}
    guilty = [number[a] for a in addresses]
    if not guilty:
        machines = {name for kind, name in top if kind == "node"}
        guilty = sorted(m for m, p in capture.places.items() if p.node in machines)
    members = sorted({m for job, unit in slow_units for m in transfers[job].units[unit]})
    group = group_of(guilty[0] if guilty else members[0], layouts[jobs[0]])
    nodes = sorted({capture.places[g].node for g in guilty if g in capture.places} - {""})
    if len(guilty) == 1:
        whose = _member_text(guilty[0], capture)
        reason = f"Transfers over {whose} took {times} while its peers kept their speed: a slow link or adapter."
    else:
        reason = (
            f"One ring of {len(members)} took {times} while its peers kept their speed; "
            "all its hops slow down together, so flows do not show which link."
        )
    slow = SlowReport(
        "slow_group",
        t0,
        t1,
        reason,
        members=group,
        culprits=guilty,
        nodes=nodes,
        factor=factor,
        confidence=THRESHOLDS.sure if len(guilty) == 1 else THRESHOLDS.doubtful,
    )
    return jobs[0], slow
