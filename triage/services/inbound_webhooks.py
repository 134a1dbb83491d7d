"""Applies to an incident what people do with its alert in an on-call service.

A service can change only incidents that the route sent to it. It never decides on causes: an incident that nobody
reviewed stays open here when its alert is resolved there.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.refusals import Refused
from ingest.roles import can
from triage.destinations import ALL
from triage.destinations.pagerduty import WebhookEvent, is_signed, webhook_event_of
from triage.models import Incident, Reference, Route
from triage.sealing import SealBroken
from triage.selectors.payloads import link
from triage.selectors.routes import has_message_about, may_receive
from triage.services.reviewing import incident_act, log_act

#: a webhook may be repeated for two days; what is older is a replay
_MAX_AGE = timedelta(hours=49)
_MAX_AHEAD = timedelta(hours=1)
#: ids of the latest events that are kept, so that a repeated one does nothing
_KEPT_IDS = 50


class NotSigned(Exception):
    """No route here has this address and this signature."""


def webhook_apply(*, route_id: int, signatures: str, body: bytes) -> str:
    """Act on a webhook of PagerDuty; the sentence says what followed.

    Raises:
        NotSigned: wrong signature, or no such route. Both look the same to the sender.
        ValueError: signed, but no event that can be read.
        Refused: the secret of the route is encrypted with an unknown key; PagerDuty sends the event again.
    """
    route = Route.objects.filter(pk=route_id, is_active=True, kind="pagerduty").select_related("owner", "team").first()
    secret = _inbound_secret(route) if route is not None else ""
    if route is None or not secret or not is_signed(secret, signatures, body):
        raise NotSigned
    event = webhook_event_of(body, urlsplit(link("/")).netloc)
    if event is None:
        return "This event says nothing about an incident: nothing was done."
    now = timezone.now()
    if not now - _MAX_AGE <= event.at <= now + _MAX_AHEAD:
        return "This event is too old, or of the future: nothing was done."
    incident = Incident.objects.filter(pk=event.number).select_related("job").first() if event.number else None
    if incident is None or not may_receive(route, incident.cluster_id) or not has_message_about(route, incident):
        return "This route has not sent this incident to PagerDuty: nothing was done."
    return _apply_event(route, incident, event)


def _inbound_secret(route: Route) -> str:
    try:
        return route.opened("inbound_secret")
    except SealBroken:
        raise Refused("The secret of this route cannot be read.", code="unreadable_secret", status=503) from None


@transaction.atomic
def _apply_event(route: Route, incident: Incident, event: WebhookEvent) -> str:
    incident = lock_rows(Incident.objects.select_related("job")).get(pk=incident.pk)
    Reference.objects.get_or_create(route=route, incident=incident)
    reference = lock_rows(Reference.objects).get(route=route, incident=incident)
    former: dict[str, Any] = reference.heard or {"at": "", "ids": []}
    happened_at = event.at.astimezone(UTC).isoformat()
    if event.id in former["ids"] or happened_at < former["at"]:
        return "This event, or a later one, was received before: nothing was done."
    reference.heard = {"at": happened_at, "ids": [*former["ids"], event.id][-_KEPT_IDS:]}
    reference.state, reference.title = event.status, event.title
    reference.url = event.url or reference.url
    reference.save()
    if not event.person:
        return "No person did this: only the state is shown."
    if incident.is_withdrawn:
        return "A later diagnosis found no failure: nothing was done."
    return _apply_act(route, incident, event)


def _apply_act(route: Route, incident: Incident, event: WebhookEvent) -> str:
    state = incident.state
    who = f"{event.person} ({ALL[route.kind].title})"
    keeper_may = route.team is not None or can(route.owner, "review")
    is_over = state in (Incident.State.RESOLVED, Incident.State.REJECTED)
    if event.act == "acknowledged" and not is_over:
        log_act(incident, "acknowledged", None, who=who, heard_from=route.pk)
        return "The acknowledgement was recorded."
    if event.act == "resolved" and state == Incident.State.AWAITING_REVIEW:
        log_act(incident, "resolved_elsewhere", None, who=who, heard_from=route.pk)
        return "It was recorded. The incident stays open until a person reviews it here."
    if event.act == "resolved" and not is_over and keeper_may:
        incident_act(incident=incident, act="resolved", by=None, who=who, heard_from=route)
        return "The incident was resolved."
    if event.act == "reopened" and state == Incident.State.RESOLVED and keeper_may:
        incident_act(incident=incident, act="reopened", by=None, who=who, heard_from=route)
        return "The incident was reopened."
    return "The incident has this state already, or the event changes nothing: nothing was done."
