"""Slack: an incoming webhook posts; a bot keeps one message an incident, with what happened since in its thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from triage.destinations.base import (
    JSON,
    Address,
    Destination,
    Field,
    Reading,
    Request,
    as_json,
    cut,
    hidden_url,
    parse_object,
)
from triage.domain.route_message import Message

#: Slack's limits: of a header, of a section's text and of a message's text
_MAX_HEADER, _MAX_SECTION, _MAX_TEXT = 150, 3000, 4000


def escape(text: str) -> str:
    """Text that Slack shows as it is: no link, no mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks_of(message: Message) -> list[dict[str, Any]]:
    """Header, what is new, the facts, and a button that opens the page."""
    facts = "\n".join(f"*{escape(label)}:* {escape(text)}" for label, text in message.facts)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(message.title, _MAX_HEADER), "emoji": False}}
    ]
    if len(message.title) > _MAX_HEADER:
        blocks.append(_section(escape(message.title)))
    if facts:
        blocks.append(_section(facts))
    if message.news:
        news = f"{escape(message.news)}{f' · #{message.number}' if message.number else ''}"
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": cut(news, _MAX_SECTION)}]})
    if message.url:
        button = {"type": "button", "text": {"type": "plain_text", "text": "Open in Faultline"}, "url": message.url}
        blocks.append({"type": "actions", "elements": [button | ({"style": "primary"} if message.is_bad else {})]})
    return blocks


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, _MAX_SECTION)}}


def _notification_text(message: Message) -> str:
    """The text of notifications, and of programs that show no blocks."""
    return cut(escape(f"{message.news}: {message.title}" if message.news else message.title), _MAX_TEXT)


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    return [Request(to.url, as_json({"text": _notification_text(message), "blocks": blocks_of(message)}), JSON)]


def _render_bot(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    base, headers = to.url.rstrip("/"), {**JSON, "Authorization": f"Bearer {to.secrets[0] if to.secrets else ''}"}

    def call(method: str, **values: Any) -> Request:
        return Request(f"{base}/{method}", as_json({"unfurl_links": False, **values}), headers)

    content = {"text": _notification_text(message), "blocks": blocks_of(message)}
    if not reference.get("ts"):
        return [call("chat.postMessage", channel=to.options.get("channel", ""), **content)]
    channel, ts = reference["channel"], reference["ts"]
    update = call("chat.update", channel=channel, ts=ts, **content)
    if not message.news:
        return [update]
    return [update, call("chat.postMessage", channel=channel, thread_ts=ts, text=_notification_text(message))]


def _read_bot(answers: Sequence[str]) -> Reading:
    replies = [parse_object(text) for text in answers]
    for reply in replies:
        if not reply.get("ok"):
            return Reading(error=f"Slack answered: {reply.get('error') or 'no JSON'}.")
    if len(replies) == 1:  # a new message; the answer to an update repeats the same values
        return Reading(reference={"channel": replies[0].get("channel"), "ts": replies[0].get("ts")})
    return Reading()


SLACK = Destination(
    id="slack",
    title="Slack, incoming webhook",
    group="Chat",
    summary="a message an event; quickest to set up",
    product="Slack",
    steps=(
        "Open https://api.slack.com/apps, create an app “From scratch”, and choose your workspace.",
        "Under “Incoming Webhooks” switch them on, click “Add New Webhook to Workspace” and choose the channel.",
        "Copy the “Webhook URL” into the field Address below.",
    ),
    fields=(hidden_url("https://hooks.slack.com/services/T…/B…/…"),),
    render=_render,
)
BOT = Destination(
    id="slack_bot",
    title="Slack, bot",
    group="Chat",
    summary="one message an incident, updated in place; its thread lists what happened",
    product="Slack",
    steps=(
        "Open https://api.slack.com/apps and create an app “From scratch”.",
        "Under “OAuth & Permissions” add the bot scope chat:write, install the app and copy the token (xoxb-…).",
        "Invite the bot into the channel: /invite @name. Copy the channel's id from its details.",
    ),
    fields=(
        Field("secret", "Bot token", "Never shown again", "xoxb-…", is_secret=True),
        Field("channel", "Channel", "Its id, or its name with #", "C0123456789"),
        Field("url", "API", "Change it only for GovSlack", default="https://slack.com/api"),
    ),
    render=_render_bot,
    read=_read_bot,
    is_following=True,
)
