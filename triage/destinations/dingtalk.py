"""DingTalk: a custom robot of a group, signed if it has a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus

from triage.destinations.base import (
    JSON,
    Address,
    Destination,
    Field,
    Reading,
    Request,
    as_json,
    cut,
    escape_markdown,
    hidden_url,
    parse_object,
)
from triage.domain.route_message import Message

#: the robot accepts 20,000 bytes
_MAX_TEXT = 1000


def sign_url(url: str, secret: str, stamp_ms: int) -> str:
    """The address with time and signature: HMAC-SHA256 of both, keyed with the secret."""
    digest = hmac.digest(secret.encode(), f"{stamp_ms}\n{secret}".encode(), hashlib.sha256)
    sign = quote_plus(base64.b64encode(digest))
    return f"{url}{'&' if '?' in url else '?'}timestamp={stamp_ms}&sign={sign}"


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    lines = [f"### {escape_markdown(cut(message.title, _MAX_TEXT))}"]
    if message.news:
        lines.append(escape_markdown(message.news))
    lines += [f"**{escape_markdown(label)}:** {escape_markdown(cut(text, _MAX_TEXT))}" for label, text in message.facts]
    card = {
        "title": cut(message.title, 200),
        "text": "\n\n".join(lines),
        "singleTitle": "Open in Faultline",
        "singleURL": message.url,
    }
    body = (
        {"msgtype": "actionCard", "actionCard": card}
        if message.url
        else {"msgtype": "markdown", "markdown": {"title": card["title"], "text": card["text"]}}
    )
    url = sign_url(to.url, to.secrets[0], int(now.timestamp() * 1000)) if to.secrets else to.url
    return [Request(url, as_json(body), JSON)]


def _read(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    code = answer.get("errcode", 0)
    return Reading(error=f"DingTalk answered {code}: {answer.get('errmsg') or 'no reason'}.") if code else Reading()


DESTINATION = Destination(
    id="dingtalk",
    title="DingTalk",
    group="Chat",
    summary="a card an event",
    product="DingTalk",
    steps=(
        "In the group open Settings, Group Assistant, Add Robot, Custom.",
        "As security setting take “Additional signature”, and copy the secret (SEC…) into the field Secret below.",
        "Copy the “Webhook” into the field Address.",
    ),
    fields=(
        hidden_url("https://oapi.dingtalk.com/robot/send?access_token=…"),
        Field(
            "secret",
            "Secret",
            "Empty if the robot has none; never shown again",
            "SEC…",
            is_required=False,
            is_secret=True,
        ),
    ),
    render=_render,
    read=_read,
)
