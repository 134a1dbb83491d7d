"""Tickets of incidents and nodes in other systems, and what a new one says of a node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from ingest.models import Node
from triage.destinations import ALL
from triage.domain.route_message import MAX_EVIDENCE, quoted_evidence
from triage.models import Delivery, Diagnosis, Incident, Reference, Route
from triage.selectors.advice import standing_advice
from triage.selectors.nodes import fleet_row, standing_accusations
from triage.selectors.payloads import advice_payload, link, node_payload
from triage.selectors.routes import about_filter, may_receive

#: the event of a ticket that a person asked for, by what it is about
TICKET_EVENTS = ("incident.ticket", "node.ticket")
BY_HAND = tuple(kind.id for kind in ALL.values() if kind.is_by_hand)
#: the latest accusing incidents that a node's ticket lists, and those of them whose evidence is read
_MAX_INCIDENTS, _MAX_REPORTS = 10, 3
#: reasons of one accusation
_MAX_REASONS = 3
#: for so long a page looks again whether a ticket that was asked for is there
_UNDER_WAY_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Tickets:
    """What an incident or node has elsewhere: tickets and alerts with a page, requests that wait or failed, and routes
    that can make a ticket."""

    made: list[Reference]
    pending: list[Delivery]
    routes: list[Route]

    @property
    def is_under_way(self) -> bool:
        """One was asked for just now and not tried yet: it is there in a moment."""
        lately = timezone.now() - _UNDER_WAY_FOR
        return any(
            row.state == row.State.WAITING and not row.attempts and row.created_at > lately for row in self.pending
        )


def tickets_of(about: Incident | Node) -> Tickets:
    """Three queries."""
    those = about_filter(about)
    has_page = Q(route__kind__in=BY_HAND) | ~Q(url="")
    made = list(Reference.objects.filter(has_page, those).select_related("route"))
    requests = Delivery.objects.filter(those, event__in=TICKET_EVENTS, route__kind__in=BY_HAND)
    pending = list(requests.exclude(state=Delivery.State.DELIVERED).select_related("route"))
    used_routes = {row.route_id for row in made} | {row.route_id for row in pending}
    rows = Route.objects.filter(is_active=True, kind__in=BY_HAND).select_related("owner", "team")
    routes = [row for row in rows if row.pk not in used_routes and may_receive(row, about.cluster_id)]
    return Tickets(made, pending, routes)


def node_ticket_payload(node: Node, *, now: datetime) -> dict[str, Any]:
    """What a new ticket says of the node: how often it was accused of what, what is advised, and the
    evidence. At most nineteen queries."""
    row = fleet_row(node, now=now)
    accusations = list(standing_accusations(node)[:_MAX_INCIDENTS])
    reports = [(accusation.incident, _report(accusation.incident)) for accusation in accusations[:_MAX_REPORTS]]
    advice = [standing_advice(incident) for incident, _ in reports]
    lines: list[str] = []
    for accusation, report in reports:
        lines += [f"#{accusation.pk} {line}" for line in quoted_evidence(report, node=node.name)]
    node_data = {
        **node_payload(node),
        "drained_at": node.drained_at.isoformat() if node.drained_at else None,
        "note": node.note,
        "accusations": row.accusations,
        "recent": row.recent,
        "confirmed": row.confirmed,
        "gpu_hours": row.gpu_hours,
        "advice": advice_payload(
            next((accusation for accusation in advice if node.name in (accusation.get("targets") or [])), {})
        ),
        "incidents": [
            {
                "number": accusation.incident.pk,
                "url": link(f"/incidents/{accusation.incident.pk}/"),
                "headline": accusation.incident.headline,
                "standing_category": accusation.incident.standing_category,
                "state": accusation.incident.state,
                "happened_at": accusation.incident.happened_at.isoformat(),
                "reasons": accusation.reasons[:_MAX_REASONS],
            }
            for accusation in accusations
        ],
    }
    return {"node": node_data, "evidence": lines[:MAX_EVIDENCE]}


def _report(incident: Incident) -> dict[str, Any]:
    return dict(Diagnosis.objects.filter(pk=incident.diagnosis_id).values_list("report", flat=True)[0])
