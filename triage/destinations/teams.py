"""Microsoft Teams: the workflow “Send webhook alerts to a channel”, which takes an Adaptive Card."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triage.destinations.base import JSON, Address, Destination, Request, as_json, cut, hidden_url
from triage.domain.route_message import Message

#: Teams refuses messages above 28 KB
_MAX_TEXT = 2000


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    # a text run, unlike a text block, shows Markdown as it is: evidence makes no links
    body: list[dict[str, Any]] = [_run(message.title, weight="Bolder", size="Medium")]
    if message.news:
        body.insert(0, _run(message.news, isSubtle=True))
    for label, text in message.facts:
        body.append(
            {
                "type": "RichTextBlock",
                "inlines": [
                    {"type": "TextRun", "text": f"{cut(label, 200)}: ", "weight": "Bolder"},
                    {"type": "TextRun", "text": cut(text, _MAX_TEXT)},
                ],
            }
        )
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": "Open in Faultline", "url": message.url}]
        if message.url
        else [],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return [Request(to.url, as_json({"type": "message", "attachments": [attachment]}), JSON)]


def _run(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": cut(text, _MAX_TEXT), **style}]}


DESTINATION = Destination(
    id="teams",
    title="Microsoft Teams, workflow",
    group="Chat",
    summary="a card an event",
    product="Microsoft Teams",
    steps=(
        "In Teams open the channel's menu, choose Workflows, and take “Send webhook alerts to a channel”.",
        "Sign in, choose the channel, and copy the URL that the last step shows into the field Address below.",
    ),
    fields=(hidden_url("https://….logic.azure.com/workflows/…"),),
    render=_render,
)
