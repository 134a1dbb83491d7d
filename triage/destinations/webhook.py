"""A program of one's own: the event as JSON, signed as Standard Webhooks say, in their form or as a CloudEvent."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from triage.destinations.base import Address, Destination, Field, Request, as_json
from triage.domain.route_message import Message

_FORMATS = (("standard", "Standard Webhooks"), ("cloudevents", "CloudEvents 1.0"))


def signatures(*, secrets: tuple[str, ...], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one HMAC-SHA256 of ``id.timestamp.body`` a secret, separated by spaces."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    stamp, body, kind = int(now.timestamp()), message.raw.encode(), "application/json"
    if to.options.get("format") == "cloudevents":
        body, kind = as_json(_cloud_event(message)), "application/cloudevents+json; charset=utf-8"
    headers = {
        "Content-Type": kind,
        "User-Agent": "Faultline-Webhooks/1",
        "webhook-id": message.id,
        "webhook-timestamp": str(stamp),
        "webhook-signature": signatures(secrets=to.secrets, message_id=message.id, timestamp=stamp, body=body),
    }
    return [Request(to.url, body, headers)]


def _cloud_event(message: Message) -> dict[str, Any]:
    """CloudEvents 1.0, structured mode. The source is the site, the subject the page."""
    page = urlsplit(message.url)
    return {
        "specversion": "1.0",
        "id": message.id,
        "source": f"{page.scheme}://{page.netloc}/" if page.netloc else "/faultline",
        "type": f"dev.faultline.{message.event}",
        "time": message.at,
        "subject": page.path or message.event,
        "datacontenttype": "application/json",
        "data": json.loads(message.raw).get("data"),
    }


DESTINATION = Destination(
    id="webhook",
    title="Webhook",
    group="Programs",
    summary="the event as signed JSON, plain or as a CloudEvent",
    steps=("Enter the address of your program.", "Copy the signing secret that the next page shows once."),
    fields=(
        Field("url", "Address", "It gets a POST of JSON", "https://scheduler.example/hooks/faultline"),
        Field("format", "Format", default="standard", choices=_FORMATS),
    ),
    render=_render,
    events=("incident.opened", "incident.regressed"),
    makes_secret=True,
)
