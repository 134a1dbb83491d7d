"""Messages of routes: rows that are written in the transaction of their event, and sent by workers later."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ingest import broker
from ingest.models import Job, Node
from triage import search
from triage.destinations import ALL
from triage.domain.route_message import quoted_evidence
from triage.models import Delivery, Incident, Reference, Route
from triage.search.kinds import JOB_LOOKUPS
from triage.selectors.payloads import link
from triage.selectors.routes import active_routes, has_message_about, may_receive

PING = "ping"
#: the sweep sends it again while it is due: old messages need not fill a busy queue
_WAKE_EXPIRES_S = 60


def ping(*, route: Route) -> Delivery:
    """A test message, also if the route is switched off; it waits for no other message."""
    body = {"route": route.pk, "name": route.name, "url": link(f"/routes/{route.pk}/")}
    (delivery,) = messages_keep([route], PING, uuid.uuid4().hex, None, None, body)
    return delivery


@transaction.atomic
def redeliver(*, delivery: Delivery) -> Delivery:
    """Send a message again, under its own id: a receiver that has it recognises it. It waits for no other message."""
    Delivery.objects.filter(pk=delivery.pk).update(
        state=Delivery.State.WAITING, is_in_order=False, tries=0, due_at=timezone.now(), delivered_at=None
    )
    delivery.refresh_from_db()
    transaction.on_commit(routes_wake)
    return delivery


def announce(
    *,
    event: str,
    subject: str,
    job: Job,
    data: dict[str, Any],
    incident: Incident | None = None,
    source: int | None = None,
) -> list[Delivery]:
    """Write the message for every route that wants this event, except the route whose destination said it (its id is
    ``source``). Call it in the transaction of the event.

    The same ``event`` and ``subject`` again is the same message. One query if no route is active; two for each keeper
    of a route that may want it, and one or two for each route that has a search or follows incidents.
    """
    routes = [
        route
        for route in active_routes()
        if route.pk != source
        and _may_want(route, event, incident)
        and may_receive(route, job.cluster_id)
        and _wants(route, event, incident, job)
    ]
    return messages_keep(routes, event, subject, job.cluster_id, incident, data) if routes else []


def _may_want(route: Route, event: str, incident: Incident | None) -> bool:
    """Whether the event may go this way, without a query: a program, and events of jobs, need the event itself."""
    return event in route.events or (incident is not None and not ALL[route.kind].is_program)


def _wants(route: Route, event: str, incident: Incident | None, job: Job) -> bool:
    """Whether the event goes this way: it is chosen and the search matches, or it follows up an incident sent there.

    A conversation about an incident begins when it first matches, also by a later diagnosis, and continues to its end
    even if it does not match any more. One event begins it, not two.
    """
    kind = ALL[route.kind]
    if incident is None:
        return event in route.events and _matches_job(route.query, job)
    if kind.is_program:  # a program gets every event that it chose
        return event in route.events and _matches(route, incident)
    is_known = has_message_about(route, incident)
    if kind.is_by_hand and not is_known and event == "incident.opened" and _joins_ticket(route, incident):
        return True
    if event == "incident.opened" and is_known:
        return False
    if is_known:
        return kind.is_following or event in route.events or event == "incident.withdrawn"
    begins = event in route.events or (event == "incident.updated" and "incident.opened" in route.events)
    return begins and event != "incident.withdrawn" and _matches(route, incident)


def _joins_ticket(route: Route, incident: Incident) -> bool:
    """Whether an earlier incident of the same fingerprint has a ticket there: then that is this incident's, too."""
    same = Q(incident__fingerprint=incident.fingerprint, incident__cluster=incident.cluster_id)
    earlier_ticket = route.references.filter(same).order_by("-pk").first() if incident.fingerprint else None
    if earlier_ticket is None:
        return False
    fields = {name: getattr(earlier_ticket, name) for name in ("data", "url", "title", "state")}
    Reference.objects.get_or_create(route=route, incident=incident, defaults=fields)
    return True


def _matches(route: Route, incident: Incident) -> bool:
    if not route.query:
        return True
    condition = search.parse(route.query).condition(user=route.owner)
    return Incident.objects.filter(condition, pk=incident.pk).exists()


def _matches_job(query: str, job: Job) -> bool:
    """Whether a search that asks for properties of jobs alone matches the job; another never does."""
    parsed = search.parse(query)
    if any(leaf.key not in JOB_LOOKUPS for leaf in parsed.leaves):
        return False
    return not parsed.terms or Job.objects.filter(parsed.job_condition(), pk=job.pk).exists()


def messages_keep(
    routes: list[Route], event: str, subject: str, cluster_id: int | None, about: Incident | Node | None, data: Any
) -> list[Delivery]:
    """Write the message for each of the routes; one with an event and a subject that the route has is left out."""
    now = timezone.now()
    incident, node = (None, about) if isinstance(about, Node) else (about, None)

    def body_of(content: Any) -> str:
        event_body = {"type": event, "timestamp": now.isoformat(), "data": content}
        return json.dumps(event_body, ensure_ascii=False, separators=(",", ":"))

    body = ticket = body_of(data)
    if incident is not None and any(ALL[route.kind].is_by_hand for route in routes):
        ticket = body_of({**data, "evidence": quoted_evidence(incident.diagnosis.report)})
    rows = [
        Delivery(
            route=route,
            event=event,
            subject=f"{event} {subject}"[:120],
            cluster_id=cluster_id,
            incident=incident,
            node=node,
            body=ticket if ALL[route.kind].is_by_hand else body,
            is_in_order=event != PING,
            due_at=now,
        )
        for route in routes
    ]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    transaction.on_commit(routes_wake)
    return rows


def routes_wake() -> None:
    """Let a worker send what is due soon. Without a broker it stays due, and a later sweep wakes one."""
    broker.send("triage.tasks.notify_routes", expires=_WAKE_EXPIRES_S)
