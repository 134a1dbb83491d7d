"""Puts the records of all files in order of time, without repeated ones.

Few records are sorted at once. Of many, each piece of the files is divided among stretches of time, and each stretch is
sorted for itself; an exact duplicate begins at the same time, so it is in the same stretch. The stretches hold about a
piece each, unless more records than that begin at one instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.flows import pieces

#: A few records further than this many seconds from the middle do not belong to this capture.
FAR_S: Final = 30 * 86_400
#: Starts from which the middle and the stretches are taken, evenly spread over the files.
SAMPLE: Final = 1 << 20

_KINDS: Final[dict[str, type[np.generic]]] = {
    "start": np.int64,
    "end": np.int64,
    "src": np.int32,
    "dst": np.int32,
    "bytes": np.float64,
    "port": np.int32,
    "high": np.int32,
    "path": np.int32,
    "control": np.bool_,
    "empty": np.bool_,
}
_REPEATED: Final = ("start", "end", "src", "dst", "port", "high", "bytes")

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class InOrder:
    """``columns`` of equal length in order of start: ``start`` and ``end`` seconds from ``t0`` (ns UTC), the others as
    read; how many records were ``duplicates``, and how many ``astray`` (their time is far from all others').
    """

    columns: Columns
    t0: int
    duplicates: int
    astray: int


def in_order(coded: pl.LazyFrame, resolution_s: float, disk: pieces.Disk | None) -> InOrder | None:
    """The records of ``coded`` (columns of ``_KINDS``) in order; None if there are none. O(n log n)."""
    total = int(coded.select(pl.len()).collect().item())
    if not total:
        return None
    if disk is None or total <= pieces.PIECE:
        table, astray = _of_one_time(coded.collect())
        held = table.height
        table = table.sort("start", maintain_order=True)
        if _is_to_clear(held, _different(table), resolution_s):
            table = _cleared(table)
        columns = {name: table[name].to_numpy() for name in _KINDS if name != "bytes"}
        columns["bytes"] = table["bytes"].fill_null(float("nan")).to_numpy()
        t0 = int(columns["start"][0])
        columns |= {name: (columns[name] - t0) / 1e9 for name in ("start", "end")}
        return InOrder(columns, t0, held - table.height, astray)
    return _in_stretches(coded, total, resolution_s, disk)


def _in_stretches(coded: pl.LazyFrame, total: int, resolution_s: float, disk: pieces.Disk) -> InOrder:
    starts = coded.select(pl.col("start").gather_every(-(-total // SAMPLE))).collect(engine="streaming")["start"]
    middle = float(starts.median())  # type: ignore[arg-type]
    ordered = starts.sort().to_numpy()
    parts = -(-total // pieces.PIECE)
    bounds = np.unique(ordered[np.arange(1, parts) * len(ordered) // parts])
    counts, far = np.zeros((2, len(bounds) + 1), np.int64)
    for part in _read(coded.select("start", "end"), total):
        start, end = part["start"].to_numpy(), part["end"].to_numpy()
        stretch = np.searchsorted(bounds, start, "right")
        counts += np.bincount(stretch, minlength=len(counts))
        far += np.bincount(stretch[_is_far(start, end, middle)], minlength=len(far))
    astray = int(far.sum()) if far.sum() < 0.01 * total else 0
    counts = counts - far if astray else counts
    held = int(counts.sum())
    cuts = np.concatenate([[0], np.cumsum(counts)])
    columns = {name: disk.empty(held, kind) for name, kind in _KINDS.items()}
    _divide(columns, _read(coded, total), bounds, cuts[:-1].copy(), middle if astray else None)
    stretches = [slice(low, high) for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]
    is_to_clear = True
    if resolution_s > 1e-5:
        is_to_clear = _is_to_clear(held, sum(_different(_table(columns, rows)) for rows in stretches), resolution_s)
    kept = 0
    # the first stretch is empty where many records share the earliest start
    t0 = int(next(columns["start"][rows].min() for rows in stretches if rows.start < rows.stop))
    for rows in stretches:
        table = _table(columns, rows).sort("start", maintain_order=True)
        table = _cleared(table) if is_to_clear else table
        into = slice(kept, kept + table.height)
        for name, column in columns.items():
            value = table[name].to_numpy()
            if name in ("start", "end"):
                column.view(np.float64)[into] = (value - t0) / 1e9
            else:
                column[into] = value
        kept += table.height
    columns = {n: (c.view(np.float64) if n in ("start", "end") else c)[:kept] for n, c in columns.items()}
    return InOrder(columns, t0, held - kept, astray)


def _read(scan: pl.LazyFrame, total: int) -> Iterator[pl.DataFrame]:
    """The rows, a piece at a time."""
    for piece in pieces.of(total):
        yield scan.slice(piece.start, piece.stop - piece.start).collect()


def _divide(
    columns: Columns, parts: Iterator[pl.DataFrame], bounds: npt.NDArray[np.int64], at: npt.NDArray[np.int64],
    middle: float | None,
) -> None:  # fmt: skip
    """Puts the rows into their stretches (the next row of each goes to ``at``), in the order of the files; without
    those far from ``middle``.
    """
    for part in parts:
        start = part["start"].to_numpy()
        stretch = np.searchsorted(bounds, start, "right")
        rows = np.argsort(stretch, kind="stable")
        if middle is not None:
            rows = rows[~_is_far(start, part["end"].to_numpy(), middle)[rows]]
        counts = np.bincount(stretch[rows], minlength=len(at))
        cuts = np.concatenate([[0], np.cumsum(counts)])
        for name, column in columns.items():
            value = part[name]
            values = (value.fill_null(float("nan")) if name == "bytes" else value).to_numpy()[rows]
            for k in np.flatnonzero(counts).tolist():
                column[at[k] : at[k] + counts[k]] = values[cuts[k] : cuts[k + 1]]
        at += counts


def _table(columns: Columns, rows: slice) -> pl.DataFrame:
    return pl.DataFrame({name: column[rows] for name, column in columns.items()})


def _is_far(start: npt.NDArray[Any], end: npt.NDArray[Any], middle: float) -> npt.NDArray[np.bool_]:
    return np.asarray((np.abs(start - middle) > FAR_S * 1e9) | (np.abs(end - middle) > FAR_S * 1e9))


def _of_one_time(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Leaves out the few records with times months or decades from the others, and counts them."""
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    far = pl.Series(_is_far(start, end, float(table["start"].median())))  # type: ignore[arg-type]
    count = int(far.sum())
    return (table.filter(~far), count) if 0 < count < 0.01 * table.height else (table, 0)


def _is_to_clear(records: int, different: int, resolution_s: float) -> bool:
    """Whether repeated records are to be left out. With millisecond times two real transfers of one size may look
    alike, so only a duplication of the whole capture is removed.
    """
    repeated = 1.0 - different / records
    return repeated > 0.0 and (resolution_s <= 1e-5 or repeated >= 0.3)


def _key(table: pl.DataFrame) -> pl.Series:
    """A number for what a record that repeats another has in common with it: time, ends, ports and volume."""
    return table.select(pl.struct(_REPEATED).hash(seed=7).alias("key"))["key"]


def _different(table: pl.DataFrame) -> int:
    return _key(table).n_unique()


def _cleared(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(_key(table).is_first_distinct())
