"""Machines and what they were accused of: the fleet table and one node's page."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery, Sum

from diagnosis.metrics import LEMON_DAYS, lemon_score
from ingest.models import Node
from triage.models import Decision, Incident, Suspect
from triage.selectors.access import visible_cluster_ids

PAGE_SIZE = 100
#: the latest ones; the link to its incidents leads to all
ACCUSATIONS_SHOWN = 100

_CONFIRMED = (Incident.State.CONFIRMED, Incident.State.CORRECTED, Incident.State.ACTIONED, Incident.State.RESOLVED)

#: sort name → (words, ordering)
SORTS = {
    "recent": ("most accused in 28 days first", ("-recent", "-accusations", "name")),
    "accused": ("most accused ever first", ("-accusations", "name")),
    "latest": ("latest accusation first", ("-last_at", "name")),
    "name": ("by name", ("name",)),
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
    user: Any, *, text: str = "", sort: str = "recent", is_accused_only: bool = True, page: int = 1, now: datetime
) -> Fleet:
    """Machines with their accusations. Two queries; accusations are summed before they meet the nodes."""
    recent = Q(suspicions__incident__happened_at__gte=now - timedelta(days=LEMON_DAYS))
    accused = Q(suspicions__is_accused=True, suspicions__incident__is_withdrawn=False)
    standing = accused & ~Q(suspicions__incident__state=Incident.State.REJECTED)
    confirmed = accused & Q(suspicions__incident__state__in=_CONFIRMED)
    nodes = nodes_visible_to(user).filter(name__icontains=text) if text else nodes_visible_to(user)
    if is_accused_only:
        nodes = nodes.filter(pk__in=Suspect.objects.filter(is_accused=True, node__isnull=False).values("node"))
    total = nodes.count()
    page = max(1, min(page, -(-total // PAGE_SIZE) or 1))
    rows = (
        nodes.select_related("cluster")
        .annotate(
            accusations=Count("suspicions", filter=standing),
            recent=Count("suspicions", filter=standing & recent),
            recent_confirmed=Count("suspicions", filter=confirmed & recent),
            confirmed=Count("suspicions", filter=confirmed),
            gpu_hours=Sum("suspicions__incident__gpu_hours", filter=standing),
            last_at=Max("suspicions__incident__happened_at", filter=standing),
        )
        .order_by(*SORTS.get(sort, SORTS["recent"])[1])[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    )
    return Fleet([_fleet_row(row) for row in rows], total, page)


def _fleet_row(row: Any) -> FleetRow:
    score = lemon_score(confirmed=row.recent_confirmed, unreviewed=row.recent - row.recent_confirmed)
    return FleetRow(row, row.accusations, row.recent, row.confirmed, row.gpu_hours, row.last_at, score)


@dataclass(frozen=True, slots=True)
class Accusation:
    """One incident in which a node was ranked, with what a human last said of that."""

    incident: Incident
    suspect: Suspect
    word: str


@dataclass(frozen=True, slots=True)
class NodePage:
    """One node's page."""

    node: Node
    accusations: list[Accusation]
    categories: list[tuple[str, int]]
    recent: int
    confirmed: int
    lemon: float
    gpu_hours: float
    namesakes: list[Node] = field(default_factory=list)


def node_page(user: Any, name: str, *, cluster: str = "", now: datetime) -> NodePage | None:
    """The node of this name and its history, newest first; None where nobody of this name is visible. Two queries."""
    same_name = list(nodes_visible_to(user).filter(name=name).select_related("cluster").order_by("cluster__slug"))
    node = next((node for node in same_name if node.cluster.slug == cluster), same_name[0] if same_name else None)
    if node is None:
        return None
    last_word = (
        Decision.objects.filter(incident=OuterRef("incident"), claim="suspect", subject=name, undone_at=None)
        .order_by("-made_at", "-id")
        .values("word")[:1]
    )
    suspects = (
        Suspect.objects.filter(node=node, incident__is_withdrawn=False)
        .select_related("incident__job")
        .annotate(word=Subquery(last_word))
        .order_by("-incident__happened_at")[:ACCUSATIONS_SHOWN]
    )
    accusations = [Accusation(suspect.incident, suspect, suspect.word or "") for suspect in suspects]
    standing = [
        one
        for one in accusations
        if one.suspect.is_accused and one.word != "reject" and one.incident.state != Incident.State.REJECTED
    ]
    recent = [one for one in standing if one.incident.happened_at >= now - timedelta(days=LEMON_DAYS)]
    confirmed = [one for one in recent if one.word == "confirm" or one.incident.state in _CONFIRMED]
    tally: dict[str, int] = {}
    for one in standing:
        tally[one.incident.standing_category] = tally.get(one.incident.standing_category, 0) + 1
    return NodePage(
        node=node,
        accusations=accusations,
        categories=sorted(tally.items(), key=lambda item: (-item[1], item[0])),
        recent=len(recent),
        confirmed=len(confirmed),
        lemon=lemon_score(
            confirmed=len(confirmed),
            unreviewed=len(recent) - len(confirmed),
            alone=sum(len(one.incident.accused) == 1 for one in recent),
        ),
        gpu_hours=sum(one.incident.gpu_hours or 0.0 for one in standing),
        namesakes=[other for other in same_name if other.pk != node.pk],
    )
