"""Machines and their accusations: the fleet table and one node's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from diagnosis.values.numbers import natural_key
from ingest.models import Node
from triage.metrics import LEMON_DAYS, lemon_parts, lemon_score
from triage.models import Activity, Decision, Suspect
from triage.selectors.access import visible_cluster_ids
from triage.selectors.fleet_tallies import (
    NO_ACCUSATIONS,
    Tally,
    fleet_tallies,
    tallies_of,
    valid_accusations,
)

PAGE_SIZE = 100
#: the latest ones; the link to its incidents has all
MAX_ACCUSATIONS = 100
MAX_NOTES = 20

#: sort name → label
SORTS = {
    "recent": "most accused in 28 days first",
    "accused": "most accused ever first",
    "latest": "latest accusation first",
    "name": "by name",
}


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One machine of the fleet table."""

    node: Node
    accusations: int
    recent: int
    confirmed: int
    gpu_hours: float | None
    last_at: datetime | None
    lemon: float
    #: what the score is made of (``triage.metrics.lemon_parts``)
    lemon_parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One page of the fleet table."""

    rows: list[FleetRow]
    total: int
    page: int

    @property
    def has_next(self) -> bool:
        return self.page * PAGE_SIZE < self.total


def nodes_visible_to(user: Any) -> QuerySet[Node]:
    return Node.objects.filter(cluster__in=visible_cluster_ids(user))


def fleet_page(
    user: Any,
    *,
    clusters: Collection[int] | None = None,
    text: str = "",
    sort: str = "recent",
    is_accused_only: bool = True,
    page: int = 1,
    now: datetime,
) -> Fleet:
    """Machines with their accusations, optionally of these clusters. Four queries, two more after
    acts on incidents; O(n log n) in machines.
    """
    nodes = nodes_visible_to(user).filter(name__icontains=text) if text else nodes_visible_to(user)
    if clusters is not None:
        nodes = nodes.filter(cluster__in=clusters)
    if is_accused_only:
        nodes = nodes.filter(Exists(Suspect.objects.filter(node=OuterRef("pk"), is_accused=True)))
    names = dict(nodes.order_by("pk").values_list("pk", "name"))
    page = max(1, min(page, -(-len(names) // PAGE_SIZE) or 1))
    tallies = fleet_tallies(user, now)
    weights = {pk: _weight(sort, tallies.get(pk, NO_ACCUSATIONS)) for pk in names}
    page_ids = _page_of(names, weights, (page - 1) * PAGE_SIZE, page * PAGE_SIZE)
    nodes_by_id = Node.objects.select_related("cluster").in_bulk(page_ids)
    rows = [_fleet_row(nodes_by_id[pk], tallies.get(pk, NO_ACCUSATIONS)) for pk in page_ids if pk in nodes_by_id]
    return Fleet(rows, len(names), page)


def _weight(sort: str, tally: Tally) -> tuple[float, float]:
    """What orders machines, the lowest first; equal ones are ordered by their names."""
    if sort == "name":
        return 0.0, 0.0
    if sort == "accused":
        return -tally.accusations, 0.0
    if sort == "latest":
        return 0.0, 0.0 if tally.last_at is None else -tally.last_at.timestamp()
    return -tally.recent, -tally.accusations


def _page_of(names: dict[int, str], weights: dict[int, tuple[float, float]], low: int, high: int) -> list[int]:
    """The machines at ``low:high`` by their weights and names. Only names of machines that equal
    one of the page are compared: to split thousands of names into numbers takes long.
    """
    ordered = sorted(names, key=weights.__getitem__)
    page = ordered[low:high]
    if not page:
        return []
    first, last = weights[page[0]], weights[page[-1]]
    equal = [pk for pk in ordered if first <= weights[pk] <= last]
    skipped = sum(weights[pk] < first for pk in ordered)
    equal.sort(key=lambda pk: (weights[pk], natural_key(names[pk])))
    return equal[low - skipped : high - skipped]


def accusations_since(nodes: Collection[int], since: datetime) -> dict[int, int]:
    """How often each of these machines was accused since then, if ever. One query."""
    recent = valid_accusations(nodes).filter(incident__happened_at__gte=since)
    return dict(recent.values_list("node").annotate(n=Count("pk")))


def _fleet_row(node: Node, tally: Tally) -> FleetRow:
    weights: dict[str, Any] = {
        "confirmed": tally.recent_confirmed,
        "unreviewed": tally.recent_unreviewed or 0.0,
        "alone": tally.alone_confirmed + (tally.alone_unreviewed or 0.0),
        "suspended": tally.recent_imported,
    }
    return FleetRow(
        node=node,
        accusations=tally.accusations,
        recent=tally.recent,
        confirmed=tally.confirmed,
        gpu_hours=tally.gpu_hours,
        last_at=tally.last_at,
        lemon=lemon_score(**weights),
        lemon_parts=lemon_parts(**weights),
    )


class MonthOfNode(NamedTuple):
    """How often a machine was accused in a month (its first day) and that stands; ``confirmed`` of
    these by a person.
    """

    month: date
    accused: int
    confirmed: int


@dataclass(frozen=True, slots=True)
class NodePage:
    """One node's page: its row of the fleet table, the categories that stand against it, the latest
    incidents in which it was ranked, a year by months, and what people noted of it.
    """

    row: FleetRow
    accusations: list[Suspect]
    has_more: bool
    categories: list[tuple[str, int]]
    namesakes: list[Node] = field(default_factory=list)
    year: list[MonthOfNode] = field(default_factory=list)
    notes: list[Activity] = field(default_factory=list)


def nodes_by_name(user: Any, name: str, *, cluster: str = "") -> list[Node]:
    """The visible nodes of this name by the names of their clusters; that of ``cluster`` first. One query."""
    same_name = nodes_visible_to(user).filter(name=name).select_related("cluster").order_by("cluster__slug")
    return sorted(same_name, key=lambda node: node.cluster.slug != cluster)


def fleet_row(node: Node, *, now: datetime) -> FleetRow:
    """One machine's row of the fleet table. One query."""
    since = now - timedelta(days=LEMON_DAYS)
    tally = tallies_of([node.pk], since).get(node.pk, NO_ACCUSATIONS)
    return _fleet_row(node, tally)


def standing_accusations(node: Node) -> QuerySet[Suspect]:
    """Its accusations that stand, with their incidents, the latest first."""
    return valid_accusations([node.pk]).select_related("incident").order_by("-incident__happened_at", "-incident")


def node_page(user: Any, name: str, *, cluster: str = "", now: datetime) -> NodePage | None:
    """The node of this name and its history, newest first; None if the person sees none. Seven
    queries.
    """
    same_name = nodes_by_name(user, name, cluster=cluster)
    if not same_name:
        return None
    node, *namesakes = same_name
    suspects = (
        Suspect.objects.filter(node=node, incident__is_withdrawn=False)
        .select_related("incident__job")
        .order_by("-incident__happened_at", "-pk")[: MAX_ACCUSATIONS + 1]
    )
    return NodePage(
        row=fleet_row(node, now=now),
        accusations=list(suspects)[:MAX_ACCUSATIONS],
        has_more=len(suspects) > MAX_ACCUSATIONS,
        categories=_categories(node),
        namesakes=namesakes,
        year=_year(node, now),
        notes=list(_notes(node)),
    )


def _year(node: Node, now: datetime) -> list[MonthOfNode]:
    """The last twelve months, the oldest first. One query."""
    months = [_month_before(now.date(), back) for back in range(11, -1, -1)]
    start = datetime(months[0].year, months[0].month, 1, tzinfo=UTC)
    accusations = valid_accusations([node.pk]).filter(incident__happened_at__gte=start)
    accused, confirmed = Counter[date](), Counter[date]()
    for happened_at, word in accusations.values_list("incident__happened_at", "word"):
        month = happened_at.date().replace(day=1)
        accused[month] += 1
        confirmed[month] += word == Decision.Word.CONFIRM
    return [MonthOfNode(month, accused[month], confirmed[month]) for month in months]


def _month_before(day: date, months: int) -> date:
    """The first day of the month so many months before the one of ``day``."""
    number = day.year * 12 + day.month - 1 - months
    return date(number // 12, number % 12 + 1, 1)


def _notes(node: Node) -> QuerySet[Activity]:
    """The latest notes and drains. Old ones do not name the cluster: they may be of a namesake."""
    of_cluster = Q(data__cluster=node.cluster.slug) | Q(data__cluster__isnull=True)
    noted = Activity.objects.filter(of_cluster, kind="node_noted", data__subject=node.name)
    return noted.select_related("actor").order_by("-at")[:MAX_NOTES]


def _categories(node: Node) -> list[tuple[str, int]]:
    """The categories of all incidents that it stands accused in, the most frequent first."""
    standing = valid_accusations([node.pk]).values_list("incident__standing_category").annotate(n=Count("pk"))
    return sorted(standing, key=lambda item: (-item[1], item[0]))
