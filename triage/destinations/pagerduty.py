"""PagerDuty: one alert an incident by its Events API v2, and its webhooks v3, which say what people did there."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from diagnosis.values import numbers, plain
from triage.destinations.base import JSON, Address, Destination, Field, Reading, Request, as_json, cut, parse_object
from triage.domain.route_message import Message

_API = "https://events.pagerduty.com/v2/enqueue"
#: how a title ends, so that people and webhooks know the incident by it
_TITLE_NUMBER = re.compile(r"\[Faultline #([0-9]+)\]$")
#: events by which a person takes the incident on
_ACKNOWLEDGING_EVENTS = ("incident.assigned", "incident.decided", "incident.moved")
SEVERITY = {"failed": "critical", "hung": "critical", "degraded": "warning"}


def action_of(message: Message) -> str:
    if message.is_over:
        return "resolve"
    return "acknowledge" if message.event in _ACKNOWLEDGING_EVENTS and not message.is_released else "trigger"


class WebhookEvent(NamedTuple):
    """What a webhook says. ``act`` is the event's last word ("acknowledged"); ``person`` is empty if none did it;
    ``number`` is the incident's, None if the event names none of this site."""

    id: str
    act: str
    at: datetime
    number: int | None
    person: str = ""
    status: str = ""
    title: str = ""
    url: str = ""


def is_signed(secret: str, signatures: str, body: bytes) -> bool:
    """Whether one of the header's signatures is of this body with this secret; PagerDuty signs with two for a while."""
    expected = "v1=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    candidates = [candidate.strip().encode() for candidate in signatures.split(",")]
    return any(hmac.compare_digest(expected.encode(), candidate) for candidate in candidates)


def webhook_event_of(body: bytes, host: str) -> WebhookEvent | None:
    """The event of a webhook about an incident; None for any other event. ``host`` is this site's.

    Raises:
        ValueError: no JSON, or an event without a type or a time.
    """
    event = (_object(json.loads(body))).get("event")
    kind = str(_object(event).get("event_type") or "")
    if not isinstance(event, dict) or not kind:
        raise ValueError("There is no event.")
    data = _object(event.get("data"))
    if data.get("type") != "incident":
        return None
    at = datetime.fromisoformat(str(event.get("occurred_at")))
    agent, url = _object(event.get("agent")), str(data.get("html_url") or "")
    is_person = str(agent.get("type") or "").startswith("user")
    return WebhookEvent(
        id=_text(event.get("id"), 80),
        act=kind.rpartition(".")[2],
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        number=_number(data, host),
        person=(_text(agent.get("summary"), 80) or "somebody") if is_person else "",
        status=_text(data.get("status"), 40),
        title=f"PagerDuty #{_text(data.get('number'), 20)}",
        url=url if url.startswith("https://") and len(url) <= 2000 and url.isprintable() else "",
    )


def _number(data: Mapping[str, Any], host: str) -> int | None:
    """The incident's number, by the key of its alert, which services that group alerts leave out; else by its title."""
    key = str(data.get("incident_key") or "")
    if key.startswith(_key(host, "")):
        return numbers.whole(key.removeprefix(_key(host, "")))
    match = _TITLE_NUMBER.search(str(data.get("title") or "")[-40:])
    return numbers.whole(match[1]) if match and not key.startswith("faultline/") else None


def _key(host: str, name: object) -> str:
    return cut(f"faultline/{host}/{name}", 255)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any, max_chars: int) -> str:
    return cut(" ".join(plain.text(str(value or "")).split()), max_chars)


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    host = urlsplit(message.url).netloc or "faultline"
    body: dict[str, Any] = {
        "routing_key": to.secrets[0] if to.secrets else "",
        "event_action": action_of(message),
        "dedup_key": _key(host, message.number or message.id),
        "client": "Faultline",
        "client_url": message.url,
        "payload": {
            "summary": _summary(message),
            "source": cut(", ".join(message.accused) or message.job or host, 255),
            "severity": SEVERITY.get(message.condition, "error"),
            "timestamp": message.happened_at or message.at,
            "component": message.job,
            "group": message.cluster,
            "class": message.category,
            "custom_details": {label: cut(text, 4000) for label, text in message.facts},
        },
        "links": [{"href": message.url, "text": "Open in Faultline"}] if message.url else [],
    }
    if message.number is None and message.event == "ping":
        body["payload"]["severity"] = "info"
    return [Request(to.url, as_json(body), JSON)]


def _summary(message: Message) -> str:
    end = f" [Faultline #{message.number}]" if message.number else ""
    return cut(message.title, 1024 - len(end)) + end


def _read(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    if answer.get("status", "success") != "success":
        return Reading(error=f"PagerDuty answered: {answer.get('message') or answer['status']}.")
    return Reading(reference={"dedup_key": answer.get("dedup_key", "")})


DESTINATION = Destination(
    id="pagerduty",
    title="PagerDuty",
    group="On-call",
    summary="one alert an incident: triggered, acknowledged and resolved",
    product="PagerDuty",
    steps=(
        "In PagerDuty open the service, Integrations, Add integration, and choose “Events API V2”.",
        "Copy the integration key into the field below.",
        "For the way back, when the route exists: Integrations, Generic Webhooks (v3), New Webhook. Enter the address "
        "that the route's page shows. Choose the service and the events acknowledged, reopened and "
        "resolved. PagerDuty shows a secret once: copy it into the route's settings.",
    ),
    fields=(
        Field("secret", "Integration key", "Never shown again", "32 characters", is_secret=True),
        Field(
            "inbound_secret",
            "Webhook secret",
            "Of PagerDuty's webhook to this site; never shown again",
            is_required=False,
            is_secret=True,
        ),
        Field("url", "API", "In Europe: https://events.eu.pagerduty.com/v2/enqueue", default=_API),
    ),
    render=_render,
    read=_read,
    is_following=True,
)
