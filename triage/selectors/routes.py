"""The routes that a person manages, what they may carry, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from ingest.models import Cluster
from ingest.roles import can
from triage.destinations import ALL
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
        if (found := getattr(team, "_told_clusters", None)) is None:
            rows = Cluster.objects.filter(Q(teams=None) | Q(teams=team)).distinct()
            found = team._told_clusters = list(rows.values_list("pk", flat=True))
        return found
    owner = route.owner
    return visible_cluster_ids(owner) if owner and owner.is_active and can(owner, "routes") else []


def may_receive(route: Route, cluster_id: int | None) -> bool:
    """Whether the route has a keeper who may have routes, and that one sees the cluster."""
    if cluster_id is None:
        return route.team is not None or bool(route.owner and route.owner.is_active and can(route.owner, "routes"))
    return cluster_id in clusters_of(route)


def is_told_of(route: Route, incident: Incident) -> bool:
    """Whether a message about the incident was written for the route, or something was made of it there."""
    return (
        Delivery.objects.filter(route=route, incident=incident).exists()
        or route.references.filter(incident=incident).exists()
    )


@dataclass(frozen=True, slots=True)
class Tickets:
    """What an incident has elsewhere: tickets and alerts with a page, requests that wait or failed, and routes that can
    make a ticket."""

    made: list[Reference]
    pending: list[Delivery]
    routes: list[Route]


def tickets_of(incident: Incident) -> Tickets:
    """Three queries."""
    by_hand = [kind.id for kind in ALL.values() if kind.is_by_hand]
    shown = Q(route__kind__in=by_hand) | ~Q(url="")
    made = list(incident.references.filter(shown).select_related("route"))
    asked = Delivery.objects.filter(incident=incident, event="incident.ticket", route__kind__in=by_hand)
    pending = list(asked.exclude(state=Delivery.State.DELIVERED).select_related("route"))
    taken = {row.route_id for row in made} | {row.route_id for row in pending}
    rows = Route.objects.filter(is_active=True, kind__in=by_hand).select_related("owner", "team")
    routes = [row for row in rows if row.pk not in taken and may_receive(row, incident.cluster_id)]
    return Tickets(made, pending, routes)
