"""Grafana: one annotation an incident, at the moment of the failure, on all dashboards that show its tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from triage.destinations.base import JSON, Address, Destination, Field, Reading, Request, as_json, cut, parse_object
from triage.domain.route_message import Message


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    at = datetime.fromisoformat(message.happened_at or message.at)
    lines = [escape(message.title), *(f"{escape(label)}: {escape(cut(text, 1000))}" for label, text in message.facts)]
    if message.url:
        lines.append(f'<a href="{escape(message.url)}">Open in Faultline</a>')
    tags = ["faultline", message.category.partition(".")[0], message.cluster, message.job, *message.accused[:10]]
    body = {"time": int(at.timestamp() * 1000), "tags": [tag for tag in tags if tag], "text": "<br>".join(lines)}
    annotation = reference.get("id")
    url = f"{to.url.rstrip('/')}/api/annotations{f'/{annotation}' if annotation else ''}"
    headers = {**JSON, "Authorization": f"Bearer {to.secrets[0] if to.secrets else ''}"}
    return [Request(url, as_json(body), headers, "PATCH" if annotation else "POST")]


def _read(answers: Sequence[str]) -> Reading:
    annotation = parse_object(answers[0]).get("id")
    return Reading(reference={"id": annotation}) if isinstance(annotation, int) else Reading()


DESTINATION = Destination(
    id="grafana",
    title="Grafana annotations",
    group="On-call",
    summary="one annotation at the moment of the failure",
    product="Grafana",
    steps=(
        "In Grafana open Administration, Service accounts, and add one that may write annotations.",
        "Create a token for it. On a dashboard add an annotation query by the tag faultline.",
    ),
    fields=(
        Field("url", "Address", "Of Grafana itself", "https://grafana.example"),
        Field("secret", "Token", "Never shown again", "glsa_…", is_secret=True),
    ),
    render=_render,
    read=_read,
    is_following=True,
)
