"""Chooses the root events: the heaviest (:mod:`root_weights`), and others of the same cause.

The heaviest event leads; others join it if they are on the same nodes, or of the same kind of cause.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from diagnosis import stats, taxonomy, thresholds
from diagnosis.kinds.logs.causes.scene import Scene
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.meaning.catalogue import Catalogue
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role

THRESHOLDS: Final = thresholds.of("roots")

#: A step daemon of the scheduler that reports the end of a job; its machine need not be the reason.
ENDED_ON: Final = words.regex("phrases", "ended_on")
#: A rank that a line names.
RANK: Final = words.regex("phrases", "rank")
#: A line of source that a traceback quotes below its frame: recognised by its indentation, after any prefix.
QUOTED_CODE: Final = words.pattern("phrases", "quoted_code")
CANCELLED: Final = "platform.scheduler.cancelled"
#: Kernel boot banner.
BOOT: Final = words.pattern("phrases", "kernel_boot")
KILLED: Final = "hardware.host.killed"
#: A launcher's message that a worker ended with a code or by a signal.
WORKER_ENDED: Final = words.pattern("phrases", "worker_ended")
#: A program's or launcher's message that it was told to stop.
STOP_RECEIVED: Final = words.pattern("phrases", "told_to_stop")


@dataclass(frozen=True)
class Roots:
    """``leader``: event number or None; ``members``: all root events; ``weights`` by event; ``nodes``: the nodes of the
    cause (empty: everywhere or nowhere); ``is_wide``: on most nodes; ``t0``: its start (ns); ``by``: the fallback that
    found it, if any.
    """

    leader: int | None = None
    members: tuple[int, ...] = ()
    weights: Mapping[int, float] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    is_wide: bool = False
    t0: int | None = None
    by: str = ""


def choose(scene: Scene, weights: pl.Series, by: str = "") -> Roots:
    """Leader and members.

    Args:
        weights: of :func:`root_weights.weigh`, in the order of the events.
        by: the fallback that these weights come from.
    """
    catalogue, named, total = scene.catalogue, scene.named, scene.total
    events = catalogue.events.with_columns(weight=weights).filter(pl.col("weight") >= THRESHOLDS.least)
    by_event = dict(catalogue.events.with_columns(weight=weights).select("event", "weight").iter_rows())
    if events.is_empty():
        return Roots(weights=by_event)
    places = _nodes_of_events(catalogue, events["event"].to_list(), named)
    ranked = _rank_candidates(events, places, total)
    lead = ranked[0]
    home = _home_nodes(lead, ranked, places)
    is_narrow = stats.is_minority(len(home), total)
    members = [lead["event"]]
    for row in ranked[1:]:
        if row["weight"] < THRESHOLDS.share * lead["weight"] or not _is_near(row, lead):
            continue
        here = places[row["event"]]
        same_kind = _subject(row["category"]) == _subject(lead["category"])
        if is_narrow:
            joins = bool(here & home) or (not here and same_kind)
            # a weak error of most nodes is the echo of a cause on few nodes
            joins = joins and (stats.is_minority(len(here), total) or same_kind)
        else:
            joins = same_kind
        if joins:
            members.append(row["event"])
    members += _related_events(scene, lead, home, members, weights)
    members = _without_summaries(catalogue, members)
    times = [r["first_at"] for r in ranked if r["event"] in members and r["first_at"] is not None]
    return Roots(
        leader=lead["event"],
        members=tuple(members),
        weights=by_event,
        nodes=tuple(sorted(home)) if is_narrow else (),
        is_wide=len(home) > 1 and not is_narrow,
        t0=min(times) if times else None,
        by=by,
    )


def has_wide_echo(scene: Scene, nodes: int) -> bool:
    """Whether half of the nodes or more print a known consequence that no healthy job prints."""
    found = scene.consequences()["n_nodes"]
    return bool((found >= THRESHOLDS.wide * nodes).any())


def _home_nodes(lead: dict[str, Any], ranked: list[dict[str, Any]], places: Mapping[int, set[str]]) -> set[str]:
    """The nodes of the leader's rule, over all wordings that share nodes: variants of one message must not look like
    events of few nodes.
    """
    home = set(places[lead["event"]])
    kin = [
        places[r["event"]]
        for r in ranked[1:]
        if lead["signature"] is not None and r["signature"] == lead["signature"] and _is_near(r, lead)
    ]
    grown = True
    while grown:
        grown = False
        for here in kin:
            if here & home and not here <= home:
                home |= here
                grown = True
    return home


def _related_events(
    scene: Scene, lead: dict[str, Any], home: set[str], members: Collection[int], weights: pl.Series
) -> list[int]:
    """Further messages about the same cause on its own nodes, at that time: roots that yielded to the leader. If few
    nodes print the cause, also confirmations of its kind, unknown signs and deaths of workers: a process on the node
    that reports the fault in its own words is a first-hand report, and the same words elsewhere are echoes. If many do,
    a later message of all of them is an echo.
    """
    is_narrow = stats.is_minority(len(home), scene.total)
    gave_way = (pl.col("own_role") == Role.ROOT) & (pl.col("role") == Role.CASCADE)
    is_sign = pl.col("role").is_null() & (pl.lit(weights) >= THRESHOLDS.least)
    is_kin = gave_way | is_sign | (pl.col("role") == Role.CONFIRMATION)
    if not is_narrow:
        is_kin = gave_way & (pl.col("strength") != "weak")
    rows = scene.events.filter(is_kin & (pl.col("jobs_with_it") == 0) & ~pl.col("event").is_in(list(members)))
    places = _nodes_of_events(scene.catalogue, rows["event"].to_list(), {})
    found = []
    for row in rows.iter_rows(named=True):
        here, at, led_at = places[row["event"]], row["first_at"], lead["first_at"]
        if is_narrow:
            is_other = row["role"] == Role.CONFIRMATION and _subject(row["category"]) != _subject(lead["category"])
            is_of_it = not is_other or bool(re.search(WORKER_ENDED, row["example"]))
        else:
            is_before = at is not None and led_at is not None and at <= led_at
            is_of_it = is_before or (len(here) < scene.total and (here == home or not home))
        if here and here <= (home or here) and is_of_it and _is_near(row, lead):
            found.append(row["event"])
    return found


def _without_summaries(catalogue: Catalogue, members: list[int]) -> list[int]:
    """Of a launcher's messages that a worker died, only the first kind: the summary at its end repeats it."""
    is_death = pl.col("event").is_in(members) & pl.col("example").str.contains(WORKER_ENDED)
    deaths = catalogue.events.filter(is_death).sort("first_line", "event")["event"].to_list()
    return [event for event in members if event not in deaths[1:]]


def _rank_candidates(events: pl.DataFrame, places: Mapping[int, set[str]], total: int) -> list[dict[str, Any]]:
    """Heaviest first; among equals the one whose nodes have more candidates, then fewer nodes before more, then earlier
    before later. A line without a time comes before the next one with a time, and before later lines.
    """
    rows = list(events.iter_rows(named=True))
    weight_of_node: dict[str, float] = {}
    for row in rows:
        here = places[row["event"]]
        for node in here if stats.is_minority(len(here), total) else ():
            weight_of_node[node] = weight_of_node.get(node, 0.0) + row["weight"]

    def key(row: dict[str, Any]) -> tuple[float, bool, float, int, int]:
        is_narrow = stats.is_minority(len(places[row["event"]]), total)
        at = row["until_at"] if row["first_at"] is None else row["first_at"]
        company = (
            max((weight_of_node.get(n, 0.0) for n in places[row["event"]]), default=0.0) - row["weight"]
            if is_narrow
            else 0.0
        )
        return (
            -round(row["weight"] * (1 + THRESHOLDS.company * min(1.0, company)), 2),
            not is_narrow,
            float("inf") if at is None else float(at),
            row["first_line"],
            row["event"],
        )

    return sorted(rows, key=key)


def _subject(category: str | None) -> str | None:
    """The subject of a category: causes with one subject are of one kind."""
    return taxonomy.load().get(category).matter if category else None


def _is_near(row: dict[str, Any], lead: dict[str, Any]) -> bool:
    """Whether an event may be near the leader in time; for an event without stamps only a lower and an upper bound are
    known.
    """
    (low, high), (lead_low, lead_high) = _time_bounds(row), _time_bounds(lead)
    return bool(low <= lead_high + THRESHOLDS.after_s * SECOND and high >= lead_low - THRESHOLDS.before_s * SECOND)


def _time_bounds(row: dict[str, Any]) -> tuple[float, float]:
    """The bounds (ns) of the time of an event's first line."""
    low = row["first_at"]
    if low is None:
        return float("-inf"), float("inf")
    if row["is_stamped"]:
        return low, low
    return low, float("inf") if row["until_at"] is None else row["until_at"]


def _nodes_of_events(
    catalogue: Catalogue, events: list[int], named: Mapping[int, tuple[str, ...]]
) -> dict[int, set[str]]:
    """The nodes of each event: those that wrote it, else those that it names. The machine of a scheduler's daemon that
    reports the end of a job does not count.
    """
    elsewhere = catalogue.events.filter(pl.col("example").str.contains(ENDED_ON.pattern))["event"]
    rows = (
        catalogue.cells.filter(pl.col("event").is_in(events) & ~pl.col("event").is_in(elsewhere.implode()))
        .drop_nulls("node")
        .group_by("event")
        .agg(pl.col("node").unique())
        .iter_rows()
    )
    found = {event: set(nodes) for event, nodes in rows}
    return {e: found.get(e) or set(named.get(e, ())) for e in events}
