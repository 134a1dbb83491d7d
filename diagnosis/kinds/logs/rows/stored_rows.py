"""Runs of rows of the tables of parsed logs, read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from diagnosis.kinds.logs.read import joined
from diagnosis.kinds.logs.read.tables import COLUMNS, UNIQUES
from diagnosis.model import Parsed


class Rows(NamedTuple):
    """Consecutive rows of the table in ``file``: ``size`` rows from ``first`` on, or all if that is None."""

    file: Path
    first: int | None
    size: int

    @property
    def end(self) -> int:
        """The number of the row behind the last one."""
        return (self.first or 0) + self.size

    def part(self, first: int, size: int) -> Rows:
        """``size`` of these rows, from the one at ``first`` (from 0 on) on; fewer at the end. They are lines."""
        return Rows(self.file, (self.first or 0) + first, min(size, max(self.size - first, 0)))


def lines_of(p: Parsed) -> Rows:
    """The rows of a log's lines."""
    assert p.columns is not None
    return Rows(p.columns, p.part.line if p.part else None, p.lines)


def messages_of(p: Parsed) -> Rows:
    """The rows of a log's distinct messages; their number is not known if they have a table of their own."""
    assert p.uniques is not None
    return Rows(p.uniques, p.part.message, p.part.messages) if p.part else Rows(p.uniques, None, 0)


def read(rows: Sequence[Rows], names: Collection[str]) -> pl.DataFrame:
    """These columns of several runs of rows, one after another. Each table is read once where its rows are adjacent."""
    if not rows:
        return pl.DataFrame(schema={name: (COLUMNS | UNIQUES)[name] for name in names})
    if all(one.first is None and one.file.name != joined.NAME for one in rows):
        return pl.read_parquet([one.file for one in rows], columns=list(names))
    runs: list[Rows] = []
    for one in rows:
        last = runs[-1] if runs else None
        if last and last.file == one.file and last.first is not None and last.first + last.size == one.first:
            runs[-1] = last._replace(size=last.size + one.size)
        else:
            runs.append(one)
    return pl.concat(pl.collect_all([scan(one).select(list(names)) for one in runs]))


def scan(rows: Rows) -> pl.LazyFrame:
    """A run of rows, to be read."""
    if rows.file.name == joined.NAME:
        return joined.scan(rows.file, rows.first or 0, rows.size)
    table = pl.scan_parquet(rows.file)
    return table if rows.first is None else table.slice(rows.first, rows.size)
