"""Loki's push (``logproto.PushRequest``), as protobuf and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from ingest.refusals import Refused
from ingest.wire.protobuf import FIELD, message_class
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Row, Stream, name_of

#: Lines are bytes here: senders do not check that they
#: are UTF-8, and one bad line must not cost the batch.
_MESSAGES: Final = {
    "Timestamp": [("seconds", 1, FIELD.TYPE_INT64, "", False), ("nanos", 2, FIELD.TYPE_INT32, "", False)],
    "Pair": [("name", 1, FIELD.TYPE_BYTES, "", False), ("value", 2, FIELD.TYPE_BYTES, "", False)],
    "Entry": [
        ("timestamp", 1, FIELD.TYPE_MESSAGE, "Timestamp", False),
        ("line", 2, FIELD.TYPE_BYTES, "", False),
        ("metadata", 3, FIELD.TYPE_MESSAGE, "Pair", True),
    ],
    "Stream": [
        ("labels", 1, FIELD.TYPE_BYTES, "", False),
        ("entries", 2, FIELD.TYPE_MESSAGE, "Entry", True),
    ],
    "PushRequest": [("streams", 1, FIELD.TYPE_MESSAGE, "Stream", True)],
}
_LABEL = re.compile(r'([A-Za-z_][\w.:-]{0,200})\s*=\s*("(?:[^"\\]|\\.)*"|`[^`]*`)')
_MAX_LABELS = 64 << 10
_VALUE = 1024


#: Loki publishes no Python package with it
PushRequest: Any = message_class("loki", _MESSAGES, "PushRequest")


class _Entry(msgspec.Struct, array_like=True):
    at: str
    line: str
    metadata: dict[str, str] = {}


class _Stream(msgspec.Struct):
    stream: dict[str, str] = {}
    values: list[_Entry] = []


class _Push(msgspec.Struct):
    streams: list[_Stream]


_DECODER = msgspec.json.Decoder(_Push)


def streams(data: bytes, rules: Rules, *, is_json: bool) -> Iterator[Stream]:
    """The streams of one push. Raises :class:`Refused` (400) if it is no such push. O(bytes)."""
    try:
        if is_json:
            return _of_json(_DECODER.decode(data), rules)
        return _of_protobuf(PushRequest.FromString(data), rules)
    except (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError) as error:
        sentence = f"The body is not a push of Loki: {str(error)[:200]}."
        raise Refused(sentence, code="bad_body", status=400) from error


def _of_json(push: _Push, rules: Rules) -> Iterator[Stream]:
    budget = Budget()
    budget.spend(groups=len(push.streams))
    for stream in push.streams:
        budget.spend(records=len(stream.values))
        base = {name_of(name): value[:_VALUE] for name, value in stream.stream.items()}
        yield from _split(base, ((_ns(entry.at), entry.line, entry.metadata) for entry in stream.values), rules)


def _of_protobuf(push: Any, rules: Rules) -> Iterator[Stream]:
    budget = Budget()
    budget.spend(groups=len(push.streams))
    for stream in push.streams:
        budget.spend(records=len(stream.entries))
        base = labels_of(stream.labels[:_MAX_LABELS].decode("utf-8", "replace"))
        entries = (
            (
                entry.timestamp.seconds * 10**9 + entry.timestamp.nanos,
                entry.line.decode("utf-8", "replace"),
                {p.name.decode("utf-8", "replace"): p.value.decode("utf-8", "replace") for p in entry.metadata},
            )
            for entry in stream.entries
        )
        yield from _split(base, entries, rules)


def _split(base: dict[str, str], entries: Iterator[tuple[int, str, Any]], rules: Rules) -> Iterator[Stream]:
    """Entries whose metadata names another place become streams of their own."""
    found: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for at, line, metadata in entries:
        own = tuple((name, value[:_VALUE]) for key, value in metadata.items() if (name := name_of(key)) in rules.names)
        found.setdefault(own, []).append(Row(at if 0 < at < 1 << 63 else 0, "", line))
    for own, rows in found.items():
        yield Stream({**base, **dict(own)}, rows)


def labels_of(text: str) -> dict[str, str]:
    """The labels of ``{name="value", …}``."""
    return {name_of(name): _unquoted(value)[:_VALUE] for name, value in _LABEL.findall(text)}


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:  # an escape that JSON does not have
            pass
    return value[1:-1]


def _ns(said: str) -> int:
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0
