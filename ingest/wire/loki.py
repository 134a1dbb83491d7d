"""Loki's push (``logproto.PushRequest``), as protobuf and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from diagnosis.kinds.logs.unwrap.structured import name_of
from ingest.refusals import Refused
from ingest.wire import scanning
from ingest.wire.protobuf import FIELD, message_classes
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Rows, Stream, no_rows

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
    "Groups": [("streams", 1, FIELD.TYPE_BYTES, "", True)],
    "Own": [("metadata", 3, FIELD.TYPE_MESSAGE, "Pair", True)],
}
_LABEL = re.compile(r'([A-Za-z_][\w.:-]{0,200})\s*=\s*("(?:[^"\\]|\\.)*"|`[^`]*`)')
_MAX_LABELS = 64 << 10
_MAX_VALUE = 1024
_DECODE_ERRORS = (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError)


#: Loki publishes no Python package with it. ``_GROUPS``: its streams as bytes; ``_OWN``: the metadata of an entry
PushRequest, _GROUPS, _OWN = message_classes("loki", _MESSAGES, ("PushRequest", "Groups", "Own"))
#: tags of an entry: time, line; metadata
_AT, _TEXT, _METADATA = range(0, 6, 2)
_TAGS: Final = np.array([10, 18, 26], np.int64)


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
        return _of_protobuf(_GROUPS.FromString(data).streams, rules)
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error


def _decode_refusal(error: object) -> Refused:
    return Refused(f"The body is not a push of Loki: {str(error)[:200]}.", code="bad_body", status=400)


def _of_json(push: _Push, rules: Rules) -> Iterator[Stream]:
    budget = Budget()
    budget.spend(groups=len(push.streams))
    for stream in push.streams:
        budget.spend(records=len(stream.values))
        base = {name_of(name): value[:_MAX_VALUE] for name, value in stream.stream.items()}
        found: dict[tuple[tuple[str, str], ...], Rows] = {}
        for entry in stream.values:
            rows = found.setdefault(_own(entry.metadata.items(), rules) if entry.metadata else (), no_rows())
            rows.add(_ns(entry.at), "", entry.line.encode("utf-8", "replace"))
        yield from (Stream({**base, **dict(own)}, rows) for own, rows in found.items())


def _of_protobuf(groups: Sequence[bytes], rules: Rules) -> Iterator[Stream]:
    """Entries with the same metadata, one after another, are taken together."""
    budget = Budget()
    budget.spend(groups=len(groups))
    for group in groups:
        if (read := scanning.records(group, _TAGS, budget)) is None:
            raise _decode_refusal("a stream is none")
        places, (begin, end) = read[0], read[1].tolist()
        base = labels_of(group[begin:end][:_MAX_LABELS].decode("utf-8", "replace"))
        if scanning.moments(np.frombuffer(group, np.uint8), places[:, _AT : _AT + 2]) < 0:
            raise _decode_refusal("a time is none")
        times = [_nanoseconds(seconds, nanos) for seconds, nanos in places[:, _AT : _AT + 2].tolist()]
        texts = [group[first:last] for first, last in places[:, _TEXT : _TEXT + 2].tolist()]
        found: dict[tuple[tuple[str, str], ...], Rows] = {}
        for low, high in pairwise([*np.flatnonzero(places[:, -1] == 0).tolist(), len(places)]):
            first, last = places[low, _METADATA : _METADATA + 2].tolist()
            rows = found.setdefault(_own(_pairs(group[first:last]), rules), no_rows())
            rows.extend(times[low:high], [""] * (high - low), texts[low:high])
        yield from (Stream({**base, **dict(own)}, rows) for own, rows in found.items())


def _pairs(metadata: bytes) -> list[tuple[str, str]]:
    try:
        pairs = _OWN.FromString(metadata).metadata
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error
    return [(pair.name.decode("utf-8", "replace"), pair.value.decode("utf-8", "replace")) for pair in pairs]


def _own(metadata: Iterable[tuple[str, str]], rules: Rules) -> tuple[tuple[str, str], ...]:
    """What metadata says of the place of an entry: those of another place become a stream of their own."""
    return tuple((name, value[:_MAX_VALUE]) for key, value in metadata if (name := name_of(key)) in rules.names)


def _nanoseconds(seconds: int, nanos: int) -> int:
    at = seconds * 10**9 + nanos
    return at if 0 < at < 1 << 63 and min(seconds, nanos) >= 0 else 0


def labels_of(text: str) -> dict[str, str]:
    """The labels of ``{name="value", …}``."""
    return {name_of(name): _unquoted(value)[:_MAX_VALUE] for name, value in _LABEL.findall(text)}


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:  # an escape that JSON does not have
            pass
    return value[1:-1]


def _ns(said: str) -> int:
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0
