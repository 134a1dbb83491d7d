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
from triage.selectors.routes import has_message_about, may_receive
from triage.selectors.tickets import BY_HAND, node_ticket_payload
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
    if has_message_about(route, about):
        raise Refused("A ticket there was made or requested before.", code="invalid")
    act = {"kind": "ticketed", "by": by.get_username()}
    if isinstance(about, Node):
        event, data = "node.ticket", node_ticket_payload(about, now=timezone.now())
        activity: dict[str, Any] = {"kind": "node_ticketed", "data": {"subject": about.name, "route": route.name}}
    else:
        event, data = "incident.ticket", {"incident": incident_payload(about), "job": job_payload(about.job)}
        activity = {"kind": "ticketed", "data": {"subject": route.name}, "incident": about, "job": about.job}
    Activity.objects.create(actor=by, **activity)
    (delivery,) = messages_keep([route], event, str(about.pk), about.cluster_id, about, {**data, "act": act})
    return delivery


def accusations_announce(incident: Incident, data: dict[str, Any], *, former_accused: Collection[str] = ()) -> None:
    """Comment once on the tickets of the nodes that the incident accuses. Call it in the transaction of the diagnosis.

    Nodes in ``former_accused``, which the diagnosis before accused, get no comment.

    One query if no node has a ticket; one more for each ticket, and those of :func:`may_receive`.
    """
    those = {"node__suspicions__incident": incident, "node__suspicions__is_accused": True}
    tickets = Reference.objects.filter(**those, route__kind__in=BY_HAND).values_list("route", "node")
    requests = Delivery.objects.filter(**those, route__kind__in=BY_HAND).values_list("route", "node")
    pairs = set(tickets.order_by().union(requests.order_by()).order_by())
    routes = Route.objects.filter(is_active=True).select_related("owner", "team").in_bulk({pk for pk, _ in pairs})
    nodes = Node.objects.select_related("cluster").in_bulk({pk for _, pk in pairs})
    for route_id, node_id in sorted(pairs):
        route, node = routes.get(route_id), nodes[node_id]
        if route is not None and node.name not in former_accused and may_receive(route, incident.cluster_id):
            payload = {**data, "node": node_payload(node)}
            messages_keep([route], "node.accused", f"{incident.pk} {node.pk}", incident.cluster_id, node, payload)
