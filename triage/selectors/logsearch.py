"""Searches logs for words or a pattern: first their distinct messages, which are few, then their bytes, step by step.

A pattern has the syntax of Rust's regex crate, whose time is linear in the text for every pattern.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.stored_rows import Rows
from ingest import selectors as evidence
from ingest.models import Artifact
from triage.selectors.logs import LEVELS, encoding_of, visible_text

FIND_CHUNK_BYTES = 64 << 20
#: a pattern is searched in smaller parts: each line becomes a string
PATTERN_CHUNK_BYTES = 8 << 20
#: only this many bytes of a longer line are searched
MAX_LINE = 1 << 20
MAX_FOUND = 200
MAX_TEMPLATES = 40
#: one step through many files answers after this time
STEP_S = 2.0
MAX_PATTERN = 300
#: maximum product of all counted repetitions of a pattern: time is linear in the text, times this
MAX_REPEATS = 1000
_OF_ROWS = {"end": pl.Int64, "begin": pl.Int64, "place": pl.UInt32}
_REPETITION = re.compile(r"\{([0-9]+)?(?:,([0-9]+)?)?\}")


class UnreadablePattern(ValueError):
    """An invalid pattern; the message is for its author."""


@dataclass(frozen=True, slots=True)
class TextSearch:
    """The search, ignoring case: literal ``words``, or a regular expression."""

    words: str
    is_pattern: bool = False

    @property
    def pattern(self) -> str:
        return f"(?i){self.words}" if self.is_pattern else f"(?i){re.escape(self.words)}"

    def check(self) -> TextSearch:
        """Itself; raises UnreadablePattern with what is wrong."""
        if not self.is_pattern:
            return self
        if len(self.words) > MAX_PATTERN:
            raise UnreadablePattern(f"The pattern has more than {MAX_PATTERN} characters: shorten it.")
        repeats = 1
        for low, high in _REPETITION.findall(self.words):
            repeats *= max(1, int(low or 0), int(high or 0))
        if repeats > MAX_REPEATS:
            raise UnreadablePattern(
                f"The pattern repeats up to {repeats:,} times, at most {MAX_REPEATS:,} are allowed."
            )
        try:
            pl.Series([""]).str.contains(self.pattern)
        except PolarsError as error:
            lines = str(error).splitlines()
            why = next((line.removeprefix("error:").strip() for line in lines if line.startswith("error:")), "")
            why = f" ({why})" if why else ""
            raise UnreadablePattern(
                f"The pattern cannot be read{why}. Look-around and back-references are not of this dialect; a \\ "
                "before a sign makes it literal."
            ) from error
        return self

    def test(self, column: str) -> pl.Expr:
        """Whether a text contains it."""
        if self.is_pattern:
            return pl.col(column).str.contains(self.pattern)
        return pl.col(column).str.to_lowercase().str.contains(self.words.lower(), literal=True)


@dataclass(frozen=True, slots=True)
class Template:
    """One masked message: its text, its number of lines, its first line, its number of files."""

    masked: str
    text: str
    example: str
    count: int
    level_word: str
    first_line: int
    path: str = ""
    files: int = 1


@dataclass(frozen=True, slots=True)
class Templates:
    """Matching messages, the most frequent first, and how many more there are."""

    rows: list[Template]
    total: int
    lines: int

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def templates_of(artifacts: Sequence[Artifact], text_search: TextSearch | None = None) -> Templates:
    """Messages whose text or first line matches ``text_search``; all without it. Cost grows with their number."""
    table = _messages_of(artifacts)
    if table is None:
        return Templates([], 0, 0)
    if text_search is not None and text_search.words:
        table = table.filter(text_search.test("text") | text_search.test("example"))
    matching = (
        table.sort(["count", "place"], descending=[True, False])
        .group_by("masked", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in ("text", "example", "first_line", "place")),
            pl.col("count").sum(),
            pl.col("level").max(),
            files=pl.len(),
        )
        .sort(["count", "first_line"], descending=[True, False])
        .collect()
    )
    rows = [
        Template(
            masked=str(row["masked"]),
            text=visible_text(row["text"].encode()),
            example=visible_text(row["example"].encode()),
            count=row["count"],
            level_word=LEVELS[row["level"]] if row["level"] < len(LEVELS) else "",
            first_line=row["first_line"],
            path=artifacts[row["place"]].path,
            files=row["files"],
        )
        for row in matching.head(MAX_TEMPLATES).to_dicts()
    ]
    return Templates(rows, len(matching), int(matching["count"].sum()))


def _messages_of(artifacts: Sequence[Artifact]) -> pl.LazyFrame | None:
    """The distinct messages of these files, with the ``place`` of each one's file among them; None if there are none.
    Tables that several files have in common are read once.
    """
    runs: dict[Path, list[tuple[int, Rows]]] = {}
    places = {artifact.pk: place for place, artifact in enumerate(artifacts)}
    for artifact, rows in evidence.messages_of(artifacts):
        runs.setdefault(rows.file, []).append((places[artifact.pk], rows))
    own = {str(file): several[0][0] for file, several in runs.items() if several[0][1].first is None}
    columns = ("masked", "text", "example", "count", "level", "first_line", "place")
    tables: list[pl.LazyFrame] = []
    if own:
        place = pl.col("stored").replace_strict(own, default=None, return_dtype=pl.UInt32)
        table = pl.scan_parquet(list(own), include_file_paths="stored")
        tables.append(table.with_columns(place=place).select(columns))
    for file, several in runs.items():
        if str(file) not in own:
            tables.append(_common(file, several).select(columns))
    return pl.concat(tables) if tables else None


def _common(file: Path, several: Sequence[tuple[int, Rows]]) -> pl.LazyFrame:
    """The messages of these files from the table that they have in common."""
    ends = {"end": [rows.end for _, rows in several], "begin": [rows.first for _, rows in several]}
    owners = pl.LazyFrame({**ends, "place": [place for place, _ in several]}, schema_overrides=_OF_ROWS).sort("end")
    table = pl.scan_parquet(file, row_index_name="row").with_columns(pl.col("row").cast(pl.Int64))
    joined = table.join_asof(owners, left_on="row", right_on="end", strategy="forward", allow_exact_matches=False)
    return joined.filter(pl.col("row") >= pl.col("begin"))


def find(artifact: Artifact, text_search: TextSearch, *, offset: int = 0) -> dict[str, Any]:
    """Lines that match ``text_search`` in the next bytes of a file; ``next``: where to continue, or None."""
    size = artifact.blob.size_bytes
    if not text_search.words:
        return {"lines": [], "next": None, "done": size, "size": size}
    if artifact.kept_id is not None:
        return {"lines": _find_in_condensed(artifact, text_search), "next": None, "done": size, "size": size}
    hits, next_offset = (_find_pattern if text_search.is_pattern else _find_words)(artifact, text_search, offset)
    is_end = next_offset >= size
    return {
        "lines": _line_numbers(artifact, hits),
        "next": None if is_end else next_offset,
        "done": min(next_offset, size),
        "size": size,
    }


def find_in_all(artifacts: Sequence[Artifact], text_search: TextSearch, *, cursor: str = "") -> dict[str, Any]:
    """The same through many files, in their order, until FIND_LIMIT lines or STEP_S seconds; lines have their ``path``.

    ``cursor`` is ``next`` of the step before: the id of an artifact and an offset in it. A file with lost bytes is
    skipped and listed in ``lost``.
    """
    began = time.monotonic()
    number, _, text = cursor.partition(":")
    places = {str(artifact.pk): n for n, artifact in enumerate(artifacts)}
    at = places.get(number, 0)
    offset = int(text) if text.isdecimal() and len(text) < 18 and number in places else 0
    sizes = [artifact.blob.size_bytes for artifact in artifacts]
    lines: list[dict[str, Any]] = []
    lost: list[str] = []
    while at < len(artifacts) and len(lines) < MAX_FOUND and time.monotonic() - began < STEP_S:
        artifact = artifacts[at]
        try:
            step = find(artifact, text_search, offset=offset)
        except FileNotFoundError:
            lost.append(artifact.path)
            step = {"lines": [], "next": None}
        lines += [{**row, "path": artifact.path} for row in step["lines"]]
        at, offset = (at + 1, 0) if step["next"] is None else (at, step["next"])
    is_end = at >= len(artifacts)
    return {
        "lines": lines,
        "next": None if is_end else f"{artifacts[at].pk}:{offset}",
        "done": sum(sizes[:at]) + offset,
        "size": sum(sizes),
        "lost": lost,
    }


def _find_in_condensed(artifact: Artifact, text_search: TextSearch) -> list[dict[str, Any]]:
    """The first kept lines of a condensed log that match ``text_search``."""
    lines = evidence.kept_lines(artifact)
    texts = pl.Series([visible_text(raw[:MAX_LINE]) for raw in lines["text"]], dtype=pl.String)
    is_hit = texts.str.contains(text_search.pattern)
    rows = zip(lines["line"].filter(is_hit), texts.filter(is_hit), strict=True)
    return [{"line": line, "text": text[:240]} for line, text in itertools.islice(rows, MAX_FOUND)]


def _find_words(artifact: Artifact, text_search: TextSearch, offset: int) -> tuple[list[int], int]:
    """Positions of the words, one per line, and how far it searched."""
    needle = text_search.words.encode(encoding_of(artifact)).lower()
    low, at = evidence.read_range(artifact, offset, FIND_CHUNK_BYTES + len(needle)).lower(), -1
    hits: list[int] = []
    while len(hits) < MAX_FOUND and (at := low.find(needle, at + 1)) >= 0:
        hits.append(offset + at)
        end = low.find(b"\n", at)
        at = len(low) if end < 0 else end
    return hits, hits[-1] + 1 if len(hits) >= MAX_FOUND else offset + FIND_CHUNK_BYTES


def _find_pattern(artifact: Artifact, text_search: TextSearch, offset: int) -> tuple[list[int], int]:
    """Starts of the matching lines, and how far it searched: to the end of a line if possible."""
    chunk = evidence.read_range(artifact, offset, PATTERN_CHUNK_BYTES)
    size, encoding = artifact.blob.size_bytes, encoding_of(artifact)
    newline = "\n".encode(encoding)
    end = len(chunk) if offset + len(chunk) >= size else chunk.rfind(newline) + len(newline)
    if end < len(newline):
        end = len(chunk)  # one line is longer than the chunk
    begins, texts, at = [], [], 0
    for raw in chunk[:end].split(newline):
        begins.append(at)
        texts.append(raw[:MAX_LINE].decode(encoding, "replace"))
        at += len(raw) + len(newline)
    matching = pl.Series(texts).str.contains(text_search.pattern).arg_true().to_list()
    hits = [offset + begins[n] for n in matching[:MAX_FOUND]]
    # do not search the line of the last hit again
    full = len(matching) > MAX_FOUND
    return hits, offset + (begins[matching[MAX_FOUND]] if full else max(end, 1))


def _line_numbers(artifact: Artifact, offsets: list[int]) -> list[dict[str, Any]]:
    lines = evidence.lines_of(artifact)
    if not offsets or lines is None:
        return []
    starts = pl.DataFrame({"at": offsets}, schema={"at": pl.UInt64}).sort("at").lazy()
    low, high = offsets[0], offsets[-1]
    rows_in_range = stored_rows.scan(lines).select(["line", "offset", "length"])
    rows_in_range = rows_in_range.filter((pl.col("offset") + pl.col("length") >= low) & (pl.col("offset") <= high))
    rows = starts.join_asof(
        rows_in_range.set_sorted("offset"), left_on="at", right_on="offset", strategy="backward"
    ).collect()
    hits = []
    encoding = encoding_of(artifact)
    for row in rows.unique("line", keep="first", maintain_order=True).to_dicts():
        if row["line"] is not None:
            raw = evidence.read_range(artifact, max(row["offset"], row["at"] - 80), min(row["length"], 240))
            hits.append({"line": row["line"], "text": visible_text(raw, encoding)})
    return hits
