"""OpenTelemetry logs (OTLP/HTTP, ``ExportLogsServiceRequest``), as protobuf and as JSON.

Groups of both forms have the same names, so one walk reads both; the records of protobuf become no objects
(:mod:`ingest.wire.scanning`). The generic JSON reader of protobuf is not used: it is thirty times as slow, and reads
the hexadecimal ids of OTLP as base64. The attributes of a record stay bytes until they differ from those of the records
before: most records of a file have the same ones, and they cost more than all else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import DESCRIPTOR as COMMON
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import DESCRIPTOR as RESOURCE

from diagnosis.kinds.logs.unwrap.structured import name_of
from ingest.refusals import Refused
from ingest.wire import scanning
from ingest.wire.protobuf import FIELD, message_classes
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Rows, Stream, no_rows

_LEVELS: Final = ("", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVEL_WORDS: Final = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"))
_TRACE_ATTRIBUTE: Final = "exception_stacktrace"
#: a label's value may have so many characters
_MAX_VALUE = 1024
#: later times are in the year 2262
_MAX_NS = 1 << 63


class _Value(msgspec.Struct, rename="camel"):
    """``AnyValue``: one of its fields is set."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None

    def WhichOneof(self, _: str) -> str | None:  # protobuf's name
        return next((name for name in self.__struct_fields__ if getattr(self, name) is not None), None)


class _Values(msgspec.Struct):
    values: list[_Value] = []


class _Pair(msgspec.Struct):
    key: str = ""
    value: _Value = msgspec.field(default_factory=_Value)


class _Pairs(msgspec.Struct):
    values: list[_Pair] = []


class _Record(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    severity_number: int = 0
    severity_text: str = ""
    body: _Value | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"[]")


class _Scope(msgspec.Struct):
    name: str = ""


class _ScopeLogs(msgspec.Struct, rename="camel"):
    scope: _Scope = msgspec.field(default_factory=_Scope)
    log_records: list[_Record] = []


class _Resource(msgspec.Struct):
    attributes: list[_Pair] = []


class _ResourceLogs(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_logs: list[_ScopeLogs] = []


class _Request(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] = []


_DECODER = msgspec.json.Decoder(_Request)
_PAIRS = msgspec.json.Decoder(list[_Pair])
_COMMON = ".opentelemetry.proto.common.v1"
#: ``ExportLogsServiceRequest`` with groups of records as bytes, and the attributes of a record
_MESSAGES: Final = {
    "Own": [("attributes", 6, FIELD.TYPE_MESSAGE, f"{_COMMON}.KeyValue", True)],
    "ResourceLogs": [
        ("resource", 1, FIELD.TYPE_MESSAGE, ".opentelemetry.proto.resource.v1.Resource", False),
        ("scope_logs", 2, FIELD.TYPE_BYTES, "", True),
    ],
    "Request": [("resource_logs", 1, FIELD.TYPE_MESSAGE, "ResourceLogs", True)],
}
_REQUEST, _OWN = message_classes("otlp", _MESSAGES, ("Request", "Own"), (COMMON.name, RESOURCE.name))
#: tags of a ``LogRecord``: time, time of observation, severity and its text, body; attributes
_AT, _SEEN_AT, _LEVEL, _WORD, _TEXT, _ATTRIBUTES = range(0, 12, 2)
_TAGS: Final = np.array([9, 89, 16, 26, 42, 50], np.int64)
_DECODE_ERRORS = (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError)
#: labels and the stack trace among the attributes of a record
type _Own = tuple[tuple[tuple[str, str], ...], bytes]
#: rows by the labels of their own
type _RowsByLabels = dict[tuple[tuple[str, str], ...], Rows]


def streams(data: bytes, rules: Rules, *, is_json: bool) -> Iterator[Stream]:
    """The streams of one request body. Raises :class:`Refused` (400) if it is no such request. O(bytes)."""
    try:
        request: Any = _DECODER.decode(data or b"{}") if is_json else _REQUEST.FromString(data)
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error
    asked = rules.names | {_TRACE_ATTRIBUTE}
    budget = Budget()
    budget.spend(groups=len(request.resource_logs))
    for resource_logs in request.resource_logs:
        base = {name_of(pair.key): _text(pair.value)[:_MAX_VALUE] for pair in resource_logs.resource.attributes}
        budget.spend(groups=len(resource_logs.scope_logs))
        for group in resource_logs.scope_logs:
            found = _of_json(group, asked, budget) if is_json else _of_protobuf(group, asked, budget)
            for own, rows in found.items():
                yield Stream({**base, **dict(own)}, rows)


def _decode_refusal(error: object) -> Refused:
    sentence = f"The body is not an ExportLogsServiceRequest: {str(error)[:200]}."
    return Refused(sentence, code="bad_body", status=400)


def _of_json(group: _ScopeLogs, asked: frozenset[str], budget: Budget) -> _RowsByLabels:
    """The rows of a group, by the labels of their own."""
    budget.spend(records=len(group.log_records))
    logger = _logger(group.scope.name)
    found: _RowsByLabels = {}
    known: dict[bytes, tuple[Rows, bytes]] = {}
    for record in group.log_records:
        raw = bytes(record.attributes)
        if raw not in known:
            own, trace = _own(raw, _pairs_of_json, asked)
            known[raw] = found.setdefault(own, no_rows()), trace
        rows, trace = known[raw]
        said = record.body and (record.body.string_value or _text(record.body))
        at = _ns(record.time_unix_nano) or _ns(record.observed_time_unix_nano)
        level = _level(record.severity_number, record.severity_text)
        rows.add(at, f"[{level}] {logger}" if level else "", (said or "").encode("utf-8", "replace") + trace)
    return found


def _of_protobuf(group: bytes, asked: frozenset[str], budget: Budget) -> _RowsByLabels:
    """The same. Records with the same attributes, one after another, are taken together."""
    if (read := scanning.records(group, _TAGS, budget)) is None:
        raise _decode_refusal("a group of records is none")
    places, (begin, end) = read[0], read[1].tolist()
    logger = _logger(_name(group[begin:end]))
    found: _RowsByLabels = {}
    scanning.unwrap(np.frombuffer(group, np.uint8), places[:, _TEXT : _TEXT + 2])
    times = _times(group, places)
    heads = _heads(group, places[:, [_LEVEL, _WORD, _WORD + 1]].tolist(), logger)
    texts = [
        group[first:last] if first >= 0 else _value_text(group[-1 - first : last])
        for first, last in places[:, _TEXT : _TEXT + 2].tolist()
    ]
    cuts = [*np.flatnonzero(places[:, -1] == 0).tolist(), len(places)]
    known: dict[bytes, tuple[Rows, bytes]] = {}
    for low, high in pairwise(cuts):
        first, last = places[low, _ATTRIBUTES : _ATTRIBUTES + 2].tolist()
        raw = group[first:last]
        if raw not in known:
            own, trace = _own(raw, _pairs_of_protobuf, asked)
            known[raw] = found.setdefault(own, no_rows()), trace
        rows, trace = known[raw]
        rows.extend(
            times[low:high], heads[low:high], [t + trace for t in texts[low:high]] if trace else texts[low:high]
        )
    return found


def _times(group: bytes, places: scanning.Places) -> list[int]:
    """The time of each record, else of its observation; 0 if neither is one."""
    data = np.frombuffer(group + bytes(8), np.uint8)
    both = []
    for column in (_AT, _SEEN_AT):
        begins = places[:, column]
        held = data[begins[:, None] + np.arange(8)].view("<u8")[:, 0]
        both.append(np.where((begins > 0) & (held < _MAX_NS), held, np.uint64(0)))
    said: list[int] = np.where(both[0] > 0, both[0], both[1]).tolist()
    return said


def _heads(group: bytes, said: Sequence[Sequence[int]], logger: str) -> list[str]:
    """What stands before the text of each record: its severity and who logged it."""
    known: dict[tuple[int, bytes], str] = {(0, b""): ""}
    heads = []
    for number, first, last in said:
        key = number, group[first:last]
        if (head := known.get(key)) is None:
            level = _level(number, key[1].decode("utf-8", "replace"))
            head = known[key] = f"[{level}] {logger}" if level else ""
        heads.append(head)
    return heads


def _name(scope: bytes) -> str:
    try:
        return str(InstrumentationScope.FromString(scope).name)
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error


def _value_text(value: bytes) -> bytes:
    """The text of a body that is no string."""
    try:
        return _text(AnyValue.FromString(value)).encode("utf-8", "replace")
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error


def _logger(name: str) -> str:
    return f"[{name[:100]}] " if name else ""


def _pairs_of_json(raw: bytes) -> Sequence[Any]:
    pairs: Sequence[Any] = _PAIRS.decode(raw)
    return pairs


def _pairs_of_protobuf(raw: bytes) -> Sequence[Any]:
    pairs: Sequence[Any] = _OWN.FromString(raw).attributes
    return pairs


def _own(raw: bytes, pairs_of: Callable[[bytes], Sequence[Any]], asked: frozenset[str]) -> _Own:
    """The labels among a record's attributes that routing may read, and its stack trace."""
    own: tuple[tuple[str, str], ...] = ()
    trace = b""
    try:
        pairs = pairs_of(raw)
    except _DECODE_ERRORS as error:
        raise _decode_refusal(error) from error
    for pair in pairs:
        name = name_of(pair.key)
        if name in asked:
            value = pair.value.string_value or _text(pair.value)
            if name == _TRACE_ATTRIBUTE:
                trace = f"\n{value}".encode("utf-8", "replace")
            else:
                own += ((name, value[:_MAX_VALUE]),)
    return own, trace


def _ns(said: int | str) -> int:
    """A time in JSON is a decimal string; 0 for anything that is no time."""
    if isinstance(said, str):
        said = int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0
    return said if 0 < said < _MAX_NS else 0


def _level(number: int, text: str) -> str:
    if text.upper() in _LEVEL_WORDS:
        return text.upper()
    return _LEVELS[(number + 3) // 4] if 0 < number <= 24 else ""


def _text(value: Any) -> str:
    """A value as text: a string as it is, lists and maps as JSON."""
    said = _plain(value)
    return said if isinstance(said, str) else "" if said is None else json.dumps(said, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    said = getattr(value, kind)
    if kind == "array_value":
        return [_plain(one) for one in said.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value) for pair in said.values}
    if kind == "bytes_value" and isinstance(said, bytes):
        return said.decode("utf-8", "replace")
    return said


def answer(refused: int, sentence: str, *, is_json: bool) -> bytes:
    """The body of a 200: empty on full success; a sentence without refused records is a warning."""
    if is_json:
        partial = {"rejectedLogRecords": str(refused), "errorMessage": sentence} if sentence else None
        return json.dumps({"partialSuccess": partial} if partial else {}).encode()
    response = ExportLogsServiceResponse()
    if sentence:
        response.partial_success.rejected_log_records = refused
        response.partial_success.error_message = sentence
    return bytes(response.SerializeToString())


def status(sentence: str, *, is_json: bool) -> bytes:
    """The body of an error: ``google.rpc.Status`` with a message."""
    if is_json:
        return json.dumps({"message": sentence}).encode()
    said = sentence.encode()[:1000]
    size = bytes((len(said) & 0x7F | 0x80, len(said) >> 7)) if len(said) > 127 else bytes((len(said),))
    return b"\x12" + size + said  # field 2, a string
