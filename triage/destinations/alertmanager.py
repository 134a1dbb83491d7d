"""Prometheus Alertmanager, API v2: one alert an incident, which ends when the incident does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from triage.destinations.base import JSON, Address, Destination, Field, Request, as_json, cut, hidden_secret
from triage.destinations.pagerduty import SEVERITY
from triage.domain.route_message import Message

#: an alert without an end would end by itself after minutes unless it is sent again and again
_MAX_ALERT_AGE = timedelta(days=30)


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    labels = {  # these identify the alert, so they are only what no later diagnosis changes
        "alertname": "FaultlineIncident" if message.number else "FaultlineMessage",
        "incident": str(message.number or message.id),
        "cluster": message.cluster,
        "job": message.job,
    }
    end = now if message.is_over or not message.number else now + _MAX_ALERT_AGE
    alert = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {
            "summary": cut(message.title, 2000),
            "severity": SEVERITY.get(message.condition, "error"),
            "category": message.category,
            "accused": ", ".join(message.accused),
            "news": message.news,
            **{label.lower().replace(" ", "_"): cut(text, 2000) for label, text in message.facts if label.isascii()},
        },
        "startsAt": message.happened_at or message.at,
        "endsAt": end.isoformat(),
        "generatorURL": message.url,
    }
    headers = {**JSON, "Authorization": f"Bearer {to.secrets[0]}"} if to.secrets else JSON
    return [Request(to.url.rstrip("/") + "/api/v2/alerts", as_json([alert]), headers)]


DESTINATION = Destination(
    id="alertmanager",
    title="Alertmanager",
    group="On-call",
    summary="one alert an incident, which ends with it",
    product="Alertmanager",
    steps=(
        "Enter the address of the Alertmanager, without /api.",
        "Route on the labels alertname=FaultlineIncident, cluster and job in its configuration.",
    ),
    fields=(
        Field("url", "Address", "", "https://alertmanager.example"),
        hidden_secret(help_text="A bearer token, if a proxy wants one; never shown again"),
    ),
    render=_render,
    is_following=True,
)
