"""OpenTelemetry logs (OTLP/HTTP, ``ExportLogsServiceRequest``), as protobuf and as JSON.

Both shapes have the same names, so one walk reads both. The generic JSON reader of protobuf is not used: it is thirty
times as slow, and reads the hexadecimal ids of OTLP as base64. The attributes of a record stay bytes until they differ
from those of the records before: most records of a file have the same ones, and they cost more than all else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import DESCRIPTOR as COMMON
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import DESCRIPTOR as RESOURCE

from ingest.refusals import Refused
from ingest.wire.protobuf import FIELD, message_class
from ingest.wire.routing import Rules
from ingest.wire.rows import Budget, Row, Stream, name_of

_LEVELS: Final = ("", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_WORDS: Final = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"))
_TRACE: Final = "exception_stacktrace"
#: a label's value may have so many characters
_VALUE = 1024
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
#: ``ExportLogsServiceRequest`` with attributes of records as bytes, and without the fields that are not read
_MESSAGES: Final = {
    "LogRecord": [
        ("time_unix_nano", 1, FIELD.TYPE_FIXED64, "", False),
        ("severity_number", 2, FIELD.TYPE_INT32, "", False),
        ("severity_text", 3, FIELD.TYPE_STRING, "", False),
        ("body", 5, FIELD.TYPE_MESSAGE, f"{_COMMON}.AnyValue", False),
        ("attributes", 6, FIELD.TYPE_BYTES, "", True),
        ("observed_time_unix_nano", 11, FIELD.TYPE_FIXED64, "", False),
    ],
    "ScopeLogs": [
        ("scope", 1, FIELD.TYPE_MESSAGE, f"{_COMMON}.InstrumentationScope", False),
        ("log_records", 2, FIELD.TYPE_MESSAGE, "LogRecord", True),
    ],
    "ResourceLogs": [
        ("resource", 1, FIELD.TYPE_MESSAGE, ".opentelemetry.proto.resource.v1.Resource", False),
        ("scope_logs", 2, FIELD.TYPE_MESSAGE, "ScopeLogs", True),
    ],
    "Request": [("resource_logs", 1, FIELD.TYPE_MESSAGE, "ResourceLogs", True)],
}
_REQUEST: Any = message_class("otlp", _MESSAGES, "Request", (COMMON.name, RESOURCE.name))


def streams(data: bytes, rules: Rules, *, is_json: bool) -> Iterator[Stream]:
    """The streams of one request body. Raises :class:`Refused` (400) if it is no such request. O(bytes)."""
    try:
        request: Any = _DECODER.decode(data or b"{}") if is_json else _REQUEST.FromString(data)
    except (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad(error) from error
    return _walk(request, rules, bytes if is_json else tuple, _pairs_of_json if is_json else _pairs_of_protobuf)


def _bad(error: Exception) -> Refused:
    sentence = f"The body is not an ExportLogsServiceRequest: {str(error)[:200]}."
    return Refused(sentence, code="bad_body", status=400)


def _pairs_of_json(raw: bytes) -> Sequence[Any]:
    return _PAIRS.decode(raw)


def _pairs_of_protobuf(raw: Sequence[bytes]) -> Sequence[Any]:
    return [KeyValue.FromString(one) for one in raw]


def _walk(
    request: Any, rules: Rules, raw_of: Callable[[Any], Any], pairs_of: Callable[[Any], Sequence[Any]]
) -> Iterator[Stream]:
    """``raw_of`` gives what identifies attributes, ``pairs_of`` reads that."""
    asked = rules.names | {_TRACE}
    budget = Budget()
    budget.spend(groups=len(request.resource_logs))
    for resource_logs in request.resource_logs:
        base = {name_of(pair.key): _text(pair.value)[:_VALUE] for pair in resource_logs.resource.attributes}
        budget.spend(groups=len(resource_logs.scope_logs))
        for scope_logs in resource_logs.scope_logs:
            budget.spend(records=len(scope_logs.log_records))
            found: dict[tuple[tuple[str, str], ...], list[Row]] = {}
            logger = f"[{scope_logs.scope.name[:100]}] " if scope_logs.scope.name else ""
            known: dict[Any, tuple[list[Row], str]] = {}
            for record in scope_logs.log_records:
                raw = raw_of(record.attributes)
                place = known.get(raw)
                if place is None:
                    own, trace = _own(raw, pairs_of, asked)
                    place = known[raw] = found.setdefault(own, []), trace
                rows, trace = place
                body = record.body
                said = "" if body is None else body.string_value or _text(body)
                at = record.time_unix_nano
                if at.__class__ is not int or not 0 < at < _MAX_NS:
                    at = _ns(at) or _ns(record.observed_time_unix_nano)
                number, word = record.severity_number, record.severity_text
                level = _level(number, word) if number or word else ""
                head = f"{level} {logger}" if level else ""
                rows.append(Row(at, head, said + trace if trace else said))
            for own, rows in found.items():
                yield Stream({**base, **dict(own)}, rows)


def _own(
    raw: Any, pairs_of: Callable[[Any], Sequence[Any]], asked: frozenset[str]
) -> tuple[tuple[tuple[str, str], ...], str]:
    """The labels among a record's attributes that routing may read, and its stack trace."""
    own: tuple[tuple[str, str], ...] = ()
    trace = ""
    try:
        pairs = pairs_of(raw)
    except (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad(error) from error
    for pair in pairs:
        name = name_of(pair.key)
        if name in asked:
            value = pair.value.string_value or _text(pair.value)
            if name == _TRACE:
                trace = f"\n{value}"
            else:
                own += ((name, value[:_VALUE]),)
    return own, trace


def _ns(said: int | str) -> int:
    """A time in JSON is a decimal string; 0 for anything that is no time."""
    if isinstance(said, str):
        said = int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0
    return said if 0 < said < _MAX_NS else 0


def _level(number: int, text: str) -> str:
    if text.upper() in _WORDS:
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
