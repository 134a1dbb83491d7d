"""Tickets in other systems: asked for by people, and commented on when a node that has one is accused again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest.models import Node
from ingest.refusals import Refused
from triage.destinations import ALL
from triage.models import Activity, Delivery, Incident, Reference, Route
from triage.selectors.payloads import incident_payload, job_payload, node_payload
from triage.selectors.routes import is_told_of, may_receive
from triage.selectors.tickets import BY_HAND, node_told
from triage.services.outbox import messages_keep


@transaction.atomic
def ticket_ask(*, route_id: int, about: Incident | Node, by: Any) -> Delivery:
    """Ask for a ticket about the incident or node by a route, on a person's wish.

    Raises:
        Refused: no such route, one that makes no tickets for it, or it has one there.
    """
    route = Route.objects.filter(pk=route_id).select_related("owner", "team").first()
    if route is None:
        raise Refused("Choose where to make the ticket.", code="invalid", fields={"route": "There is no such route."})
    if not ALL[route.kind].is_by_hand or not route.is_active or not may_receive(route, about.cluster_id):
        raise Refused("This route makes no tickets here: choose another.", code="invalid")
    if is_told_of(route, about):
        raise Refused("A ticket there was made or requested before.", code="invalid")
    act = {"kind": "ticketed", "by": by.get_username()}
    if isinstance(about, Node):
        event, data = "node.ticket", node_told(about, now=timezone.now())
        told: dict[str, Any] = {"kind": "node_ticketed", "data": {"subject": about.name, "route": route.name}}
    else:
        event, data = "incident.ticket", {"incident": incident_payload(about), "job": job_payload(about.job)}
        told = {"kind": "ticketed", "data": {"subject": route.name}, "incident": about, "job": about.job}
    Activity.objects.create(actor=by, **told)
    (delivery,) = messages_keep([route], event, str(about.pk), about.cluster_id, about, {**data, "act": act})
    return delivery


def accusations_announce(incident: Incident, data: dict[str, Any], *, known: Collection[str] = ()) -> None:
    """Comment on the tickets of the nodes that the incident accuses, except those ``known``, which the diagnosis before
    accused. Once an incident. Call it in the transaction of the diagnosis.

    One query if no node has a ticket; one more for each ticket, and those of :func:`may_receive`.
    """
    those = {"node__suspicions__incident": incident, "node__suspicions__is_accused": True}
    made = Reference.objects.filter(**those, route__kind__in=BY_HAND).values_list("route", "node")
    asked = Delivery.objects.filter(**those, route__kind__in=BY_HAND).values_list("route", "node")
    found = set(made.order_by().union(asked.order_by()).order_by())
    routes = Route.objects.filter(is_active=True).select_related("owner", "team").in_bulk({pk for pk, _ in found})
    nodes = Node.objects.select_related("cluster").in_bulk({pk for _, pk in found})
    for route_id, node_id in sorted(found):
        route, node = routes.get(route_id), nodes[node_id]
        if route is not None and node.name not in known and may_receive(route, incident.cluster_id):
            told = {**data, "node": node_payload(node)}
            messages_keep([route], "node.accused", f"{incident.pk} {node.pk}", incident.cluster_id, node, told)
