"""JSON lines, a JSON array or plain text: what rsyslog, syslog-ng, Fluent Bit, Vector and scripts send by HTTP.

Headers say which fields are the message, the time and the level; without them the usual names are tried. A line that
is no JSON object is a message itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from diagnosis.kinds.logs.unwrap import structured
from diagnosis.kinds.logs.unwrap.structured import StructuredRecord
from ingest.refusals import Refused
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Rows, Stream, no_rows

_MAX_VALUE = 1024

type _Labels = tuple[tuple[str, str], ...]


def streams(data: bytes, rules: Rules) -> Iterator[Stream]:
    """The streams of one body. Raises :class:`Refused` (400) for an array that is no JSON. O(bytes)."""
    found: dict[_Labels, Rows] = {}
    asked = (rules.message_from, rules.time_from, rules.level_from)
    for text, fields in _lines(data):
        record = structured.record_of(fields or {}, asked)
        rows = found.setdefault(_labels(record, rules.names), no_rows())
        said = "\n".join(record.lines).encode("utf-8", "replace") if record.has_text else text
        rows.add(record.at_ns, record.head, said)
    for labels, rows in found.items():
        yield Stream(dict(labels), rows)


def _labels(record: StructuredRecord, names: frozenset[str]) -> _Labels:
    """The fields that routing may read, in a record's order, and its machine if none of them names it."""
    found: dict[str, str] = {}
    for raw, name in _label_names(tuple(record.fields), names):
        value = record.fields[raw]
        if value is not None:
            found[name] = value[:_MAX_VALUE] if isinstance(value, str) else json.dumps(value)[:_MAX_VALUE]
    if record.node and record.node not in found.values():
        found.setdefault("node", record.node)
    return tuple(found.items())


@lru_cache(1024)
def _label_names(fields: tuple[str, ...], names: frozenset[str]) -> list[tuple[str, str]]:
    """Which fields are labels, and their normalised names: the first of a name counts."""
    known: dict[str, str] = {}
    for raw in fields:
        name = structured.name_of(raw)
        if name in names:
            known.setdefault(name, raw)
    return [(raw, name) for name, raw in known.items()]


def _lines(data: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line, and its fields if it is a JSON object."""
    budget = Budget()
    budget.spend(records=data.count(b"\n"))
    if data.lstrip()[:1] == b"[":
        found = _array(data)
        budget.spend(records=len(found))
        yield from ((json.dumps(one, ensure_ascii=False).encode("utf-8", "replace"), one) for one in found)
        return
    for raw in data.split(b"\n"):
        line = raw.strip()
        if not line:
            continue
        fields = None
        if line[:1] == b"{":
            fields = structured.fields_of(line)
        yield raw, fields


def _array(data: bytes) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        sentence = f"The body is no array of JSON objects: {str(error)[:200]}. Send one object a line, or an array."
        raise Refused(sentence, code="bad_body", status=400) from error
