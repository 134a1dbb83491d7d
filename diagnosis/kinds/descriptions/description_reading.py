"""Recognises and reads inventories and layouts: JSON objects or CSV tables with typical fields."""

from __future__ import annotations

import csv
import json
import re
from typing import Final

from diagnosis.kinds.evidence_kind import HEAD_BYTES, EvidenceFile
from diagnosis.kinds.logs.text.encodings import begin_of, decode, encoding_of
from diagnosis.model import Kind, Parsed
from diagnosis.values.json_values import Json
from diagnosis.values.plain import plain

_MAX_BYTES: Final = 64 << 20


def recognise(head: bytes, path: str) -> Kind | None:
    """The kind of a description; None for other files. O(len(head))."""
    return _structured_kind(begin_of(head[:HEAD_BYTES]), path.rsplit("/", 1)[-1].lower())


def parse(file: EvidenceFile) -> Parsed:
    """The content as facts. A file that is too large or damaged is left out with a sentence."""
    stream, kind = file.stream, file.kind
    data = stream.read_up_to(_MAX_BYTES)
    stream.drain()
    if stream.passed > len(data):
        why = f"An {kind} of {stream.passed:,} bytes is too large; at most {_MAX_BYTES >> 20} MiB are read."
        return Parsed(file.path, kind, stream.sha256, stream.passed, 0, why)
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        facts = facts_of(data)
    except ValueError as error:
        why = f"The {kind} could not be read: {error}."
        return Parsed(file.path, kind, stream.sha256, stream.passed, count, why)
    return Parsed(file.path, kind, stream.sha256, stream.passed, count, facts=facts)


def _structured_kind(text: str, name: str) -> Kind | None:
    """Job descriptions, layouts and inventories, which are JSON objects or CSV tables with typical fields."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{") and not start.startswith('{"time') and name.endswith(".json"):
        keys = set(re.findall(r'"(\w+)"\s*:', start[:20_000]))
        has_order = name.startswith("layout") or not keys.isdisjoint({"ranks", "order"})
        if has_order and keys & {"tp", "pp", "dp"} and keys.isdisjoint({"job_id", "nodes"}):
            return Kind.LAYOUT
        if ({"job_id", "jobs"} & keys and {"nodes", "hosts", "world_size"} & keys) or name == "job.json":
            return Kind.INVENTORY
        if name.startswith("layout"):
            return Kind.LAYOUT
    first = start.split("\n", 1)[0].strip().lower()
    fields = {field.strip(' "') for field in re.split(r"[,;\t]", first)}
    has_address = not fields.isdisjoint({"ip", "ip_address"})
    has_name = not fields.isdisjoint({"node", "host", "hostname", "name"})
    return Kind.INVENTORY if has_address and has_name else None


def facts_of(data: bytes) -> dict[str, Json]:
    """The content of an inventory or layout as JSON-able facts: ``{"json": {...}}`` or ``{"rows": [{...}]}``.
    Raises ``ValueError`` with a sentence.
    """
    encoding, mark = encoding_of(data)
    text = decode(data[mark:], encoding)
    if text.lstrip().startswith(("{", "[")):
        try:
            return {"json": plain(json.loads(text))}
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the file is not valid JSON ({error}); export it again") from error
    dialect = (
        ";"
        if text.split("\n", 1)[0].count(";") > text.split("\n", 1)[0].count(",")
        else "\t"
        if "\t" in text.split("\n", 1)[0]
        else ","
    )
    rows: list[Json] = [
        {(key or "").strip().lower(): (value or "").strip() for key, value in row.items() if isinstance(value, str)}
        for row in csv.DictReader(text.splitlines(), delimiter=dialect)
    ]
    return {"rows": rows}
