"""Exports of log stores and experiment trackers: one document with a list of records that have a time
and a text, or a step and what was measured in it.

A document is JSON, or a table with commas and a header (Kibana, CloudWatch, Weights & Biases,
TensorBoard). Loki's ``query_range`` has streams of pairs with common labels, OpenTelemetry's files have
groups of one resource (:mod:`otlp_exports`); Elasticsearch's hits, lists of cloud loggers, trainers'
states and any other document have objects. The records become lines in order of time
(:mod:`structured`). A document is read whole, so one that is larger or has more records stays as it is.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from diagnosis.kinds.logs.text import encodings
from diagnosis.kinds.logs.unwrap import otlp_exports, structured
from diagnosis.kinds.logs.unwrap.structured import StructuredRecord
from diagnosis.values.json_values import Json, JsonObject

#: Bytes of a document that is read.
MAX_BYTES: Final = 16 << 20
#: Records of a document that is read: one byte of it may stand for a record with hundreds of labels.
MAX_RECORDS: Final = 200_000
#: Cells of a table that is read: an empty one is a single byte, and costs as much as any other.
MAX_CELLS: Final = 2_000_000
#: How deep a list of records is searched, and how many records at its beginning must be some.
_MAX_DEPTH: Final = 4
_PROBED: Final = 5
_PROBED_CHARS: Final = 4_096
_MARK: Final = b"\xef\xbb\xbf"
#: A header of a table with commas: names alone, of which each begins with a letter, ``@`` or ``_``.
_NAME: Final = r'(?:"[@_A-Za-z][^",\n]{0,99}"|[@_A-Za-z][^",\n]{0,99})'
_HEADER: Final = re.compile(rf"{_NAME}(?:,{_NAME}){{1,199}}\r?\n")
_FIELD: Final = re.compile(r'\{\s{0,20}"field"')
_LIST: Final = re.compile(r"\[\s*(?=\{)")
#: Points of one quantity: times in seconds, steps and values in lists, as TensorBoard exports them,
#: or times in milliseconds, values and steps in lines, as MLflow stores them.
_VALUE: Final = r"(?P<value>[-+]?(?:\d[\d.eE+\-]{0,30}|nan|NaN|inf|-?Infinity))"
_POINTS: Final = (
    re.compile(
        r"(?:\[\s*)?\[\s*(?P<time>\d{9,10}(?:\.\d{1,20})?),\s*(?P<step>\d{1,12}),"
        rf"\s*{_VALUE}\s*\]"
    ),
    re.compile(rf"(?m)^(?P<time>\d{{13}}) {_VALUE} (?P<step>\d{{1,12}})\s*$"),
)
#: The name of a quantity whose file does not name it.
NAMELESS: Final = "tracked value"
_STREAMS: Final = re.compile(r'"resultType": ?"streams"')


def begins(text: str) -> bool:
    """Whether a file that begins with ``text`` looks like an export. O(len(text))."""
    start = text.lstrip("\ufeff \t\r\n")
    if otlp_exports.begins(start):
        return True
    if _form_of_points(start) is not None:
        return True
    if not start.startswith(("{", "[")):
        return _begins_table(start[:_PROBED_CHARS].rpartition("\n")[0])
    if _STREAMS.search(start[:_PROBED_CHARS]):
        return True
    found = _LIST.search(start[:_PROBED_CHARS])
    if found is None:
        return False
    is_of_fields = _FIELD.match(start, found.end()) is not None
    begin = found.start() if is_of_fields else found.end()
    try:
        first, _ = json.JSONDecoder().raw_decode(start, begin)
    except (ValueError, RecursionError):
        return False
    return _is_record(_row(first))


@lru_cache(2)
def records(data: bytes) -> tuple[StructuredRecord, ...]:
    """The records of a document, in order of time; none of anything else. O(bytes)."""
    data = data.removeprefix(_MARK)
    if otlp_exports.begins(data[:_PROBED_CHARS].decode("utf-8", "replace")):
        found = _with_text(map(structured.record_of, otlp_exports.fields_of_records(data)))
    elif form := _form_of_points(data[:_PROBED_CHARS].decode("utf-8", "replace").lstrip()):
        found = _with_text(map(structured.record_of, _points(data, form)))
    elif data.lstrip()[:1] in (b"{", b"["):
        document = structured.document_of(data)
        rows: Iterable[dict[str, Json]] = _list(document, _MAX_DEPTH)
        found = _with_text(_streams(document)) or _with_text(map(structured.record_of, rows))
    else:
        found = _records_of_table(encodings.decode(data))
    if len(found) > MAX_RECORDS:
        return ()
    return tuple(sorted(found, key=lambda record: record.at_ns))


def _with_text(found: Iterable[StructuredRecord]) -> list[StructuredRecord]:
    """The records with a text, one more than are read at most; without their fields."""
    told = (record._replace(fields={}) for record in islice(found, MAX_RECORDS + 1) if record.lines)
    return list(told)


def _form_of_points(start: str) -> re.Pattern[str] | None:
    """What finds the points of a history that begins so; None for any other text."""
    return next((form for form in _POINTS if form.match(start)), None)


def _points(data: bytes, form: re.Pattern[str]) -> Iterator[JsonObject]:
    """The points of one quantity as records."""
    for found in form.finditer(data.decode("utf-8", "replace")):
        at = json.loads(found["time"])
        yield {"timestamp": at, "step": found["step"], NAMELESS: found["value"]}


def _streams(document: Any) -> Iterator[StructuredRecord]:
    """The records of Loki's streams."""
    data = document.get("data") if isinstance(document, dict) else None
    streams = data.get("result") if isinstance(data, dict) else None
    for stream in filter(_is_stream, streams if isinstance(streams, list) else ()):
        for value in stream["values"]:
            if isinstance(value, list) and len(value) > 1:
                fields = {**stream["stream"], "timestamp": value[0], "message": value[1]}
                yield structured.record_of(fields)


def _is_stream(stream: Any) -> bool:
    """Whether a value has labels, and a list of times and lines."""
    if not isinstance(stream, dict):
        return False
    return isinstance(stream.get("stream"), dict) and isinstance(stream.get("values"), list)


def _list(value: Any, depth: int) -> list[dict[str, Json]]:
    """The first list of records within a value."""
    if isinstance(value, list):
        records = list(filter(None, map(_row, value)))
        return records if records and all(map(_is_record, records[:_PROBED])) else []
    inner = value.values() if isinstance(value, dict) and depth else ()
    return next((found for one in inner if (found := _list(one, depth - 1))), [])


def _row(value: Any) -> dict[str, Json]:
    """An item of a list of records: an object, or a list of fields with a name and a value each
    (CloudWatch's queries); empty for any other one.
    """
    if isinstance(value, dict):
        return value
    fields = value if isinstance(value, list) else []
    named = [one for one in fields if isinstance(one, dict) and "field" in one]
    return {str(one["field"]): one.get("value") for one in named}


def _begins_table(text: str) -> bool:
    try:
        return next(_table(text), None) is not None
    except csv.Error:
        return False


def _records_of_table(text: str) -> list[StructuredRecord]:
    """All records of a table; none of a damaged or too large one, which stays as it is."""
    try:
        return _with_text(map(structured.record_of, _table(text)))
    except csv.Error:
        return []


def _table(text: str) -> Iterator[dict[str, Json]]:
    """The rows of a table with a header whose first rows are records, one at a time. Raises
    ``csv.Error`` for a damaged table, and for one with more than :data:`MAX_CELLS`.
    """
    if _HEADER.match(text) is None:
        return
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="", restval="")
    max_rows = MAX_CELLS // len(rows.fieldnames or ("",))
    first = list(islice(rows, _PROBED))
    if not all(map(_is_record, first)):
        return
    yield from first
    for number, row in enumerate(rows, len(first) + 1):
        if number > max_rows:
            raise csv.Error("the table has too many cells")
        yield row


def _is_record(value: Any) -> bool:
    record = structured.record_of(value) if isinstance(value, dict) else None
    return record is not None and record.has_text and (record.at_ns > 0 or record.is_measured)
