"""Machines and their accusations: the fleet table and one node's page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Sum

from diagnosis.metrics import LEMON_DAYS, lemon_parts, lemon_score
from diagnosis.numbers import natural_key
from ingest.models import Node
from triage.models import Activity, Decision, Incident, Suspect
from triage.selectors.access import visible_cluster_ids

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
    #: what the score is made of (``diagnosis.metrics.lemon_parts``)
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


class _Tally(NamedTuple):
    """The accusations of one machine, without those that a person rejected (the incident's verdict or this suspect)."""

    accusations: int = 0
    recent: int = 0
    recent_confirmed: int = 0
    recent_imported: int = 0
    #: the sum of the probabilities of those that nobody judged
    recent_unreviewed: float | None = None
    confirmed: int = 0
    gpu_hours: float | None = None
    last_at: datetime | None = None


_NO_ACCUSATIONS = _Tally()


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
    """Machines with their accusations, optionally of these clusters. Five queries.

    Summing all accusations of every machine is slow. A cheaper figure ranks the machines, so that
    only those are summed that the page may show.
    """
    since = now - timedelta(days=LEMON_DAYS)
    nodes = nodes_visible_to(user).filter(name__icontains=text) if text else nodes_visible_to(user)
    if clusters is not None:
        nodes = nodes.filter(cluster__in=clusters)
    if is_accused_only:
        nodes = nodes.filter(Exists(Suspect.objects.filter(node=OuterRef("pk"), is_accused=True)))
    names = dict(nodes.order_by("pk").values_list("pk", "name"))
    page = max(1, min(page, -(-len(names) // PAGE_SIZE) or 1))
    low, high = (page - 1) * PAGE_SIZE, page * PAGE_SIZE
    if sort == "name":
        page_ids = sorted(names, key=lambda pk: natural_key(names[pk]))[low:high]
        tallies = _tallies(page_ids, since)
    else:
        ranks = _ranks(sort, since)
        skipped, candidates = _page_candidates(sorted(names, key=lambda pk: -ranks.get(pk, 0)), ranks, low, high)
        if sort == "accused":  # its rank is the whole order
            ordered = sorted(candidates, key=lambda pk: (-ranks.get(pk, 0), natural_key(names[pk])))
            page_ids = ordered[low - skipped : high - skipped]
            tallies = _tallies(page_ids, since)
        else:
            are_all = len(candidates) == len(names)
            tallies = _tallies(nodes.order_by().values("pk") if are_all else candidates, since)
            ordered = sorted(
                candidates,
                key=lambda pk: (*_sort_key(sort, tallies.get(pk, _NO_ACCUSATIONS)), natural_key(names[pk])),
            )
            page_ids = ordered[low - skipped : high - skipped]
    nodes_by_id = Node.objects.select_related("cluster").in_bulk(page_ids)
    sole_counts = _sole_accusations(page_ids, since)
    rows = [
        _fleet_row(nodes_by_id[pk], tallies.get(pk, _NO_ACCUSATIONS), sole_counts[pk])
        for pk in page_ids
        if pk in nodes_by_id
    ]
    return Fleet(rows, len(names), page)


def _sort_key(sort: str, tally: _Tally) -> tuple[float, float]:
    if sort == "latest":
        return (0.0, 0.0) if tally.last_at is None else (-1.0, -tally.last_at.timestamp())
    return -tally.recent, -tally.accusations


def _page_candidates(ordered: list[int], ranks: dict[int, float], low: int, high: int) -> tuple[int, list[int]]:
    """The machines that any order of equals may place in ``low:high``, and how many come before."""
    page = ordered[low:high]
    if not page:
        return low, []
    first, last = ranks.get(page[0], 0), ranks.get(page[-1], 0)
    candidates = [pk for pk in ordered if last <= ranks.get(pk, 0) <= first]
    return sum(ranks.get(pk, 0) > first for pk in ordered), candidates


def _accusations() -> QuerySet[Suspect]:
    """Accusations of machines, unordered."""
    return Suspect.objects.filter(is_accused=True, node__isnull=False).exclude(word__in=Suspect.CLEARED).order_by()


def _valid_accusations(nodes: Any) -> QuerySet[Suspect]:
    """Accusations of ``nodes`` (ids, or a query of them) in incidents that were neither withdrawn
    nor rejected; the same evidence accuses once.
    """
    accused = _accusations().filter(node__in=nodes, incident__is_withdrawn=False)
    return accused.filter(incident__duplicate_of=None).exclude(incident__state=Incident.State.REJECTED)


def _ranks(sort: str, since: datetime) -> dict[int, float]:
    """What orders the machines, without those of rank 0. One query.

    By the latest accusation only those since then have a rank: the others come after them.
    """
    if sort == "accused":
        return _accusation_counts()
    accusations = _recent_accusations(since).values_list("node")
    if sort == "latest":
        times = accusations.annotate(at=Max("incident__happened_at"))
        return {node: at.timestamp() for node, at in times}
    return dict(accusations.annotate(n=Count("pk")))


def _accusation_counts() -> dict[int, float]:
    """How often each machine was ever accused. The few incidents that do not count are left out, so
    that the rest is counted in one index.
    """
    is_void = Q(is_withdrawn=True) | Q(duplicate_of__isnull=False) | Q(state=Incident.State.REJECTED)
    void = Incident.objects.filter(is_void).order_by().values("pk")
    counted = _accusations().exclude(incident__in=void).values_list("node")
    return dict(counted.annotate(n=Count("pk")))


def _recent_accusations(since: datetime) -> QuerySet[Suspect]:
    """The accusations since then that stand."""
    recent = Incident.objects.filter(
        is_withdrawn=False,
        duplicate_of=None,
        happened_at__gte=since,
        week__gte=since.date() - timedelta(days=since.weekday()),  # the index begins with the week
    ).exclude(state=Incident.State.REJECTED)
    return _accusations().filter(incident__in=recent.order_by().values("pk"))


def accusations_since(nodes: Collection[int], since: datetime) -> dict[int, int]:
    """How often each of these machines was accused since then, if ever. One query."""
    recent = _valid_accusations(nodes).filter(incident__happened_at__gte=since)
    return dict(recent.values_list("node").annotate(n=Count("pk")))


def _tallies(nodes: Any, since: datetime) -> dict[int, _Tally]:
    """The tally of each accused machine among ``nodes`` (ids, or a query of them)."""
    is_recent = Q(incident__happened_at__gte=since)
    is_confirmed = Q(word=Decision.Word.CONFIRM)  # of this machine: a decision on the category is none on it
    rows = (
        _valid_accusations(nodes)
        .values_list("node")
        .annotate(
            accusations=Count("pk"),
            recent=Count("pk", filter=is_recent),
            recent_confirmed=Count("pk", filter=is_recent & is_confirmed),
            recent_imported=Count("pk", filter=is_recent & ~is_confirmed & Q(incident__is_imported=True)),
            recent_unreviewed=Sum("score", filter=is_recent & ~is_confirmed & Q(incident__is_imported=False)),
            confirmed=Count("pk", filter=is_confirmed),
            gpu_hours=Sum("incident__gpu_hours"),
            last_at=Max("incident__happened_at"),
        )
    )
    return {row[0]: _Tally(*row[1:]) for row in rows}


def _sole_accusations(nodes: list[int], since: datetime) -> defaultdict[int, float]:
    """The diagnosed incidents since then in which each machine was the only accused: 1 for each
    that people confirmed, else its probability.
    """
    rows = _valid_accusations(nodes).filter(incident__is_imported=False, incident__happened_at__gte=since)
    weights: defaultdict[int, float] = defaultdict(float)
    columns = ("node", "incident__accused", "word", "score")
    for node, accused, word, score in rows.values_list(*columns):
        if len(accused) == 1:
            weights[node] += 1.0 if word == Decision.Word.CONFIRM else score
    return weights


def _fleet_row(node: Node, tally: _Tally, alone: float) -> FleetRow:
    weights: dict[str, Any] = {
        "confirmed": tally.recent_confirmed,
        "unreviewed": tally.recent_unreviewed or 0.0,
        "alone": alone,
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
    """One machine's row of the fleet table. Two queries."""
    since = now - timedelta(days=LEMON_DAYS)
    tally = _tallies([node.pk], since).get(node.pk, _NO_ACCUSATIONS)
    return _fleet_row(node, tally, _sole_accusations([node.pk], since)[node.pk])


def standing_accusations(node: Node) -> QuerySet[Suspect]:
    """Its accusations that stand, with their incidents, the latest first."""
    return _valid_accusations([node.pk]).select_related("incident").order_by("-incident__happened_at", "-incident")


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
    accusations = _valid_accusations([node.pk]).filter(incident__happened_at__gte=start)
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
    standing = _valid_accusations([node.pk]).values_list("incident__standing_category").annotate(n=Count("pk"))
    return sorted(standing, key=lambda item: (-item[1], item[0]))
