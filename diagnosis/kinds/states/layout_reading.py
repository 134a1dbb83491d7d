"""Texts without a known format, a known message, progress, a time or a level, read by their layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from diagnosis.kinds.logs.read.encodings import decode, encoding_of
from diagnosis.kinds.states import layouts
from diagnosis.kinds.states.formats import load_layouts
from diagnosis.kinds.states.report_sections import fact_of, host_of
from diagnosis.model import Kind, Parsed, ReadRange
from diagnosis.plain import counted

#: Bytes of a text that are read, texts of a job, and the size from which a text is no report.
MAX_BYTES: Final = 64 << 10
MAX_TEXTS: Final = 128
MAX_SIZE: Final = 1 << 20
_UNKNOWN: Final = "Properties that are not known conclude nothing."


def read_layouts(quiet: Iterable[Parsed], read: ReadRange) -> dict[str, Parsed]:
    """The quiet texts that have a layout, by path, as reports. What states a time, a level or a writer
    is a log. O(bytes read).
    """
    texts = sorted(filter(_may_be_report, quiet), key=lambda one: one.path)
    reports = (_report(one, read(one.path, 0, MAX_BYTES)) for one in texts[:MAX_TEXTS])
    return {one.path: one for one in reports if one is not None}


def _may_be_report(parsed: Parsed) -> bool:
    return parsed.bytes <= MAX_SIZE and not parsed.facts.get("has_headers", True)


def _report(parsed: Parsed, data: bytes) -> Parsed | None:
    encoding, mark = encoding_of(data)
    text = decode(data[mark:], encoding)
    found = layouts.entries(text)
    if not found:
        return None
    host = host_of(text, parsed.path)
    facts = [fact_of(entry, host, 1) for entry in found]
    stored = [(f.place.name, f.name, f.value, f.line, f.part) for f in facts]
    family = layouts.family_of(text, parsed.path)
    title = next(form.title for form in load_layouts() if form.id == family)
    count = counted(len(stored), "fact was", "facts were")
    note = f"No known format. Read by its layout as {title}: {count} read. {_UNKNOWN}"
    if parsed.bytes > len(data):
        note = f"{note} Only the first {len(data):,} bytes were read."
    told = {"formats": [family], "states": stored}
    return replace(parsed, kind=Kind.STATE, notes=(note,), facts=told)
