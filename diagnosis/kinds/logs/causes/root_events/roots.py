"""Chooses the root events: the likeliest (:mod:`ranker`) of those that weigh enough
(:mod:`root_weights`), and others of the same cause.

Others join the leader if they are on the same nodes, or of the same kind of cause.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.lifecycles import WORKER_ENDED
from diagnosis.kinds.logs.meaning.catalogue import Catalogue, EventRow, rows_of
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.knowledge import words
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("roots")

#: A step daemon of the scheduler that reports the end of a job; its machine need not be the reason.
ENDED_ON: Final = words.regex("phrases", "ended_on")
#: A launcher that says where another process ended: the machine that it names counts.
ENDED_ELSEWHERE: Final = words.pattern("phrases", "ended_elsewhere")
#: A rank that a line names.
RANK: Final = words.regex("phrases", "rank")
CANCELLED: Final = "platform.scheduler.cancelled"
#: Kernel boot banner.
BOOT: Final = words.pattern("phrases", "kernel_boot")
KILLED: Final = "hardware.host.killed"


class Roots(msgspec.Struct, frozen=True):
    """``leader``: event number or None; ``members``: all root events; ``weights`` by event;
    ``nodes``: the nodes of the cause (empty: everywhere or nowhere); ``is_wide``: on most nodes;
    ``t0``: its start (ns); ``by``: the fallback that found it, if any; ``scores``: of all
    candidates; ``reasons``: why the leader comes first.
    """

    leader: int | None = None
    members: tuple[int, ...] = ()
    weights: Mapping[int, float] = msgspec.field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    is_wide: bool = False
    t0: int | None = None
    by: str = ""
    scores: Mapping[int, float] = msgspec.field(default_factory=dict)
    reasons: tuple[str, ...] = ()


def choose(
    facts: FailureFacts,
    weights: pl.Series,
    scores: Mapping[int, float] | None = None,
    rivals: Set[int] = frozenset(),
    by: str = "",
) -> Roots:
    """Leader and members.

    Args:
        weights: of :func:`root_weights.weigh`, in the order of the events: which events are causes
        at all.
        scores: of :func:`ranker.scores`: which of them is the first; without any it is the
        heaviest.
        rivals: causes that another rule explains; they may lead, too.
        by: the fallback that these weights come from.
    """
    scores = scores or {}
    by_event = dict(zip(facts.events["event"], weights, strict=True))
    events = facts.events.with_columns(weight=weights)
    candidates = rows_of(events.filter(pl.col("weight") >= THRESHOLDS.least))
    if not candidates:
        return Roots(weights=by_event, scores=scores)
    is_rival = pl.col("event").is_in(sorted(rivals)) & (pl.col("weight") < THRESHOLDS.least)
    candidates += _best_rival(candidates, rows_of(events.filter(is_rival)), scores)
    places = _nodes_of_events(facts.catalogue, [row.event for row in candidates], facts.named)
    ranked = _ranked(candidates, places, facts.total)
    likeliest = max(ranked, key=lambda row: scores.get(row.event, 0.0))
    as_exact = [row for row in ranked if places[row.event] >= places[likeliest.event]]
    lead = first_of_rule(facts.catalogue, as_exact, likeliest)
    by_event[lead.event] = lead.weight
    others = [row for row in ranked if row.event != lead.event]
    lead_nodes = _nodes_of_lead(lead, others, places)
    is_narrow = stats.is_minority(len(lead_nodes), facts.total)
    joining = [row.event for row in others if _joins(row, lead, lead_nodes, places[row.event], facts.total)]
    members = _without_summaries(facts.catalogue, [lead.event, *joining])
    return Roots(
        leader=lead.event,
        members=tuple(members),
        weights=by_event,
        nodes=tuple(sorted(lead_nodes)) if is_narrow else (),
        is_wide=len(lead_nodes) > 1 and not is_narrow,
        t0=_first_at(row for row in candidates if row.event in members),
        by=by,
        scores=scores,
    )


def _first_at(rows: Iterable[EventRow]) -> int | None:
    return min((row.first_at for row in rows if row.first_at is not None), default=None)


def first_of_rule(catalogue: Catalogue, ranked: Sequence[EventRow], lead: EventRow) -> EventRow:
    """Of the wordings by which one file tells what the leader's rule knows, the first: the others
    repeat it. A weak rule knows only a form, which different errors share. O(occurrences).
    """
    wordings = [row for row in ranked if row.signature == lead.signature]
    equals = [row for row in wordings if row.weight >= lead.weight]
    is_known_well = lead.signature is not None and lead.strength != Strength.WEAK
    if len(equals) < 2 or not is_known_well:
        return lead
    files = catalogue.occurrences.filter(pl.col("event").is_in([row.event for row in equals]))["file"]
    return min(equals, key=lambda row: row.first_line) if files.n_unique() == 1 else lead


def _best_rival(
    candidates: Sequence[EventRow], explained: Sequence[EventRow], scores: Mapping[int, float]
) -> list[EventRow]:
    """The explained cause that outscores every candidate, if any; as sure as the heaviest."""
    best = max(scores.get(row.event, 0.0) for row in candidates)
    higher = [row for row in explained if scores.get(row.event, 0.0) > best]
    if not higher:
        return []
    first = max(higher, key=lambda row: scores[row.event])
    return [replace(first, weight=max(row.weight for row in candidates))]


def _joins(row: EventRow, lead: EventRow, lead_nodes: Set[str], here: Set[str], total: int) -> bool:
    """Whether a candidate is of the leader's cause: of its kind, or on its few nodes. ``here``: the
    candidate's nodes, ``lead_nodes``: the leader's.
    """
    is_light = row.weight < THRESHOLDS.share * lead.weight
    if is_light or not _is_near(row, lead):
        return False
    is_same_kind = _subject(row) == _subject(lead)
    if not stats.is_minority(len(lead_nodes), total):
        return is_same_kind
    if not here:
        return is_same_kind
    # a weak error of most nodes is the echo of a cause on few nodes
    is_of_few = stats.is_minority(len(here), total)
    return not here.isdisjoint(lead_nodes) and (is_of_few or is_same_kind)


def has_wide_echo(facts: FailureFacts, nodes: int) -> bool:
    """Whether half of the nodes or more print a known consequence that no healthy job prints."""
    found = facts.consequences()["n_nodes"]
    return bool((found >= THRESHOLDS.wide * nodes).any())


def _nodes_of_lead(lead: EventRow, others: Sequence[EventRow], places: Mapping[int, set[str]]) -> set[str]:
    """The nodes of the leader's rule, over all wordings that share nodes."""
    lead_nodes = set(places[lead.event])
    same_rule = [row for row in others if row.signature is not None and row.signature == lead.signature]
    apart = [places[row.event] for row in same_rule if _is_near(row, lead)]
    while touching := [here for here in apart if not here.isdisjoint(lead_nodes)]:
        lead_nodes = lead_nodes.union(*touching)
        apart = [here for here in apart if here not in touching]
    return lead_nodes


def _without_summaries(catalogue: Catalogue, members: list[int]) -> list[int]:
    """Of a launcher's messages on a dead worker the first kind: its summary repeats it."""
    is_death = pl.col("event").is_in(members) & catalogue.says(WORKER_ENDED)
    deaths = catalogue.events.filter(is_death).sort("first_line", "event")["event"].to_list()
    return [event for event in members if event not in deaths[1:]]


def _ranked(candidates: Sequence[EventRow], places: Mapping[int, set[str]], total: int) -> list[EventRow]:
    """Heaviest first; among equals the one whose nodes have more candidates, then fewer nodes
    before more, then earlier before later. A line without a time comes before the next one with a
    time, and before later lines.
    """
    narrow = {row.event for row in candidates if stats.is_minority(len(places[row.event]), total)}
    weight_of_node: dict[str, float] = defaultdict(float)
    for row in candidates:
        for node in places[row.event] if row.event in narrow else ():
            weight_of_node[node] += row.weight

    def weight(row: EventRow) -> float:
        if row.event not in narrow:
            return row.weight
        most = max(weight_of_node[node] for node in places[row.event])
        company = min(1.0, most - row.weight)
        return row.weight * (1 + float(THRESHOLDS.company) * company)

    def key(row: EventRow) -> tuple[float, bool, float, int, int]:
        at = row.until_at if row.first_at is None else row.first_at
        began = math.inf if at is None else float(at)
        return -round(weight(row), 2), row.event not in narrow, began, row.first_line, row.event

    return sorted(candidates, key=key)


def _subject(row: EventRow) -> str | None:
    """The subject of a category: causes with one subject are of one kind."""
    return taxonomy.load().get(row.category).matter if row.category else None


def _is_near(row: EventRow, lead: EventRow) -> bool:
    """Whether an event may be near the leader in time; for an event without stamps only a lower and
    an upper bound are known.
    """
    low, high = _time_bounds(row)
    lead_low, lead_high = _time_bounds(lead)
    is_late = low > lead_high + THRESHOLDS.after_s * SECOND
    is_early = high < lead_low - THRESHOLDS.before_s * SECOND
    return not is_late and not is_early


def _time_bounds(row: EventRow) -> tuple[float, float]:
    """The bounds (ns) of the time of an event's first line."""
    if row.first_at is None:
        return -math.inf, math.inf
    if row.is_stamped:
        return row.first_at, row.first_at
    return row.first_at, math.inf if row.until_at is None else row.until_at


def _nodes_of_events(
    catalogue: Catalogue, events: list[int], named: Mapping[int, tuple[str, ...]]
) -> dict[int, set[str]]:
    """The nodes of each event: those that wrote it, else those that it names. The machine of a
    daemon or a launcher that reports the end of a job or of another process does not count.
    """
    is_report = catalogue.says(ENDED_ON.pattern) | catalogue.says(ENDED_ELSEWHERE)
    elsewhere = catalogue.events.filter(is_report)["event"]
    rows = (
        catalogue.occurrences.filter(pl.col("event").is_in(events) & ~pl.col("event").is_in(elsewhere.implode()))
        .drop_nulls("node")
        .group_by("event")
        .agg(pl.col("node").unique())
        .iter_rows()
    )
    found = {event: set(nodes) for event, nodes in rows}
    return {e: found.get(e) or set(named.get(e, ())) for e in events}
