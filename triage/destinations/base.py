"""What a kind of destination is: its fields, how it writes a message and reads the answer. It sends nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from triage.domain.route_message import Message

#: events that begin a conversation about an incident
OPENING = ("incident.opened", "incident.regressed")
JSON = {"Content-Type": "application/json; charset=utf-8"}


_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~<>:-])")


class Request(NamedTuple):
    """One HTTP request."""

    url: str
    body: bytes = b""
    headers: Mapping[str, str] = {}
    method: str = "POST"


class Mail(NamedTuple):
    """One e-mail; ``thread`` is equal for all mails of one incident."""

    to: tuple[str, ...]
    subject: str
    text: str
    id: str
    thread: str


class Address(NamedTuple):
    """Where to: what the route's form says. ``secrets`` has the current one first."""

    url: str
    secrets: tuple[str, ...] = ()
    options: Mapping[str, str] = {}


class Reading(NamedTuple):
    """What an answer means. ``error``: why it did not arrive, though the status says so; empty if it did.

    ``reference`` is stored for later messages on the same incident; None leaves the stored one.
    """

    error: str = ""
    reference: dict[str, Any] | None = None
    url: str = ""
    title: str = ""
    state: str = ""


class Field(NamedTuple):
    """A field of the form. ``name`` is ``url``, ``secret`` or the key of an option."""

    name: str
    label: str
    help: str = ""
    placeholder: str = ""
    default: str = ""
    is_required: bool = True
    #: shown shortened and never sent to the browser
    is_secret: bool = False
    #: the values it can have, with their titles; empty: any text
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Destination:
    """A kind of destination.

    ``render(message, address, reference, now)`` returns the requests of one message, in order. After a failure all of
    them are sent again, so each but the last must be safe to repeat. ``read(answers)`` gets the texts of the answers,
    all with a status below 300.
    """

    id: str
    title: str
    group: str
    #: what a person sees there, in a few words
    summary: str
    #: where a person finds the values of the fields, in steps
    steps: tuple[str, ...]
    fields: tuple[Field, ...]
    render: Callable[[Message, Address, Mapping[str, Any], datetime], Sequence[Request | Mail]]
    read: Callable[[Sequence[str]], Reading] = field(default=lambda answers: Reading())
    events: tuple[str, ...] = (*OPENING, "incident.updated")
    #: every later event of an incident that it was told of is sent, too, because it updates what was sent before
    is_following: bool = False
    #: a person decides which incidents go there
    is_by_hand: bool = False
    #: its signing secret is made here and shown once
    makes_secret: bool = False
    #: the name of the product in which the steps are done; empty if nothing has to be done elsewhere
    product: str = ""

    @property
    def is_program(self) -> bool:
        """It gets each event that was chosen, not a conversation about an incident."""
        return self.group == "Programs"

    @property
    def form(self) -> dict[str, Field]:
        return {row.name: row for row in self.fields}


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def parse_object(text: str) -> dict[str, Any]:
    """The answer as a JSON object; empty if it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is. A name after @ is not mentioned: a space without width follows the sign."""
    return _MARKUP.sub(r"\\\1", text).replace("@", "@\u200b")


def cut(text: str, max_chars: int) -> str:
    """At most ``max_chars`` characters."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def hidden_url(placeholder: str) -> Field:
    """The field of an address that is as good as a password."""
    return Field("url", "Address", "Whoever has it can post, so it is not shown again", placeholder, is_secret=True)


def hidden_secret(placeholder: str = "", *, help_text: str = "Empty if there is none; never shown again") -> Field:
    """The field of a signing secret that the destination may do without."""
    return Field("secret", "Secret", help_text, placeholder, is_required=False, is_secret=True)
