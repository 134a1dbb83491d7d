"""Runs of rows of the tables of parsed logs, read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from diagnosis.kinds.logs.columns import joined, unpacked
from diagnosis.kinds.logs.columns.tables import COLUMNS, UNIQUES
from diagnosis.model import Parsed


class Rows(NamedTuple):
    """Rows of the table in ``file``: ``size`` from ``first`` on, or all if that is None."""

    file: Path
    first: int | None
    size: int

    @property
    def end(self) -> int:
        """The number of the row behind the last one."""
        return (self.first or 0) + self.size

    def part(self, first: int, size: int) -> Rows:
        """``size`` rows from the one at ``first`` (from 0 on), fewer at the end."""
        return Rows(self.file, (self.first or 0) + first, min(size, max(self.size - first, 0)))


def lines_of(p: Parsed) -> Rows:
    """The rows of a log's lines."""
    assert p.columns is not None
    return Rows(p.columns, p.part.line if p.part else None, p.lines)


def messages_of(p: Parsed) -> Rows:
    """The rows of a log's messages; their number is unknown in a table of their own."""
    assert p.uniques is not None
    return Rows(p.uniques, p.part.message, p.part.messages) if p.part else Rows(p.uniques, None, 0)


def read(rows: Sequence[Rows], names: Collection[str]) -> pl.DataFrame:
    """These columns of several runs of rows, one after another. Adjacent rows of a table are read
    at once, also where ``rows`` gives them in another order: of thousands of small logs that share
    tables, names order the logs otherwise.
    """
    if not rows:
        return pl.DataFrame(schema={name: (COLUMNS | UNIQUES)[name] for name in names})
    if all(one.first is None and one.file.name != joined.NAME for one in rows):
        return pl.read_parquet([one.file for one in rows], columns=list(names))
    runs, places = _runs(rows)
    tables = _read_each(runs, list(names))
    if places == sorted(places):
        return pl.concat(tables)
    sizes = [None if one.first is None else one.size for one in rows]
    return pl.concat([tables[run].slice(begin, size) for (run, begin), size in zip(places, sizes, strict=True)])


def _read_each(runs: Sequence[Rows], names: list[str]) -> list[pl.DataFrame]:
    scans = [scan(one).select(names) for one in runs if not _is_unpacked(one)]
    packed = iter(pl.collect_all(scans))
    return [_unpacked(one, names) if _is_unpacked(one) else next(packed) for one in runs]


def _is_unpacked(rows: Rows) -> bool:
    return rows.file.name == unpacked.NAME


def _unpacked(rows: Rows, names: Collection[str]) -> pl.DataFrame:
    return unpacked.read(rows.file, rows.first or 0, rows.size, names)


def _runs(rows: Sequence[Rows]) -> tuple[list[Rows], list[tuple[int, int]]]:
    """The runs of adjacent rows, and where each of ``rows`` is: its run, and that one's first."""
    numbers_of: dict[Path, list[int]] = {}
    for number, one in enumerate(rows):
        numbers_of.setdefault(one.file, []).append(number)
    runs: list[Rows] = []
    places = [(0, 0)] * len(rows)
    for numbers in numbers_of.values():
        for number in sorted(numbers, key=lambda number: rows[number].first or 0):
            one = rows[number]
            if runs and _is_adjacent(runs[-1], one):
                runs[-1] = runs[-1]._replace(size=runs[-1].size + one.size)
            else:
                runs.append(one)
            places[number] = len(runs) - 1, (one.first or 0) - (runs[-1].first or 0)
    return runs, places


def _is_adjacent(run: Rows, rows: Rows) -> bool:
    return run.first is not None and run.file == rows.file and run.end == rows.first


def scan(rows: Rows) -> pl.LazyFrame:
    """A run of rows, to be read."""
    if rows.file.name == joined.NAME:
        return joined.scan(rows.file, rows.first or 0, rows.size)
    if _is_unpacked(rows):
        return _unpacked(rows, COLUMNS).lazy()
    table = pl.scan_parquet(rows.file)
    return table if rows.first is None else table.slice(rows.first, rows.size)
