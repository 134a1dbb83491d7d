"""PagerDuty, Events API v2: one alert an incident, acknowledged and resolved from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from triage.destinations.base import JSON, Address, Destination, Field, Reading, Request, as_json, cut, loaded
from triage.domain.route_message import Message

_API = "https://events.pagerduty.com/v2/enqueue"
#: events by which a person takes the incident on
_TAKEN = ("incident.assigned", "incident.decided", "incident.moved")
SEVERITY = {"failed": "critical", "hung": "critical", "degraded": "warning"}


def action_of(message: Message) -> str:
    if message.is_over:
        return "resolve"
    return "acknowledge" if message.event in _TAKEN and not message.is_released else "trigger"


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    host = urlsplit(message.url).netloc or "faultline"
    body: dict[str, Any] = {
        "routing_key": to.secrets[0] if to.secrets else "",
        "event_action": action_of(message),
        "dedup_key": cut(f"faultline/{host}/{message.number or message.id}", 255),
        "client": "Faultline",
        "client_url": message.url,
        "payload": {
            "summary": cut(message.title, 1024),
            "source": cut(", ".join(message.accused) or message.job or host, 255),
            "severity": SEVERITY.get(message.condition, "error"),
            "timestamp": message.happened_at or message.at,
            "component": message.job,
            "group": message.cluster,
            "class": message.category,
            "custom_details": {label: cut(said, 4000) for label, said in message.facts},
        },
        "links": [{"href": message.url, "text": "Open in Faultline"}] if message.url else [],
    }
    if message.number is None and message.event == "ping":
        body["payload"]["severity"] = "info"
    return [Request(to.url, as_json(body), JSON)]


def _read(answers: Sequence[str]) -> Reading:
    said = loaded(answers[0])
    if said.get("status", "success") != "success":
        return Reading(error=f"PagerDuty answered: {said.get('message') or said['status']}.")
    return Reading(reference={"dedup_key": said.get("dedup_key", "")})


DESTINATION = Destination(
    id="pagerduty",
    title="PagerDuty",
    group="On-call",
    steps=(
        "In PagerDuty open the service, Integrations, Add integration, and choose “Events API V2”.",
        "Copy the integration key into the field below.",
    ),
    fields=(
        Field("secret", "Integration key", "Never shown again", "32 characters", is_secret=True),
        Field("url", "API", "In Europe: https://events.eu.pagerduty.com/v2/enqueue", default=_API),
    ),
    render=_render,
    read=_read,
    is_following=True,
)
