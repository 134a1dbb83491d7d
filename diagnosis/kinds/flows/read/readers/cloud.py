"""Flow logs of clouds that nest their records: Azure (network security groups, virtual networks) and Google Cloud.

Both count over minutes or seconds and sample, so they are mostly enough for jobs and volumes only. Azure's tuples
contain only the time of logging: it is rounded to whole seconds, so that it is not used as the time of a transfer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

import polars as pl

from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows, blocks_of_lines
from diagnosis.kinds.flows.read.readers.columns import Columns
from diagnosis.model import ParseHints
from diagnosis.values.json_values import Json, JsonObject, object_in

#: JSON that is one value must be in memory as a whole, at about ten times its size.
MAX_WHOLE_BYTES = 128 << 20
#: Words that stand at the beginning of such files.
_AZURE_WORDS = (b'"flowTuples"', b'"flowRecords"', b"FlowEvent")
_GOOGLE_WORDS = (b"jsonPayload", b"connection", b"src_ip")
_TUPLE_FIELDS = ("time", "src", "dst", "src_port", "dst_port", "proto")
WINDOWS_NOTE = "The provider counts over minutes: a time is when the count was logged, not when bytes moved."


def sniff_cloud(head: bytes) -> str | None:
    """``azure``, ``google`` or None, by the words that every such file begins with."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"{" and b'"records"' in text[:200] and any(word in text for word in _AZURE_WORDS):
        return "azure"
    if text[:1] in (b"{", b"[") and all(word in text[:8192] for word in _GOOGLE_WORDS):
        return "google"
    return None


def read_azure(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """``records[].properties.flows[].flows[]`` or ``records[].flowRecords.flows[].flowGroups[]`` with ``flowTuples``.

    A tuple: time, source, destination, their ports, protocol, direction, decision or state, and in the later versions
    packets and bytes of both ways at its end.
    """
    found = _read_whole(stream)
    records = found.get("records", []) if isinstance(found, dict) else []
    reading = Reading("azure-flow-log", notes=[WINDOWS_NOTE])
    texts = list(chain.from_iterable(map(_tuples, records)))
    rows = [row for text in texts if (row := _azure_row(text)) is not None]
    reading.lines = len(rows)
    reading.bad_lines = sum(not _is_counted(text) for text in texts)
    reading.bad_rows = reading.bad_lines
    if rows:
        table = pl.from_dicts(rows, infer_schema_length=None)
        out.add(Columns.of(table.columns).normalise(table, "UTC", reading))
    return reading


def _tuples(value: Any) -> Iterator[str]:
    """All tuples below a value, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "flowTuples" and isinstance(inner, list):
                yield from (text for text in inner if isinstance(text, str))
            else:
                yield from _tuples(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _tuples(inner)


def _is_counted(text: str) -> bool:
    """Whether a tuple has a time and counts of both ways."""
    parts = text.split(",")
    return len(parts) >= 12 and all(part.isascii() and part.isdigit() for part in [parts[0], *parts[-4:]])


def _azure_row(text: str) -> dict[str, Json] | None:
    """None for the tuple that opens a connection: it has no counts yet."""
    if not _is_counted(text):
        return None
    parts = text.split(",")
    counts = parts[-4:]
    packets, size, back_packets, back_size = (int(part[:18]) for part in counts)
    if not size and not back_size:
        return None
    row: dict[str, Json] = dict(zip(_TUPLE_FIELDS, parts, strict=False))
    seconds = int(parts[0][:18]) // (1000 if len(parts[0]) > 11 else 1)
    row["proto"] = {"T": "TCP", "U": "UDP"}.get(parts[5], parts[5])
    return row | {
        "time": seconds,
        "end": seconds,
        "packets": packets,
        "bytes": size,
        "resp_pkts": back_packets,
        "resp_bytes": back_size,
    }


def read_google(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """Entries with ``jsonPayload.connection``, one a line or as an array."""
    reading = Reading("google-vpc")
    first = stream.read(1 << 16)
    lines = first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    parts = (_entries(block) for block in blocks_of_lines(stream, first)) if lines else [_read_whole(stream, first)]
    for part in parts:
        rows = [row for entry in part if isinstance(entry, dict) and (row := _google_row(entry)) is not None]
        reading.lines += len(part)
        reading.bad_lines += len(part) - len(rows)
        reading.bad_rows = reading.bad_lines
        if rows:
            table = pl.from_dicts(rows, infer_schema_length=None)
            out.add(Columns.of(table.columns).normalise(table, "UTC", reading))
    return reading


def _entries(block: bytes) -> list[Any]:
    found: list[Any] = []
    for line in block.split(b"\n"):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                found.append(None)
    return found


def _google_row(entry: JsonObject) -> dict[str, Json] | None:
    payload = object_in(entry.get("jsonPayload", dict(entry)))
    joined = object_in(payload.get("connection"))
    if not isinstance(joined.get("src_ip"), str):
        return None
    names = {
        "src": joined.get("src_ip"),
        "dst": joined.get("dest_ip"),
        "src_port": joined.get("src_port"),
        "dst_port": joined.get("dest_port"),
        "proto": joined.get("protocol"),
        "start": payload.get("start_time"),
        "end": payload.get("end_time"),
        "bytes": payload.get("bytes_sent"),
        "packets": payload.get("packets_sent"),
    }
    return {name: None if value is None else str(value) for name, value in names.items()}


def _read_whole(stream: BinaryIO, first: bytes = b"") -> Any:
    data = first + stream.read(MAX_WHOLE_BYTES + 1 - len(first))
    if len(data) > MAX_WHOLE_BYTES:
        raise UnusableFlows(
            "One JSON value of more than 128 MB cannot be read in pieces. Export one entry a line, or fewer."
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnusableFlows(f"The JSON is damaged ({str(error)[:120]}). Export it again.") from error
