"""Looking for words in a log: its templates first, which are few, then its bytes, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ingest import selectors as evidence
from ingest import storage
from ingest.models import Artifact
from triage.selectors.logs import LEVELS, encoding_of, shown

FIND_CHUNK = 64 << 20
FIND_LIMIT = 200
TEMPLATE_LIMIT = 40


@dataclass(frozen=True, slots=True)
class Template:
    """One masked message of a file: what it says, how often, where first."""

    masked: str
    text: str
    example: str
    count: int
    level_word: str
    first_line: int


@dataclass(frozen=True, slots=True)
class Templates:
    """Those that a search found, the most frequent first, and how many more there are."""

    rows: list[Template]
    total: int
    lines: int

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def templates_of(artifact: Artifact, words: str = "") -> Templates:
    """Templates whose text or first line holds ``words`` (any case); all without words. Cost follows their number."""
    path = _uniques_path(artifact)
    if path is None:
        return Templates([], 0, 0)
    table = pl.scan_parquet(path)
    if words:
        either = [
            pl.col(name).str.to_lowercase().str.contains(words.lower(), literal=True) for name in ("text", "example")
        ]
        table = table.filter(either[0] | either[1])
    columns = ["masked", "text", "example", "count", "level", "first_line"]
    found = table.select(columns).sort(["count", "first_line"], descending=[True, False]).collect()
    rows = [
        Template(
            masked=str(row["masked"]),
            text=shown(row["text"].encode()),
            example=shown(row["example"].encode()),
            count=row["count"],
            level_word=LEVELS[row["level"]] if row["level"] < len(LEVELS) else "",
            first_line=row["first_line"],
        )
        for row in found.head(TEMPLATE_LIMIT).to_dicts()
    ]
    return Templates(rows, len(found), int(found["count"].sum()))


def find(artifact: Artifact, words: str, *, offset: int = 0) -> dict[str, Any]:
    """Lines that hold ``words`` (any case) in the next FIND_CHUNK bytes; ``next``: where to go on, or None."""
    size = artifact.blob.size_bytes
    needle = words.encode(encoding_of(artifact)).lower()
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
    encoding = encoding_of(artifact)
    for row in rows.unique("line", keep="first", maintain_order=True).to_dicts():
        if row["line"] is not None:
            raw = evidence.read_range(artifact, max(row["offset"], row["at"] - 80), min(row["length"], 240))
            found.append({"line": row["line"], "text": shown(raw, encoding)})
    return found


def _uniques_path(artifact: Artifact) -> Path | None:
    if not artifact.parsed_key:
        return None
    name = storage.PARSED_FILES[1]
    path = storage.directory_get(artifact.parsed_key, (name,)) / name
    return path if path.exists() else None
