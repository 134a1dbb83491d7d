"""Texts without a known format, of which few lines state a time or a level, read by their layout:
those whose form alone says that they are reports, and those without a known message or progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import filterfalse
from typing import Final

from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.logs.text.encodings import decode
from diagnosis.kinds.states import layouts
from diagnosis.kinds.states.report_sections import parse
from diagnosis.model import LOG_KINDS, Kind, Parsed, ReadRange

THRESHOLDS: Final = thresholds.of("layout_reading")

#: Bytes of a text that are read, texts of a job, and the size from which a text is no report.
MAX_BYTES: Final = 64 << 10
MAX_TEXTS: Final = 128
MAX_SIZE: Final = 1 << 20


def read_layouts(quiet: Iterable[Parsed], read: ReadRange) -> dict[str, Parsed]:
    """The quiet texts with a layout, as reports; what states times is a log. O(bytes read)."""
    return _reports(filterfalse(_is_dated, quiet), read)


def read_decided(parsed: Iterable[Parsed], read: ReadRange) -> dict[str, Parsed]:
    """The texts that are reports whatever their words say, by path. O(bytes read)."""
    logs = (one for one in parsed if one.kind in LOG_KINDS and one.lines)
    texts = (one for one in logs if one.lines <= THRESHOLDS.few_lines or not _is_log(one))
    return _reports(texts, read, layouts.is_decided)


def _is_log(parsed: Parsed) -> bool:
    return _exceeds(parsed, "headed_lines")


def _is_dated(parsed: Parsed) -> bool:
    return _exceeds(parsed, "dated_lines")


def _exceeds(parsed: Parsed, count: str) -> bool:
    """Whether so many lines are counted that the text is a log."""
    return bool(parsed.facts.get(count, parsed.lines) > THRESHOLDS.headed_share * parsed.lines)


def _any(text: str) -> bool:
    return True


def _reports(
    texts: Iterable[Parsed],
    read: ReadRange,
    is_chosen: Callable[[str], bool] = _any,
) -> dict[str, Parsed]:
    small = [one for one in texts if one.bytes <= MAX_SIZE]
    found: dict[str, Parsed] = {}
    for one in sorted(small, key=lambda text: text.path)[:MAX_TEXTS]:
        data = read(one.path, 0, MAX_BYTES)
        report = _report(one, data) if is_chosen(decode(data)) else None
        if report is not None:
            found[one.path] = report
    return found


def _report(parsed: Parsed, data: bytes) -> Parsed | None:
    report = parse(data, parsed.path)
    if not report.facts["states"]:
        return None
    cut = f"Only the first {len(data):,} of {parsed.bytes:,} bytes were read."
    notes = (*report.notes, cut) if parsed.bytes > len(data) else report.notes
    return replace(parsed, kind=Kind.STATE, notes=notes, facts=report.facts)
