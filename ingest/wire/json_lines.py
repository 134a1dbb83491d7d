"""JSON lines, a JSON array or plain text: what rsyslog, syslog-ng, Fluent Bit, Vector and scripts send by HTTP.

Headers say which fields are the message, the time and the level; without them the usual names are tried. A line that
is no JSON object is a message itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from ingest.refusals import Refused
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Rows, Stream, name_of, no_rows

_MESSAGE_FIELDS: Final = ("message", "msg", "log", "line", "body", "text", "event")
_TIME_FIELDS: Final = ("timestamp", "time", "ts", "date", "asctime", "realtime_timestamp", "observed_timestamp")
_LEVEL_FIELDS: Final = ("level", "levelname", "severity", "severity_text", "loglevel", "priority_text")
_LEVEL_WORDS: Final = {"warning": "WARN", "err": "ERROR", "crit": "FATAL", "critical": "FATAL", "notice": "INFO"}
_LEVELS: Final = frozenset(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
#: fields within fields that are read
_MAX_DEPTH = 4
_MAX_FIELDS = 200
#: combinations of fields of one request that are remembered
_MAX_PLANS = 256
_MAX_VALUE = 1024
_DECODER = msgspec.json.Decoder()


type _Labels = tuple[tuple[str, str], ...]


def streams(data: bytes, rules: Rules) -> Iterator[Stream]:
    """The streams of one body. Raises :class:`Refused` (400) for an array that is no JSON. O(bytes)."""
    found: dict[_Labels, Rows] = {}
    plans: dict[tuple[str, ...], _FieldPlan] = {}
    for text, fields in _lines(data):
        if fields is None:
            found.setdefault((), no_rows()).add(0, "", text)
            continue
        flat = _flat(fields) if dict in map(type, fields.values()) else fields
        names = tuple(flat)
        if (plan := plans.get(names)) is None:
            plan = _FieldPlan.of(names, rules)
            if len(plans) < _MAX_PLANS:
                plans[names] = plan
        at, head, message, labels = plan.read(flat)
        rows = found.get(labels) or found.setdefault(labels, no_rows())
        rows.add(at, head, text if message is None else message.encode("utf-8", "replace"))
    for labels, rows in found.items():
        yield Stream(dict(labels), rows)


class _FieldPlan(NamedTuple):
    """Which fields of a line say what, by their names: lines of a sender have the same fields."""

    message: tuple[str, ...]
    time: tuple[str, ...]
    level: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, names: Sequence[str], rules: Rules) -> _FieldPlan:
        known: dict[str, str] = {}
        for raw in names:
            known.setdefault(name_of(raw), raw)

        def those(wanted: Sequence[str]) -> tuple[str, ...]:
            return tuple(known[name] for name in wanted if name in known)

        labels = tuple((name, raw) for name, raw in known.items() if name in rules.names)
        message, time = those(rules.message_from or _MESSAGE_FIELDS), those(rules.time_from or _TIME_FIELDS)
        return cls(message, time, those(rules.level_from or _LEVEL_FIELDS), labels)

    def read(self, fields: Mapping[str, Any]) -> tuple[int, str, str | None, _Labels]:
        """Time, what stands before a stamped line, the message if there is one, and the labels."""
        message = _first(fields, self.message)
        level = _level(_first(fields, self.level))
        labels = tuple(
            [
                (name, value[:_MAX_VALUE] if isinstance(value, str) else json.dumps(value)[:_MAX_VALUE])
                for name, raw in self.labels
                if (value := fields[raw]) is not None
            ]
        )
        text = message if isinstance(message, str) else None
        return _ns(_first(fields, self.time)), f"{level} " if level else "", text, labels


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
            try:
                fields = _DECODER.decode(line)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                fields = None
        yield raw, fields


def _array(data: bytes) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        sentence = f"The body is no array of JSON objects: {str(error)[:200]}. Send one object a line, or an array."
        raise Refused(sentence, code="bad_body", status=400) from error


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    _flatten(fields, "", flat, _MAX_DEPTH)
    return flat


def _flatten(fields: Mapping[str, Any], prefix: str, out: dict[str, Any], depth: int) -> None:
    """``{"kubernetes": {"pod_name": …}}`` becomes ``kubernetes_pod_name``."""
    for key, value in fields.items():
        if len(out) >= _MAX_FIELDS:
            return
        name = f"{prefix}{name_of(key)}"
        if isinstance(value, dict):
            if depth > 1:
                _flatten(value, f"{name}_", out, depth - 1)
        else:
            out.setdefault(name, value)


def _level(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    word = value.lower()
    word = _LEVEL_WORDS.get(word, word.upper())
    return word if word in _LEVELS else ""


def _ns(value: Any) -> int:
    """ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970, by their size. 0 for anything else."""
    if isinstance(value, str):
        if value.replace(".", "", 1).isdecimal() and value.isascii() and len(value) < 30:
            value = float(value) if "." in value else int(value)
        else:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1 << 63:
        return 0
    unit = 10**9
    while value * unit > 1 << 62 and unit > 1:  # in seconds, later than the year 2116
        unit //= 1000
    return round(value * unit)


def _iso(value: str) -> int:
    try:
        moment = datetime.fromisoformat(value[:40])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0, round(moment.timestamp() * 1e6) * 1000)
    except (ValueError, OverflowError):
        return 0


def _first(flat: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if (said := flat.get(name)) is not None:
            return said
    return None
