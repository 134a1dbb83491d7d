"""JSON: nfdump (ndjson, json), goflow2, Zeek, and objects in objects (``source.ip``), as Elastic stores flows."""

from __future__ import annotations

import json
from typing import BinaryIO

import polars as pl

from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows, blocks_of_lines
from diagnosis.kinds.flows.read.readers.column_names import plain
from diagnosis.kinds.flows.read.readers.columns import Columns
from diagnosis.model import ParseHints
from diagnosis.values.json_values import Json

#: Objects are opened so many deep.
MAX_DEPTH = 4
#: What Elastic's exports wrap a record in.
_WRAPPER = "_source."
#: A pretty-printed array must be in memory as a whole.
MAX_ARRAY_BYTES = 128 << 20


def sniff_json(head: bytes) -> str | None:
    """``json-lines``, ``json-array`` or None; only objects that look like flows count."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"{":
        first = _object(text.split(b"\n", 1)[0])
        if first is not None and _is_flow(first):
            return "json-lines"
    elif text[:1] == b"[":
        first = _first_of_array(text)
        if first is not None and _is_flow(first):
            return "json-array"
    return None


def _object(line: bytes) -> dict[str, Json] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _flatten(found) if isinstance(found, dict) else None


def _first_of_array(text: bytes) -> dict[str, Json] | None:
    try:
        found, _ = json.JSONDecoder().raw_decode(text[1:].decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return None
    return _flatten(found) if isinstance(found, dict) else None


def _is_flow(row: dict[str, Json]) -> bool:
    return Columns.fit(row)


def read_json_lines(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """One object a line; the columns are those of the first block's objects."""
    reading: Reading | None = None
    columns: Columns | None = None
    for block in blocks_of_lines(stream):
        if reading is None or columns is None:
            first = _object(block.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]) or {}
            reading = Reading(_format(first))
        table = _table(block)
        if columns is None:
            columns = Columns.of(table.columns)
        reading.lines += table.height
        before = out.dropped
        out.add(columns.normalise(table, hints.time_zone, reading))
        reading.bad_rows += out.dropped - before
        bad = max(0, sum(1 for line in block.split(b"\n") if line.strip()) - table.height)
        reading.bad_rows += bad
        reading.bad_lines += bad
    return reading or Reading("json")


def read_json_array(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """nfdump's ``-o json``: one array."""
    data = stream.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        raise UnusableFlows("A JSON array of more than 128 MB cannot be read in pieces. Export with nfdump -o ndjson.")
    try:
        found = json.loads(data)
        rows = [row for row in found if isinstance(row, dict)]
    except (ValueError, RecursionError) as error:
        raise UnusableFlows(
            f"The JSON array is damaged ({str(error)[:120]}). "
            "Export with -o ndjson, which can be read up to the damage."
        ) from error
    reading = Reading(_format(rows[0]) if rows else "json", lines=len(rows), bad_lines=len(found) - len(rows))
    reading.bad_rows = reading.bad_lines
    if rows:
        table = pl.from_dicts([_flatten(row) for row in rows], infer_schema_length=None)
        out.add(Columns.of(table.columns).normalise(table, hints.time_zone, reading))
    return reading


def _table(block: bytes) -> pl.DataFrame:
    """A block's objects; if the fast way fails, lines that are not JSON are left out one by one."""
    try:
        return _opened(pl.read_ndjson(block, infer_schema_length=1000))
    except pl.exceptions.PolarsError:
        rows = [row for line in block.split(b"\n") if (row := _object(line)) is not None]
        return pl.from_dicts(rows, infer_schema_length=None, strict=False) if rows else pl.DataFrame()


def _opened(table: pl.DataFrame) -> pl.DataFrame:
    """The table with the fields of its objects as columns, as :func:`_flatten` names them."""
    for _ in range(MAX_DEPTH):
        objects = [name for name, kind in table.schema.items() if isinstance(kind, pl.Struct)]
        table = table.unnest(objects, separator=".")
    return table.rename(lambda name: name.removeprefix(_WRAPPER))


def _flatten(row: dict[str, Json], depth: int = MAX_DEPTH) -> dict[str, Json]:
    """The values of a row, those of objects in it by dotted names; without lists."""
    flat: dict[str, Json] = {}
    for name, value in row.items():
        if isinstance(value, dict) and depth > 0:
            inside = _flatten(value, depth - 1)
            flat |= {f"{name}.{own}".removeprefix(_WRAPPER): one for own, one in inside.items()}
        elif not isinstance(value, (dict, list)):
            flat[name] = value
    return flat


def _format(row: dict[str, Json]) -> str:
    if {plain(name) for name in row} & {"timeflowstartns", "timeflowstartms", "sampleraddress"}:
        return "goflow2"
    if "id.orig_h" in row:
        return "zeek-json"
    if "src4_addr" in row or "src6_addr" in row:
        return "nfdump-ndjson"
    return "json-lines"
