"""Mattermost: an incoming webhook with one attachment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triage.destinations.base import (
    JSON,
    Address,
    Destination,
    Field,
    Request,
    as_json,
    cut,
    hidden_url,
    markdown_escaped,
)
from triage.domain.route_message import Message

_MOST = 7000


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    attachment = {
        "fallback": markdown_escaped(cut(message.title, 500)),
        "color": "#c62828" if message.is_bad else "#2e7d32",
        "pretext": markdown_escaped(message.news),
        "title": markdown_escaped(cut(message.title, 500)),
        "title_link": message.url,
        "fields": [
            {"title": markdown_escaped(label), "value": cut(markdown_escaped(said), _MOST // 5), "short": False}
            for label, said in message.facts
        ],
    }
    body: dict[str, Any] = {"attachments": [attachment]}
    if channel := to.options.get("channel"):
        body["channel"] = channel
    return [Request(to.url, as_json(body), JSON)]


DESTINATION = Destination(
    id="mattermost",
    title="Mattermost",
    group="Chat",
    tells="a message an event",
    product="Mattermost",
    steps=(
        "In Mattermost open Integrations, then Incoming Webhooks, and add one for the channel.",
        "Copy its “URL” into the field Address below.",
    ),
    fields=(
        hidden_url("https://mattermost.example/hooks/…"),
        Field("channel", "Channel", "Only if not the webhook's own", "town-square", is_required=False),
    ),
    render=_render,
)
