"""E-mail: one thread an incident, in plain text, by the site's mail server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from triage.destinations.base import Address, Destination, Field, Mail, cut
from triage.domain.route_message import Message


def recipients(text: str) -> tuple[str, ...]:
    return tuple(address for address in text.replace(";", ",").replace(",", " ").split() if address)


def _render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Mail]:
    host = urlsplit(message.url).hostname or "faultline"
    about = f"#{message.number} " if message.number else ""
    subject = cut(f"{about}{' '.join(message.title.split())}", 200)  # a line break would begin another header
    thread = f"<incident-{message.number}@{host}>" if message.number else ""
    return [Mail(recipients(to.options.get("to", "")), subject, message.text, f"<{message.id}@{host}>", thread)]


DESTINATION = Destination(
    id="email",
    title="E-mail",
    group="Chat",
    summary="one e-mail an event, one thread an incident",
    steps=("Enter the addresses, separated by commas. The operator of the site sets the mail server.",),
    fields=(Field("to", "To", "At most 20 addresses", "oncall@example.org"),),
    render=_render,
)
