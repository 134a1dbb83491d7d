"""Reads logs: one file, several small ones together, or the ranges of a large one, which are merged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from zoneinfo import ZoneInfo

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.evidence_kind import EvidenceFile
from diagnosis.kinds.logs.columns import joined, physical, unpacked
from diagnosis.kinds.logs.columns.sources import Sources, settle_labels, unsettle_labels
from diagnosis.kinds.logs.columns.tables import combine, write_tables
from diagnosis.kinds.logs.read import lines
from diagnosis.kinds.logs.read.described import Log
from diagnosis.kinds.logs.read.prepared import prepare_files
from diagnosis.kinds.logs.read.reader import MAX_MESSAGES, LogReader
from diagnosis.kinds.logs.rows import occurrences
from diagnosis.kinds.logs.text import encodings
from diagnosis.kinds.logs.unread_forms import HEAD_BYTES, form_of
from diagnosis.kinds.logs.unwrap import exported, logfmt, wrapped
from diagnosis.model import Parsed, Part, Source
from diagnosis.processing.checked_stream import CheckedStream

LIMITS: Final = thresholds.limits("log_parsing")
#: A log with more lines than this is counted when it is read, which spares its diagnosis from reading all of them.
MIN_COUNTED_LINES = 1 << 17
#: Ranges whose messages and counts are joined at a time.
_RANGES_AT_A_TIME = 32
_MERGED_MESSAGES = (
    "The log has very many different messages, so further ones were counted by their first words only. Warnings, "
    "errors and codes were kept longest. All lines can be read."
)
_MANY_LINES = "The log has far more lines than text, most of them empty: only the first {count:,} lines were read."
_LONG_LINES = (
    f"Of lines longer than {lines.LINE_BYTES:,} bytes only the beginning and the end were read. All can be shown."
)
_LARGE_DOCUMENT = (
    f"The export is larger than {exported.MAX_BYTES >> 20} MB: it was read line by line, "
    "not record by record. Export it as one record a line, or in parts."
)


def parse_log(file: EvidenceFile) -> Parsed:
    """The lines of a log or of one range of it. Writes ``columns.parquet`` and ``uniques.parquet`` below ``work``.
    Memory is bounded by the block size; linear in bytes.
    """
    tee, head, path, hints, work = file.stream, file.head, file.path, file.hints, file.work
    notes: list[str] = []
    encoding, mark = encodings.encoding_of(head)
    is_wrapped = _is_wrapped(head[mark:], encoding, notes)
    mark = 0 if hints.offset else mark
    if encoding != "utf-8":
        notes.append(f"The text is {encoding.upper()}; byte offsets count the original bytes.")
    tee.read(mark)
    reader = LogReader([Sources(path, hints.node)], work, time_zone=time_zone(hints.time_zone, notes))
    stream = cast("BinaryIO", tee)
    begin = hints.offset + mark
    blocks = lines.blocks(stream, encoding=encoding, offset=begin, is_wrapped=is_wrapped)
    reader.read(_within_budget(blocks, reader, tee))
    if next(blocks, None) is not None:
        notes.append(_MANY_LINES.format(count=reader.logs[0].lines))
        tee.drain()
    if tee.broke:
        notes.append(tee.broken_off())
    is_large = is_wrapped and tee.passed > exported.MAX_BYTES
    if is_large and exported.begins(encodings.decode(head[mark:], encoding)):
        notes.append(_LARGE_DOCUMENT)
    is_range = hints.offset > 0 or (hints.bytes_total or 0) > tee.passed  # is joined without its lines
    reader.logs[0].is_whole = not is_range
    columns, uniques = reader.finish()
    parsed = Parsed(path, file.kind, tee.sha256, tee.passed, columns=columns, uniques=uniques)
    parsed = _described_log(parsed, reader.logs[0], notes, encoding, head[mark : mark + HEAD_BYTES])
    parsed.facts["ends"] = reader.ends().stored()
    if is_wrapped:
        physical.store(parsed)
    if (parsed.lines < MIN_COUNTED_LINES and not is_range) or not _has_final_times(parsed):
        return parsed
    return occurrences.store_counts(parsed, occurrences.counts_of(parsed), work / "cells.parquet")


def _within_budget(blocks: Iterator[lines.Block], reader: LogReader, tee: CheckedStream) -> Iterator[lines.Block]:
    """The blocks up to the one after which the log has more lines than its bytes may make: an
    empty line costs as much as any other.
    """
    for block in blocks:
        yield block
        if reader.logs[0].lines > LIMITS.lines + tee.passed // LIMITS.line_bytes:
            return


def _has_final_times(log: Parsed) -> bool:
    """Whether no other file or range can move its times: the year of stamps without one comes from the whole job."""
    return not log.facts["has_yearless"]


class SmallLog(msgspec.Struct):
    """A plain log (:func:`diagnosis.files.recognise.log_kind`, ``lines.is_plain``, not empty) that is read with others.
    ``data`` is gone once it is joined with theirs.
    """

    path: str
    kind: str
    data: bytes
    node: str | None
    work: Path


def parse_together(logs: Sequence[SmallLog], zone: str, *, is_brief: bool = False) -> list[Parsed]:
    """:func:`parse` of several small logs, whose lines are read as one block and whose tables are
    written together into the ``work`` of the first. Raises ``ValueError`` if one has too many
    messages. ``is_brief``: the tables are removed after the diagnosis, so that of lines is packed
    only where it would need more room than the logs.
    """
    notes: list[str] = []
    reader = LogReader([Sources(log.path, log.node) for log in logs], logs[0].work, time_zone=time_zone(zone, notes))
    digests: list[tuple[str, int]] = []
    heads: list[bytes] = []

    def taken(log: SmallLog) -> bytes:
        data, log.data = log.data, b""
        heads.append(data[:HEAD_BYTES])
        digests.append((hashlib.sha256(data).hexdigest(), len(data)))
        return data

    reader.take(prepare_files(map(taken, logs), reader.time_zone))
    if any(told.messages > MAX_MESSAGES for told in reader.logs):
        raise ValueError("a log with many different messages is read alone")
    reader.work.mkdir(parents=True, exist_ok=True)
    rows, sizes = reader.columns(), [told.lines for told in reader.logs]
    bases = list(accumulate((len(told.sources.all) for told in reader.logs), initial=0))
    counts, edges = occurrences.of_rows(rows, sizes, bases[:-1])
    tables = {"uniques": reader.uniques(), "cells": counts}
    if is_brief and rows.height * unpacked.ROW_BYTES <= sum(size for _, size in digests):
        columns = unpacked.write(rows, reader.work)
        uniques, counted = write_tables(tables, reader.work)
    else:
        columns, uniques, counted = write_tables({"columns": rows, **tables}, reader.work)
    years = occurrences.years(rows, sizes)
    found, line, message = [], 0, 0
    for number, (log, told) in enumerate(zip(logs, reader.logs, strict=True)):
        part = Part(number, line, message, told.messages)
        parsed = Parsed(
            log.path, log.kind, *digests[number], columns=columns, uniques=uniques, occurrences=counted, part=part
        )
        parsed = _described_log(parsed, told, notes, "utf-8", heads[number])
        parsed.facts.update(edges=list(edges[number]), stamps=years[number])
        found.append(parsed)
        line, message = line + told.lines, message + told.messages
    return found


def _described_log(parsed: Parsed, log: Log, notes: Sequence[str], encoding: str, head: bytes) -> Parsed:
    """``parsed`` with the facts of its lines; ``head``: its first bytes."""
    folded = (_MERGED_MESSAGES,) if log.folded_lines else ()
    long = (_LONG_LINES,) if log.has_long else ()
    since = (_since_boot(log.since_boot, log.boot),) if log.since_boot else ()
    facts: dict[str, Any] = {
        "encoding": encoding,
        "source_lines": log.counts,
        "year": log.year,
        "has_yearless": log.has_yearless,
        "is_undated": log.of_day > 0 and not log.has_dates,
        "used_year": log.used_year,
        "folded_lines": log.folded_lines,
        "has_headers": log.headed_lines > 0,
        "headed_lines": log.headed_lines,
        "dated_lines": log.dated_lines,
    }
    if not log.headed_lines:
        facts["form"] = form_of(encodings.decode(head[: len(head) - len(head) % 2], encoding))
    sources = settle_labels(log.sources.all, log.counts)
    return replace(parsed, lines=log.lines, notes=(*notes, *folded, *long, *since), sources=sources, facts=facts)


def _is_wrapped(head: bytes, encoding: str, notes: list[str]) -> bool:
    text = encodings.decode(head[: len(head) - len(head) % 2 if encoding != "utf-8" else None], encoding)
    if not wrapped.is_wrapped(text):
        return False
    if logfmt.is_logfmt(text.split("\n", 1)[:1]):
        return True
    notes.append(
        "The log is an export of the journal; each record's message, time and host were read."
        if wrapped.is_export(text)
        else "Each line is a JSON object; its message, time, level and host were read."
        if text.lstrip().startswith('{"')
        else _told_of(text)
    )
    return True


def _told_of(text: str) -> str:
    """What is said of a log that begins so, whose lines are no objects."""
    if exported.begins(text):
        return "The file is an export; the time, the text or the step of each record was read."
    return "A collector put names before each line; they were read as its machine and rank."


def _since_boot(count: int, boot: int | None) -> str:
    told = f"{count:,} {'line states' if count == 1 else 'lines state'} seconds since boot only"
    if boot is None:
        return f"{told}, and no line states the time of the boot: they have no time. Take the log with dmesg -T."
    return f"{told}; they were dated by lines that also state the time of day."


def time_zone(name: str, notes: list[str]) -> str:
    """A zone name that polars accepts; falls back to UTC with a note."""
    if name in ("", "UTC"):
        return "UTC"
    try:
        ZoneInfo(name)
        pl.Series([0]).cast(pl.Datetime("ns")).dt.replace_time_zone(name)
    except Exception:  # zoneinfo and polars raise different types for the same thing
        notes.append(f"The time zone {name!r} is not known; UTC was used. Give a name such as Europe/Berlin.")
        return "UTC"
    return name


def merge(parts: Sequence[Parsed], work: Path, files: Sequence[str] | None = None) -> Parsed:
    """Joins consecutive byte ranges of one plain file, in order, without their lines: the columns of each stay where
    they are, or will be in ``files``, seen from where the result will be (:mod:`joined`). Associative;
    raises ``ValueError`` for no parts or parts that are no ranges. Memory: messages and counts of some ranges.
    """
    if not parts or not all(map(_is_range, parts)):
        raise ValueError("only the parsed ranges of one log can be merged, at least one")
    if len(parts) == 1:
        return parts[0]
    work.mkdir(parents=True, exist_ok=True)
    year = _first_stated(parts, "year")
    target = year or _first_stated(parts, "used_year")
    is_counted = all(map(_has_final_times, parts))
    sources = _JoinedSources()
    tables: list[pl.DataFrame] = []
    ranges: list[joined.Range] = []
    counts: list[occurrences.Counts] = []
    before = 0
    for part_number, part in enumerate(parts):
        assert part.columns is not None and part.uniques is not None
        remap = sources.add(part)
        file = files[part_number] if files else _seen_from(work, part.columns)
        ranges += joined.ranges_of(part, file, remap)
        if is_counted:
            counts.append(occurrences.with_sources(occurrences.counts_of(part), remap))
        tables.append(pl.read_parquet(part.uniques).with_columns(pl.col("first_line") + before))
        before += part.lines
        if len(tables) == _RANGES_AT_A_TIME:
            tables = [combine(tables)]
            counts = _join(counts)
    columns, uniques = work / joined.NAME, work / "uniques.parquet"
    joined.write(ranges, len(sources.lines), target, columns)
    combine(tables).write_parquet(uniques)
    facts = {
        **parts[0].facts,
        "source_lines": sources.lines,
        "year": year,
        "has_yearless": not is_counted,
        "used_year": None if is_counted else target,
        "folded_lines": sum(_each(parts, "folded_lines", 0)),
        "has_headers": any(_each(parts, "has_headers", True)),
        "headed_lines": sum(part.facts.get("headed_lines", part.lines) for part in parts),
        "dated_lines": sum(part.facts.get("dated_lines", part.lines) for part in parts),
    }
    facts.pop("ends", None)
    merged = Parsed(
        path=parts[0].path,
        kind=parts[0].kind,
        bytes=sum(part.bytes for part in parts),
        lines=before,
        notes=tuple(dict.fromkeys(chain.from_iterable(part.notes for part in parts))),
        sources=settle_labels(list(sources.places), sources.lines),
        facts=facts,
        columns=columns,
        uniques=uniques,
    )
    if not is_counted:
        return merged
    return occurrences.store_counts(merged, occurrences.join_counts(counts), work / "cells.parquet")


def _each(parts: Sequence[Parsed], name: str, otherwise: Any) -> list[Any]:
    """What each range states under a name."""
    return [part.facts.get(name, otherwise) for part in parts]


def _is_range(part: Parsed) -> bool:
    return part.columns is not None and part.uniques is not None


def _first_stated(parts: Sequence[Parsed], name: str) -> Any:
    return next((part.facts[name] for part in parts if part.facts.get(name)), None)


def _seen_from(work: Path, columns: Path) -> str:
    return os.path.relpath(columns.resolve(), work.resolve())


def _join(counts: list[occurrences.Counts]) -> list[occurrences.Counts]:
    return [occurrences.join_counts(counts)] if counts else []


class _JoinedSources:
    """The writers of consecutive ranges, each once, and how many lines each has."""

    def __init__(self) -> None:
        self.places: dict[Source, int] = {}
        self.lines: list[int] = []

    def add(self, part: Parsed) -> list[int]:
        """Count the lines of a range; returns the place of each of its writers."""
        remap = []
        for source, count in zip(part.sources, part.facts["source_lines"], strict=True):
            place = self.places.setdefault(unsettle_labels(source), len(self.places))
            if place == len(self.lines):
                self.lines.append(0)
            self.lines[place] += count
            remap.append(place)
        return remap
