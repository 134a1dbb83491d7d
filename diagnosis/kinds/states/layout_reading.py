"""Texts without a known format, a known message or progress, of which few lines state a time or a
level, read by their layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from diagnosis.kinds.states.report_sections import parse
from diagnosis.model import Kind, Parsed, ReadRange

#: Bytes of a text that are read, texts of a job, and the size from which a text is no report.
MAX_BYTES: Final = 64 << 10
MAX_TEXTS: Final = 128
MAX_SIZE: Final = 1 << 20
#: The share of lines of a report that state a time, a level or a writer.
_MAX_HEADED_SHARE: Final = 0.34


def read_layouts(quiet: Iterable[Parsed], read: ReadRange) -> dict[str, Parsed]:
    """The quiet texts that have a layout, by path, as reports. What states times, levels or writers
    is a log. O(bytes read).
    """
    texts = sorted(filter(_may_be_report, quiet), key=lambda one: one.path)
    reports = (_report(one, read(one.path, 0, MAX_BYTES)) for one in texts[:MAX_TEXTS])
    return {one.path: one for one in reports if one is not None}


def _may_be_report(parsed: Parsed) -> bool:
    headed = parsed.facts.get("headed_lines", parsed.lines)
    is_log = headed > _MAX_HEADED_SHARE * parsed.lines
    return (parsed.bytes > MAX_SIZE, is_log) == (False, False)


def _report(parsed: Parsed, data: bytes) -> Parsed | None:
    report = parse(data, parsed.path)
    if not report.facts["states"]:
        return None
    cut = f"Only the first {len(data):,} of {parsed.bytes:,} bytes were read."
    notes = (*report.notes, cut) if parsed.bytes > len(data) else report.notes
    return replace(parsed, kind=Kind.STATE, notes=notes, facts=report.facts)
