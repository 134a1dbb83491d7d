"""Windows on a log of any size: the column file has the positions of lines, and only their bytes are read.

Cost grows with the window, not with the file: a slice of the column file touches one or two row groups, and raw bytes
are read by range.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import polars as pl

from diagnosis import Source
from diagnosis.kinds.logs.columns.sources import PathScheme, with_scheme
from diagnosis.kinds.logs.read import headers
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from diagnosis.values import numbers
from diagnosis.values.plain import visible
from ingest import selectors as evidence
from ingest.models import Artifact
from triage.models import Diagnosis

MAX_WINDOW_LINES = 400
#: maximum number of writers in the filter
MAX_WRITERS = 200
#: longer lines are cut; the download has all of them
MAX_LINE_BYTES = 4096
#: a window whose bytes exceed this is read line by line
_MAX_SPAN = 4 << 20
#: this many lines of one template in a row fold; so many lines are read for one page of them
_MIN_FOLDED = 3
_MAX_FOLD_LINES = 50_000
#: maximum number of a job's paths that are read to see whether they number ranks or nodes
_MAX_SCHEME_PATHS = 2_000
COLUMNS = ["line", "offset", "length", "time", "source", "level", "masked"]
#: line ends within a line become visible signs
_LINE_END_SIGNS = {10: 0x240A, 13: 0x240D}
LEVELS = ("", "debug", "info", "warn", "error", "fatal")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One displayed line.

    ``cut_bytes``: omitted bytes; ``folded``: similar lines that follow hidden, ``writers`` wrote them and this line;
    ``how``: how its writer is known, in words. ``gap``: lines before this one that were not kept.
    """

    no: int
    text: str
    time: datetime | None
    who: str
    level: int
    masked: str
    cut_bytes: int = 0
    folded: int = 0
    writers: int = 1
    is_evidence: bool = False
    how: str = ""
    gap: int = 0
    #: characters of its header: time, writer, level
    header: int = 0

    @property
    def parts(self) -> tuple[str, str]:
        """The header, which a page shows less strongly, and the message. Together they are the text."""
        return self.text[: self.header], self.text[self.header :]

    @property
    def level_word(self) -> str:
        return LEVELS[self.level] if self.level < len(LEVELS) else ""


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Some lines of an artifact, and what is before and after them. ``kept``: how many lines of a condensed log there
    are; None of a whole one. ``gap_after``: lines after the last one that were not kept.
    """

    lines: list[LogLine]
    total: int
    first: int
    last: int
    evidence: list[int]
    #: names of writers in the file, for the filter
    writers: list[str] = field(default_factory=list)
    kept: int | None = None
    gap_after: int = 0

    @property
    def has_before(self) -> bool:
        return self.first > 1

    @property
    def has_after(self) -> bool:
        return self.last < self.total


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a log: minimum level, writer (part of its name), template."""

    level: int = 0
    who: str = ""
    masked: str = ""

    def __bool__(self) -> bool:
        return bool(self.level or self.who or self.masked)


def window(
    artifact: Artifact, *, start: int, count: int = MAX_WINDOW_LINES, only: Filter | None = None, fold: bool = False
) -> LogWindow:
    """``count`` lines from line ``start`` on (1-based); with a filter the first ``count`` that match it.

    With ``fold``, runs of one template become their first line and a number, and ``count`` counts rows.
    """
    written = evidence.lines_of(artifact)
    marked = evidence_lines(artifact)
    if artifact.kept_id is not None:
        return _condensed_window(artifact, start=start, count=count, only=only, marked=marked)
    if written is None:
        return _raw_window(artifact, start=start, count=count)
    total = artifact.lines
    start = max(1, min(start, total or 1))
    sources = sources_of(artifact)
    rows_from_start = stored_rows.scan(written.part(start - 1, total))
    rows_from_start = rows_from_start.filter(_filter_condition(only, start, sources)) if only else rows_from_start
    if fold:
        lines, last = _fold_rows(artifact, written, rows_from_start, count, sources, marked)
    else:
        rows = rows_from_start.select(COLUMNS).head(count).collect()
        lines = lines_of(artifact, rows, sources, frozenset(marked))
        last = lines[-1].no if len(lines) >= count else total
    names = sorted({who for source in sources if (who := writer_name(source))})[:MAX_WRITERS]
    return LogWindow(lines, total, start, last, marked, names)


def evidence_lines(artifact: Artifact) -> list[int]:
    """Numbers of the lines that the latest diagnosis names in this artifact, sorted."""
    diagnosis = Diagnosis.objects.filter(attempt=artifact.attempt_id).defer("timeline").first()
    logs = (diagnosis.report.get("logs") or {}) if diagnosis else {}
    told = [event for event in logs.get("events") or [] if event.get("role") in ("root", "cascade", "confirmation")]
    references = itertools.chain.from_iterable(event.get("lines") or [] for event in told)
    numbers = {reference.get("line") for reference in references if reference.get("file") == artifact.path}
    return sorted(number for number in numbers if isinstance(number, int))


def _filter_condition(only: Filter, start: int, sources: tuple[Source, ...]) -> pl.Expr:
    passed = pl.col("line") >= start
    if only.level:
        passed &= pl.col("level") >= only.level
    masked = numbers.whole(only.masked, digits=20)
    if masked is not None and masked < 1 << 64:
        passed &= pl.col("masked") == masked
    if only.who:
        ids = [n for n, source in enumerate(sources) if only.who.lower() in writer_name(source).lower()]
        passed &= pl.col("source").is_in(ids)
    return passed


def lines_of(
    artifact: Artifact, rows: pl.DataFrame, sources: tuple[Source, ...], marked: frozenset[int] = frozenset()
) -> list[LogLine]:
    """The rows of a column file with their bytes, in order; raises FileNotFoundError if the bytes are lost."""
    if rows.is_empty():
        return []
    data = rows.to_dicts()
    first, last = data[0]["offset"], data[-1]["offset"] + data[-1]["length"]
    block = evidence.read_range(artifact, first, last - first) if last - first <= _MAX_SPAN else None
    encoding = encoding_of(artifact)
    lines = []
    for row in data:
        begin, length = row["offset"], row["length"]
        size = min(length, MAX_LINE_BYTES)
        raw = (
            evidence.read_range(artifact, begin, size) if block is None else block[begin - first : begin - first + size]
        )
        source = sources[row["source"]] if row["source"] < len(sources) else Source()
        lines.append(
            LogLine(
                no=row["line"],
                text=visible_text(raw, encoding),
                time=datetime.fromtimestamp(row["time"] / 1e9, UTC) if row["time"] is not None else None,
                who=writer_name(source),
                how=_how_known(source),
                level=row["level"],
                masked=str(row["masked"]),
                cut_bytes=length - size,
                is_evidence=row["line"] in marked,
            )
        )
    return _with_headers(lines)


def _with_headers(lines: list[LogLine]) -> list[LogLine]:
    lengths = headers.lengths([line.text for line in lines])
    return [replace(line, header=length) for line, length in zip(lines, lengths, strict=True)]


def visible_text(raw: bytes, encoding: str = "utf-8") -> str:
    """Bytes as inactive text: control characters and those that change the direction of text become visible signs."""
    text = raw.decode(encoding, errors="replace").rstrip("\r\n").lstrip("\ufeff")
    return visible(text).translate(_LINE_END_SIGNS)


def _fold_rows(
    artifact: Artifact,
    written: Rows,
    rows_from_start: pl.LazyFrame,
    count: int,
    sources: tuple[Source, ...],
    marked: list[int],
) -> tuple[list[LogLine], int]:
    """The first ``count`` rows of ``rows_from_start``, runs of one template as one, and the last line that they cover.

    Evidence is never folded. Reads templates of all these lines, but bytes only of the displayed ones.
    """
    first_rows = rows_from_start.select("line", "masked", "source").head(_MAX_FOLD_LINES).collect()
    is_marked = pl.col("line").is_in(marked)
    is_new = pl.col("masked").ne_missing(pl.col("masked").shift()) | is_marked | is_marked.shift(fill_value=False)
    runs = (
        first_rows.with_columns(run=is_new.cum_sum())
        .group_by("run", maintain_order=True)
        .agg("line", writers=pl.col("source").n_unique())
        .head(count + 1)
        .to_dicts()
    )
    folds = {run["line"][0]: run for run in runs if len(run["line"]) >= _MIN_FOLDED}
    numbers: list[int] = []
    for run in runs:
        numbers += run["line"][:1] if run["line"][0] in folds else run["line"]
    if not numbers:
        return [], artifact.lines
    first, last = numbers[0], numbers[:count][-1]
    is_all = len(numbers) <= count and len(first_rows) < _MAX_FOLD_LINES
    end = artifact.lines if is_all else folds[last]["line"][-1] if last in folds else last
    is_chosen = pl.col("line").is_in(numbers[:count])
    rows = stored_rows.scan(written.part(first - 1, last - first + 1)).filter(is_chosen).select(COLUMNS).collect()
    return [
        replace(line, folded=len(folds[line.no]["line"]) - 1, writers=folds[line.no]["writers"])
        if line.no in folds
        else line
        for line in lines_of(artifact, rows, sources, frozenset(marked))
    ], end


def sources_of(artifact: Artifact, paths: Sequence[str] = ()) -> tuple[Source, ...]:
    """Who wrote the lines of this file, as in the diagnosis: the values of the column ``source``.

    ``paths`` are those of all the attempt's files; read if not given.
    """
    try:
        sources = evidence.parsed_of(artifact).sources
    except (OSError, ValueError):
        return ()
    if all(source.how != "path" and source.rank_how != "path" for source in sources):
        return sources
    return with_scheme(sources, PathScheme(paths or paths_of(artifact.attempt_id)))


def paths_of(attempt_id: int) -> list[str]:
    """Paths of an attempt's files, enough to see whether they number ranks or nodes."""
    alive = Artifact.objects.filter(attempt=attempt_id, is_superseded=False)
    return list(alive.values_list("path", flat=True)[:_MAX_SCHEME_PATHS])


def _how_known(source: Source) -> str:
    """How the writer of a line is known, in words."""
    if not writer_name(source):
        return ""
    words = {"path": "from the file's path", "inventory": "from the inventory"}
    node = words.get(source.how, "as the line says") if source.node else ""
    rank = words.get(source.rank_how, "as the line says") if source.rank is not None else ""
    if node and rank and node != rank:
        return f"node {node}, rank {rank}"
    return f"{'node and rank' if node and rank else 'node' if node else 'rank'} {node or rank}"


def writer_name(source: Source) -> str:
    """The name of a writer: node, rank, or both."""
    rank = f"rank {source.rank}" if source.rank is not None else ""
    return " ".join(part for part in (source.node or "", rank) if part)


def encoding_of(artifact: Artifact) -> str:
    """The encoding, by the file's first two bytes."""
    head = evidence.read_range(artifact, 0, 2)
    return {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head, "utf-8")


def _condensed_window(
    artifact: Artifact, *, start: int, count: int, only: Filter | None, marked: list[int]
) -> LogWindow:
    """The same of a condensed log: ``gap`` says how many lines are missing. Without a filter, ``count`` kept lines from
    the first one at or after ``start``.
    """
    table = evidence.kept_lines(artifact).with_columns(
        gap=pl.col("line").cast(pl.Int64) - pl.col("line").cast(pl.Int64).shift(fill_value=0) - 1
    )
    start = max(1, min(start, artifact.lines or 1))
    shown_rows = table.filter(pl.col("line") >= start)
    if only:
        passed = pl.col("level") >= only.level
        passed &= pl.col("who").str.to_lowercase().str.contains(only.who.lower(), literal=True)
        if only.masked:
            passed &= pl.col("masked").cast(pl.String) == only.masked
        shown_rows = shown_rows.filter(passed).with_columns(gap=0)
    evidence_at = frozenset(marked)
    lines = [
        LogLine(
            no=row["line"],
            text=visible_text(row["text"][:MAX_LINE_BYTES]),
            time=datetime.fromtimestamp(row["time"] / 1e9, UTC) if row["time"] is not None else None,
            who=row["who"],
            level=row["level"],
            masked=str(row["masked"]),
            cut_bytes=max(0, len(row["text"]) - MAX_LINE_BYTES),
            is_evidence=row["line"] in evidence_at,
            gap=row["gap"],
        )
        for row in shown_rows.head(count).iter_rows(named=True)
    ]
    lines = _with_headers(lines)
    names = sorted(name for name in table["who"].unique() if name)[:MAX_WRITERS]
    total, is_all = artifact.lines, len(shown_rows) <= count
    after = total - (lines[-1].no if lines else 0) if is_all and not only else 0
    last = total if is_all else lines[-1].no
    return LogWindow(lines, total, start, last, marked, names, kept=artifact.kept_lines, gap_after=after)


def _raw_window(artifact: Artifact, *, start: int, count: int) -> LogWindow:
    """The beginning of a file that is not a log, split at newlines."""
    raw = evidence.read_range(artifact, 0, 256 << 10)
    pieces = raw.split(b"\n")
    lines = [
        LogLine(n, visible_text(piece[:MAX_LINE_BYTES]), None, "", 0, "", max(0, len(piece) - MAX_LINE_BYTES))
        for n, piece in enumerate(pieces, 1)
        if start <= n < start + count
    ]
    return LogWindow(lines, len(pieces), start, lines[-1].no if lines else start, [])
