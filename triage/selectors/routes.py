"""The routes that a person manages, what they may carry, and their messages."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject

from ingest.models import Cluster, Node
from ingest.roles import can
from triage.models import Delivery, Incident, Reference, Route
from triage.selectors.access import visible_cluster_ids

EVENTS = {
    "incident.opened": "a diagnosis found a failure that was not known",
    "incident.regressed": "the new failure looks like one that was resolved before",
    "incident.updated": "a later diagnosis says something else about it",
    "incident.decided": "somebody confirmed, corrected or rejected a claim",
    "incident.undone": "somebody undid a decision",
    "incident.moved": "an action was recorded, or it was resolved, reopened, snoozed or woken",
    "incident.assigned": "it was assigned to somebody, or to nobody",
    "incident.withdrawn": "a later diagnosis found no failure",
    "job.diagnosed": "a diagnosis of an attempt was stored, with or without a failure",
    "job.failed_to_parse": "evidence could not be read; the sentences say why",
    "job.failed_to_diagnose": "a diagnosis failed",
}


def routes_of(user: Any) -> QuerySet[Route]:
    """A manager's own and those of their teams; for an administrator all."""
    if not can(user, "routes"):
        return Route.objects.none()
    rows = Route.objects.select_related("owner", "team")
    return rows if can(user, "administer") else rows.filter(Q(owner=user) | Q(team__members=user)).distinct()


def active_routes() -> list[Route]:
    """All that are switched on. Routes of one keeper share its row, so what it may see is looked up once. One query."""
    owners: dict[int | None, Any] = {}
    teams: dict[int | None, Any] = {}
    rows = list(Route.objects.filter(is_active=True).select_related("owner", "team"))
    for row in rows:
        row.owner = owners.setdefault(row.owner_id, row.owner)
        row.team = teams.setdefault(row.team_id, row.team)
    return rows


def with_counts(rows: QuerySet[Route]) -> QuerySet[Route]:
    """Each with the numbers of its waiting and failed messages, and the time of the last delivery."""
    return rows.annotate(
        waiting=Count("deliveries", Q(deliveries__state=Delivery.State.WAITING), distinct=True),
        lost=Count("deliveries", Q(deliveries__state=Delivery.State.GIVEN_UP), distinct=True),
        last_at=Max("deliveries__delivered_at"),
    )


def deliveries_of(route: Route, *, state: str = "") -> QuerySet[Delivery]:
    """Its messages, newest first."""
    rows = route.deliveries.all()
    return rows.filter(state=state) if state in Delivery.State.values else rows


def clusters_of(route: Route) -> list[int]:
    """Ids of the clusters whose events the route may carry: those of its team and the open ones, else its owner's.

    One or two queries a keeper's row, which then caches them.
    """
    team: Any = route.team
    if team is not None:
        if (clusters := getattr(team, "_told_clusters", None)) is None:
            rows = Cluster.objects.filter(Q(teams=None) | Q(teams=team)).distinct()
            clusters = team._route_clusters = list(rows.values_list("pk", flat=True))
        return clusters
    owner = route.owner
    return visible_cluster_ids(owner) if owner and owner.is_active and can(owner, "routes") else []


def may_receive(route: Route, cluster_id: int | None) -> bool:
    """Whether the route has a keeper who may have routes, and that one sees the cluster."""
    if cluster_id is None:
        return route.team is not None or bool(route.owner and route.owner.is_active and can(route.owner, "routes"))
    return cluster_id in clusters_of(route)


def has_message_about(route: Route, about: Incident | Node) -> bool:
    """Whether a message about it was written for the route, or something was made of it there."""
    of_subject = about_filter(about)
    return Delivery.objects.filter(of_subject, route=route).exists() or route.references.filter(of_subject).exists()


def about_filter(about: Incident | Node) -> Q:
    """Deliveries and references that are about it."""
    return Q(node=about) if isinstance(about, Node) else Q(incident=about)


def latest_ticket(node: str) -> Subquery:
    """The latest ticket of the node in the field ``node`` of the outer query: its title, address and state, or None."""
    tickets = Reference.objects.filter(node=OuterRef(node)).exclude(url="").order_by("-pk")
    return Subquery(tickets.values(told=JSONObject(title="title", url="url", state="state"))[:1])
