"""Feishu and Lark: a custom bot of a group, signed if it has a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from triage.destinations.base import (
    JSON,
    Address,
    Destination,
    Reading,
    Request,
    as_json,
    cut,
    hidden_secret,
    hidden_url,
    parse_object,
)
from triage.domain.route_message import Message

#: the bot accepts 20 KB
_MAX_TEXT = 1000


def signature(secret: str, stamp: int) -> str:
    """The base64 HMAC-SHA256 of nothing, keyed with ``stamp``, a new line and the secret."""
    key = f"{stamp}\n{secret}".encode()
    return base64.b64encode(hmac.digest(key, b"", hashlib.sha256)).decode()


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
    lines = [*([("", message.news)] if message.news else []), *message.facts]
    elements: list[dict[str, Any]] = [  # plain text: evidence mentions nobody and makes no links
        {"tag": "div", "text": {"tag": "plain_text", "content": cut(f"{label}: {text}" if label else text, _MAX_TEXT)}}
        for label, text in lines
    ]
    if message.url:
        button = {"tag": "button", "type": "primary", "url": message.url}
        button["text"] = {"tag": "plain_text", "content": "Open in Faultline"}  # type: ignore[assignment]
        elements.append({"tag": "action", "actions": [button]})
    card = {
        "config": {"wide_screen_mode": True},
        "header": {
            "template": "red" if message.is_bad else "green",
            "title": {"tag": "plain_text", "content": cut(message.title, _MAX_TEXT)},
        },
        "elements": elements,
    }
    body: dict[str, Any] = {"msg_type": "interactive", "card": card}
    if to.secrets:
        stamp = int(now.timestamp())
        body |= {"timestamp": str(stamp), "sign": signature(to.secrets[0], stamp)}
    return [Request(to.url, as_json(body), JSON)]


def _read(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    code = answer.get("code", answer.get("StatusCode", 0))
    return Reading(error=f"Feishu answered {code}: {answer.get('msg') or 'no reason'}.") if code else Reading()


DESTINATION = Destination(
    id="feishu",
    title="Feishu or Lark",
    group="Chat",
    summary="a card an event",
    product="Feishu or Lark",
    steps=(
        "In the group open Settings, Bots, Add Bot, Custom Bot.",
        "Copy its “Webhook URL” into the field Address below.",
        "Switch on “Signature verification”, and copy its secret into the field Secret.",
    ),
    fields=(
        hidden_url("https://open.feishu.cn/open-apis/bot/v2/hook/…"),
        hidden_secret(),
    ),
    render=_render,
    read=_read,
)
