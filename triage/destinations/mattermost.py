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
    escape_markdown,
    hidden_url,
)
from triage.domain.route_message import Message

_MAX_TEXT = 7000


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    attachment = {
        "fallback": escape_markdown(cut(message.title, 500)),
        "color": "#c62828" if message.is_bad else "#2e7d32",
        "pretext": escape_markdown(message.news),
        "title": escape_markdown(cut(message.title, 500)),
        "title_link": message.url,
        "fields": [
            {"title": escape_markdown(label), "value": cut(escape_markdown(text), _MAX_TEXT // 5), "short": False}
            for label, text in message.facts
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
    summary="a message an event",
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
