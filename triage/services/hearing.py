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

from ingest.roles import can
from triage.destinations import ALL
from triage.destinations.pagerduty import Heard, heard_of, is_signed
from triage.models import Incident, Reference, Route
from triage.selectors.payloads import link
from triage.selectors.routes import is_told_of, may_receive
from triage.services.reviewing import incident_act, log_act

#: a webhook may be repeated for two days; what is older is a replay
_OLDEST = timedelta(hours=49)
_NEWEST = timedelta(hours=1)
#: ids of the latest events that are kept, so that a repeated one does nothing
_KEPT_IDS = 50


class NotSigned(Exception):
    """No route here has this address and this signature."""


def webhook_hear(*, route_id: int, signatures: str, body: bytes) -> str:
    """Act on a webhook of PagerDuty; the sentence says what followed.

    Raises:
        NotSigned: wrong signature, or no such route. Both look the same to the sender.
        ValueError: signed, but no event that can be read.
    """
    route = Route.objects.filter(pk=route_id, is_active=True, kind="pagerduty").select_related("owner", "team").first()
    if route is None or not route.inbound_secret or not is_signed(route.inbound_secret, signatures, body):
        raise NotSigned
    heard = heard_of(body, urlsplit(link("/")).netloc)
    if heard is None:
        return "This event says nothing about an incident: nothing was done."
    now = timezone.now()
    if not now - _OLDEST <= heard.at <= now + _NEWEST:
        return "This event is too old, or of the future: nothing was done."
    incident = Incident.objects.filter(pk=heard.number).select_related("job").first() if heard.number else None
    if incident is None or not may_receive(route, incident.cluster_id) or not is_told_of(route, incident):
        return "This route has not sent this incident to PagerDuty: nothing was done."
    return _follow(route, incident, heard)


@transaction.atomic
def _follow(route: Route, incident: Incident, heard: Heard) -> str:
    Reference.objects.get_or_create(route=route, incident=incident)
    reference = Reference.objects.select_for_update().get(route=route, incident=incident)
    known: dict[str, Any] = reference.heard or {"at": "", "ids": []}
    at = heard.at.astimezone(UTC).isoformat()
    if heard.id in known["ids"] or at < known["at"]:
        return "This event, or a later one, was received before: nothing was done."
    reference.heard = {"at": at, "ids": [*known["ids"], heard.id][-_KEPT_IDS:]}
    reference.state, reference.title = heard.status, heard.title
    reference.url = heard.url or reference.url
    reference.save()
    if not heard.person:
        return "No person did this: only the state is shown."
    incident = Incident.objects.select_for_update().get(pk=incident.pk)
    if incident.is_withdrawn:
        return "A later diagnosis found no failure: nothing was done."
    return _act(route, incident, heard)


def _act(route: Route, incident: Incident, heard: Heard) -> str:
    state = incident.state
    who = f"{heard.person} ({ALL[route.kind].title})"
    keeper_may = route.team is not None or can(route.owner, "review")
    is_over = state in (Incident.State.RESOLVED, Incident.State.REJECTED)
    if heard.act == "acknowledged" and not is_over:
        log_act(incident, "acknowledged", None, who=who, heard_from=route.pk)
        return "The acknowledgement was recorded."
    if heard.act == "resolved" and state == Incident.State.AWAITING_REVIEW:
        log_act(incident, "resolved_elsewhere", None, who=who, heard_from=route.pk)
        return "It was recorded. The incident stays open until a person reviews it here."
    if heard.act == "resolved" and not is_over and keeper_may:
        incident_act(incident=incident, act="resolved", by=None, who=who, heard_from=route)
        return "The incident was resolved."
    if heard.act == "reopened" and state == Incident.State.RESOLVED and keeper_may:
        incident_act(incident=incident, act="reopened", by=None, who=who, heard_from=route)
        return "The incident was reopened."
    return "The incident has this state already, or the event changes nothing: nothing was done."
