"""Puts the records of all files in order of time, without repeated ones.

Few records are sorted at once. Of many, each piece of the files is divided among stretches of time, and each stretch is
sorted for itself; an exact duplicate begins at the same time, so it is in the same stretch. The stretches hold about a
piece each, unless more records than that begin at one instant.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.coded import CodedRecords
from diagnosis.kinds.flows.capture.partitions import fill_columns, partition, run_parts
from diagnosis.values.extremes import middle

#: A few records further than this many seconds from the middle do not belong to this capture.
MAX_FROM_MIDDLE_S: Final = 30 * 86_400
#: A share of the records that is a few.
MAX_ASTRAY_SHARE: Final = 0.01
#: With coarser times (seconds) two real transfers of one size may look alike.
MAX_FINE_S: Final = 1e-5
#: Starts from which the middle and the stretches are taken, evenly spread over the files.
SAMPLE_STARTS: Final = 1 << 20

#: Records that begin at one instant are compared one by one up to this many; on a grid of µs a few do.
MAX_LOOKED_BACK: Final = 16

_COLUMN_TYPES: Final[dict[str, type[np.generic]]] = {
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
_KEY_COLUMNS: Final = ("start", "end", "src", "dst", "port", "high", "bytes")

_TIMES: Final = ("start", "end")
_NEVER: Final = np.iinfo(np.int64).max

Columns = dict[str, npt.NDArray[Any]]
#: The columns of some rows, in the order of ``_COLUMN_TYPES``.
_Values = list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class OrderedRecords:
    """``columns`` of equal length in order of start: ``start`` and ``end`` seconds from ``t0`` (ns UTC), the others as
    read; how many records were ``duplicates``, and how many ``astray`` (their time is far from all others').
    """

    columns: Columns
    t0: int
    duplicates: int
    astray: int


def order_records(coded: CodedRecords, resolution_s: float, disk: pieces.Disk | None) -> OrderedRecords | None:
    """The records in order; None if there are none. O(n log n)."""
    if not coded.total:
        return None
    if disk is None or coded.total <= pieces.PIECE_ROWS:
        table, astray = _without_astray(coded.scan().collect())
        height = table.height
        table = table.sort("start", maintain_order=True)
        cleared = _without_repeats(table)
        table = cleared if _has_repeats(height, cleared.height, resolution_s) else table
        columns = {name: table[name].to_numpy() for name in _COLUMN_TYPES if name != "bytes"}
        columns["bytes"] = table["bytes"].fill_null(float("nan")).to_numpy()
        t0 = int(columns["start"][0])
        columns |= {name: (columns[name] - t0) / 1e9 for name in ("start", "end")}
        return OrderedRecords(columns, t0, height - table.height, astray)
    return _order_stretches(coded, resolution_s, disk)


def _order_stretches(coded: CodedRecords, resolution_s: float, disk: pieces.Disk) -> OrderedRecords:
    """Divides the records among stretches of time, and sorts each stretch."""
    middle, bounds = _middle_and_bounds(coded)
    divided = _divide_all(coded, bounds, middle, disk)
    astray = divided.far if divided.far < MAX_ASTRAY_SHARE * coded.total else 0
    near = middle if astray else None
    total = coded.total - astray
    is_to_clear = True
    if resolution_s > MAX_FINE_S:
        counting = [(stretch, near) for stretch in divided.stretches]
        different = sum(run_parts(disk, _count_different, counting))
        is_to_clear = _has_repeats(total, different, resolution_s)
    t0 = divided.first_near if astray else divided.first
    kinds = [np.float64 if name in _TIMES else kind for name, kind in _COLUMN_TYPES.items()]
    parts = [(stretch, near, t0, is_to_clear) for stretch in divided.stretches]
    most = [sum(len(values[0]) for values in stretch) for stretch in divided.stretches]
    columns, counts = fill_columns(disk, _sort_stretch, parts, most, kinds)
    if counts != most:
        first = itertools.accumulate(most, initial=0)
        runs = [([column[low : low + n] for column in columns],) for low, n in zip(first, counts, strict=False)]
        columns, _ = fill_columns(disk, _kept_rows, runs, counts, kinds)
    return OrderedRecords(dict(zip(_COLUMN_TYPES, columns, strict=True)), t0, total - sum(counts), astray)


@dataclass(slots=True)
class _Divided:
    """The rows of each stretch that has any, in the order of the files; the first start of all, and of
    those near the middle; how many are far from it.
    """

    stretches: list[list[_Values]]
    first: int = _NEVER
    first_near: int = _NEVER
    far: int = 0


def _middle_and_bounds(coded: CodedRecords) -> tuple[float, npt.NDArray[np.int64]]:
    """The middle of the starts, and when all stretches but the first begin."""
    every = -(-coded.total // SAMPLE_STARTS)
    sample = coded.scan().select(pl.col("start").gather_every(every))
    starts = sample.collect(engine="streaming")["start"]
    ordered = starts.sort().to_numpy()
    count = -(-coded.total // pieces.PIECE_ROWS)
    return middle(starts), np.unique(ordered[np.arange(1, count) * len(ordered) // count])


def _divide_all(
    coded: CodedRecords,
    bounds: npt.NDArray[np.int64],
    middle: float,
    disk: pieces.Disk,
) -> _Divided:
    divided = _Divided([[] for _ in range(len(bounds) + 1)])
    rows = pieces.pieces_of(coded.total)
    reading = [(coded, piece.start, piece.stop - piece.start, bounds, middle) for piece in rows]
    for values, cuts, (first_near, first), far in run_parts(disk, _divide, reading):
        kept = [pieces.store(column, disk) for column in values]
        rows_of = itertools.pairwise(cuts.tolist())
        for stretch, (low, high) in zip(divided.stretches, rows_of, strict=True):
            if low < high:
                stretch.append([column[low:high] for column in kept])
        divided.first = min(divided.first, int(first))
        divided.first_near = min(divided.first_near, int(first_near))
        divided.far += far
    divided.stretches = [stretch for stretch in divided.stretches if stretch]
    return divided


@partition
def _divide(
    coded: CodedRecords, first: int, count: int, bounds: npt.NDArray[np.int64], middle: float
) -> tuple[_Values, npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Some rows of the files, by stretches in the order of the files: their columns, where each stretch begins, the
    first start of those near ``middle`` and of all, and how many are far from it.
    """
    part = coded.scan().slice(first, count).collect()
    start = part["start"].to_numpy()
    stretch = np.searchsorted(bounds, start, "right")
    order = pieces.order_of(stretch, len(bounds) + 1)
    far = _is_far(start, part["end"].to_numpy(), middle)
    filled = part.with_columns(pl.col("bytes").fill_null(float("nan")))
    values = [filled[name].to_numpy()[order] for name in _COLUMN_TYPES]
    begins = np.array([start[~far].min(initial=_NEVER), start.min(initial=_NEVER)])
    return values, np.searchsorted(stretch[order], np.arange(len(bounds) + 2)), begins, int(far.sum())


@partition
def _sort_stretch(stretch: list[_Values], near: float | None, t0: int, is_to_clear: bool) -> _Values:
    """The columns of a stretch in order of time, in seconds from ``t0``, without repeated records if wished."""
    parts = _tables(stretch, near)
    if is_to_clear and sum(part.height for part in parts) > 2 * pieces.PIECE_ROWS:
        parts = [_without_repeats(part.sort("start", maintain_order=True)) for part in parts]
    table = pl.concat(parts).sort("start", maintain_order=True)
    table = _without_repeats(table) if is_to_clear else table
    columns = {name: table[name].to_numpy() for name in _COLUMN_TYPES}
    return list((columns | {name: (columns[name] - t0) / 1e9 for name in _TIMES}).values())


@partition
def _kept_rows(columns: _Values) -> _Values:
    """The rows of a stretch that were kept: what follows them in the file is left out."""
    return columns


@partition
def _count_different(stretch: list[_Values], near: float | None) -> int:
    return pl.concat(map(_key, _tables(stretch, near))).n_unique()


def _tables(stretch: list[_Values], near: float | None) -> list[pl.DataFrame]:
    """The rows of a stretch in the order of the files, without those far from ``near``: very many may begin at one
    instant, so what can be left out of each part is not joined first.
    """
    tables = [pl.DataFrame(dict(zip(_COLUMN_TYPES, values, strict=True))) for values in stretch]
    if near is None:
        return tables
    return [
        table.filter(pl.Series(~_is_far(table["start"].to_numpy(), table["end"].to_numpy(), near))) for table in tables
    ]


def _is_far(start: npt.NDArray[Any], end: npt.NDArray[Any], middle: float) -> npt.NDArray[np.bool_]:
    return np.asarray(
        (np.abs(start - middle) > MAX_FROM_MIDDLE_S * 1e9) | (np.abs(end - middle) > MAX_FROM_MIDDLE_S * 1e9)
    )


def _without_astray(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Leaves out the few records with times months or decades from the others, and counts them."""
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    far = pl.Series(_is_far(start, end, middle(table["start"])))
    count = int(far.sum())
    return (table.filter(~far), count) if 0 < count < MAX_ASTRAY_SHARE * table.height else (table, 0)


def _has_repeats(records: int, different: int, resolution_s: float) -> bool:
    """Whether repeated records are to be left out. With millisecond times two real transfers of one size may look
    alike, so only a duplication of the whole capture is removed.
    """
    repeated = 1.0 - different / records
    return repeated > 0.0 and (resolution_s <= MAX_FINE_S or repeated >= 0.3)


def _key(table: pl.DataFrame) -> pl.Series:
    """A number for what a record that repeats another has in common with it: time, ends, ports and volume."""
    return table.select(pl.struct(_KEY_COLUMNS).hash(seed=7).alias("key"))["key"]


def _without_repeats(table: pl.DataFrame) -> pl.DataFrame:
    """The rows in order of start, the first of equal ones each. O(rows · MAX_LOOKED_BACK), or O(rows) with a table of
    keys where more begin at one instant.
    """
    start = table["start"].to_numpy()
    columns = [table[name].to_numpy() for name in _KEY_COLUMNS if name != "bytes"]
    columns.append(table["bytes"].fill_null(float("nan")).to_numpy().view(np.int64))  # unknown ones are alike
    is_repeat = np.zeros(len(start), np.bool_)
    for back in range(1, MAX_LOOKED_BACK + 1):
        late = np.flatnonzero(start[back:] == start[:-back]) + back
        if not len(late):
            return table.filter(pl.Series(~is_repeat)) if is_repeat.any() else table
        for column in columns:
            late = late[column[late] == column[late - back]]
        is_repeat[late] = True
    return table.filter(_key(table).is_first_distinct())
