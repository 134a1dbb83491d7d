"""Windows on a log of any size: the column file tells where lines lie, only their bytes are read.

Cost follows the window, never the file: a slice of the column file touches one or two row groups, and the raw bytes
come by range.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from diagnosis import Source
from diagnosis import parsed as parsed_files
from ingest import selectors as evidence
from ingest import storage
from ingest.models import Artifact
from triage.models import Diagnosis

WINDOW = 400
#: longer lines are shown cut; the rest is a download away
MAX_LINE_BYTES = 4096
#: a window whose bytes exceed this is read line by line
_MAX_SPAN = 4 << 20
FIND_CHUNK = 64 << 20
FIND_LIMIT = 200
#: runs of one template at least this long fold
_FOLD_FROM = 3
_COLUMNS = ["line", "offset", "length", "time", "source", "level", "masked"]
_LEVELS = ("", "debug", "info", "warn", "error", "fatal")
#: control characters as visible symbols; tab stays
_SHOWN = {code: 0x2400 + code for code in range(32) if code != 9} | {127: 0x2421}
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as shown. ``cut_bytes``: how many are not; ``folded``: how many like it follow unseen."""

    no: int
    text: str
    time: datetime | None
    who: str
    level: int
    masked: str
    cut_bytes: int = 0
    folded: int = 0
    is_evidence: bool = False

    @property
    def level_word(self) -> str:
        return _LEVELS[self.level] if self.level < len(_LEVELS) else ""


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Some lines of an artifact, and what stands before and after."""

    lines: list[LogLine]
    total: int
    first: int
    last: int
    evidence: list[int]

    @property
    def has_before(self) -> bool:
        return self.first > 1

    @property
    def has_after(self) -> bool:
        return self.last < self.total


@dataclass(frozen=True, slots=True)
class Filter:
    """What of a log is shown: a least level, a writer (part of its name), a template."""

    level: int = 0
    who: str = ""
    masked: str = ""

    def __bool__(self) -> bool:
        return bool(self.level or self.who or self.masked)


def window(
    artifact: Artifact, *, start: int, count: int = WINDOW, only: Filter | None = None, fold: bool = False
) -> LogWindow:
    """``count`` lines from line ``start`` on (1-based); with a filter the first ``count`` that pass it."""
    columns = evidence.columns_path(artifact)
    marked = evidence_lines(artifact)
    if columns is None:
        return _raw_window(artifact, start=start, count=count)
    table = pl.scan_parquet(columns)
    total = artifact.lines
    start = max(1, min(start, total or 1))
    sources = _sources(artifact)
    if only:
        rows = _filtered(table, start, count, only, sources)
    else:
        rows = table.slice(start - 1, count).select(_COLUMNS).collect()
    lines = _lines(artifact, rows, sources, frozenset(marked))
    last = lines[-1].no if lines else start
    if only and len(lines) < count:
        last = total
    return LogWindow(
        _folded(lines) if fold else lines, total, lines[0].no if lines and not only else start, last, marked
    )


def evidence_lines(artifact: Artifact) -> list[int]:
    """Line numbers that the latest diagnosis names in this artifact, sorted."""
    found = Diagnosis.objects.filter(attempt=artifact.attempt_id).defer("timeline").first()
    logs = (found.report.get("logs") or {}) if found else {}
    numbers = {
        ref.get("line")
        for event in logs.get("events") or []
        if event.get("role") in ("root", "cascade", "confirmation")
        for ref in event.get("lines") or []
        if ref.get("file") == artifact.path
    }
    return sorted(number for number in numbers if isinstance(number, int))


def find(artifact: Artifact, words: str, *, offset: int = 0) -> dict[str, Any]:
    """Lines that hold ``words`` (any case) in the next FIND_CHUNK bytes; ``next``: where to go on, or None."""
    size = artifact.blob.size_bytes
    needle = words.encode().lower()
    if not needle:
        return {"lines": [], "next": None, "done": size, "size": size}
    chunk = evidence.read_range(artifact, offset, FIND_CHUNK + len(needle))
    low, at = chunk.lower(), -1
    hits: list[int] = []
    while len(hits) < FIND_LIMIT and (at := low.find(needle, at + 1)) >= 0:
        hits.append(offset + at)
        end = low.find(b"\n", at)
        at = len(low) if end < 0 else end
    full = len(hits) >= FIND_LIMIT
    after = hits[-1] + 1 if full else offset + FIND_CHUNK
    is_end = not full and offset + FIND_CHUNK >= size
    return {
        "lines": _line_numbers(artifact, hits),
        "next": None if is_end else after,
        "done": min(after, size),
        "size": size,
    }


def same_instant(
    job_artifacts: list[Artifact], moment: datetime, *, within_s: float = 2.0, each: int = 4
) -> list[dict[str, Any]]:
    """For every log of the attempt the lines within ``within_s`` seconds of ``moment``, at most ``each``."""
    centre = int(moment.timestamp() * 1e9)
    reach = int(within_s * 1e9)
    found = []
    for artifact in job_artifacts:
        columns = evidence.columns_path(artifact)
        if columns is None:
            continue
        near = pl.scan_parquet(columns).filter(pl.col("time").is_between(centre - reach, centre + reach))
        rows = near.select(_COLUMNS).head(each).collect()
        if len(rows):
            found.append({"artifact": artifact, "lines": _lines(artifact, rows, _sources(artifact), frozenset())})
    return found


def _filtered(table: pl.LazyFrame, start: int, count: int, only: Filter, sources: tuple[Source, ...]) -> pl.DataFrame:
    passed = pl.col("line") >= start
    if only.level:
        passed &= pl.col("level") >= only.level
    if only.masked.isdigit():
        passed &= pl.col("masked") == int(only.masked)
    if only.who:
        ids = [n for n, source in enumerate(sources) if only.who.lower() in _who(source).lower()]
        passed &= pl.col("source").is_in(ids)
    return table.filter(passed).select(_COLUMNS).head(count).collect()


def _lines(
    artifact: Artifact, rows: pl.DataFrame, sources: tuple[Source, ...], marked: frozenset[int]
) -> list[LogLine]:
    if rows.is_empty():
        return []
    data = rows.to_dicts()
    first, last = data[0]["offset"], data[-1]["offset"] + data[-1]["length"]
    block = evidence.read_range(artifact, first, last - first) if last - first <= _MAX_SPAN else None
    encoding = _encoding(artifact)
    lines = []
    for row in data:
        begin, length = row["offset"], row["length"]
        kept = min(length, MAX_LINE_BYTES)
        raw = (
            evidence.read_range(artifact, begin, kept) if block is None else block[begin - first : begin - first + kept]
        )
        who = _who(sources[row["source"]]) if row["source"] < len(sources) else ""
        lines.append(
            LogLine(
                no=row["line"],
                text=shown(raw, encoding),
                time=datetime.fromtimestamp(row["time"] / 1e9, UTC) if row["time"] is not None else None,
                who=who,
                level=row["level"],
                masked=str(row["masked"]),
                cut_bytes=length - kept,
                is_evidence=row["line"] in marked,
            )
        )
    return lines


def shown(raw: bytes, encoding: str = "utf-8") -> str:
    """Bytes as text in which nothing acts: control and direction-changing characters become visible signs."""
    text = raw.decode(encoding, errors="replace").rstrip("\r\n").lstrip("\ufeff")
    return _BIDI.sub("\ufffd", text.translate(_SHOWN))


def _folded(lines: list[LogLine]) -> list[LogLine]:
    """Runs of one template become their first line and a count; evidence is never folded away."""
    kept: list[LogLine] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and lines[end].masked == lines[at].masked and not lines[end].is_evidence:
            end += 1
        if end - at >= _FOLD_FROM:
            kept.append(replace(lines[at], folded=end - at - 1))
        else:
            kept.extend(lines[at:end])
        at = end
    return kept


def _sources(artifact: Artifact) -> tuple[Source, ...]:
    work = Path(tempfile.gettempdir()) / "faultline-columns"
    try:
        folder = storage.directory_get(artifact.parsed_key, (parsed_files.NAME,), work)
        return parsed_files.load(folder).sources
    except (OSError, ValueError):
        return ()


def _who(source: Source) -> str:
    rank = f"rank {source.rank}" if source.rank is not None else ""
    return " ".join(part for part in (source.node or "", rank) if part)


def _encoding(artifact: Artifact) -> str:
    head = evidence.read_range(artifact, 0, 2)
    return {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head, "utf-8")


def _line_numbers(artifact: Artifact, offsets: list[int]) -> list[dict[str, Any]]:
    columns = evidence.columns_path(artifact)
    if not offsets or columns is None:
        return []
    wanted = pl.DataFrame({"at": offsets}, schema={"at": pl.UInt64}).sort("at").lazy()
    low, high = offsets[0], offsets[-1]
    near = pl.scan_parquet(columns).select(["line", "offset", "length"])
    near = near.filter((pl.col("offset") + pl.col("length") >= low) & (pl.col("offset") <= high))
    rows = wanted.join_asof(near.set_sorted("offset"), left_on="at", right_on="offset", strategy="backward").collect()
    found = []
    for row in rows.unique("line", keep="first", maintain_order=True).to_dicts():
        if row["line"] is not None:
            raw = evidence.read_range(artifact, max(row["offset"], row["at"] - 80), min(row["length"], 240))
            found.append({"line": row["line"], "text": shown(raw)})
    return found


def _raw_window(artifact: Artifact, *, start: int, count: int) -> LogWindow:
    """The beginning of a file that was not read as a log, split at newlines."""
    raw = evidence.read_range(artifact, 0, 256 << 10)
    pieces = raw.split(b"\n")
    lines = [
        LogLine(n, shown(piece[:MAX_LINE_BYTES]), None, "", 0, "", max(0, len(piece) - MAX_LINE_BYTES))
        for n, piece in enumerate(pieces, 1)
        if start <= n < start + count
    ]
    return LogWindow(lines, len(pieces), start, lines[-1].no if lines else start, [])
