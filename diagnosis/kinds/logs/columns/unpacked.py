"""The table of lines for a short time: each column's numbers one after another, as in memory.

Packing the lines of a log for Parquet takes a sixth of the time of reading it. A diagnosis that
removes its tables when it ends does not need that. Any run of rows is read without the rows around
it.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.text.stamps import NO_TIME

NAME: Final = "columns.unpacked"
_KINDS: Final = {name: pl.Series(dtype=kind).to_numpy().dtype for name, kind in COLUMNS.items()}
_SIZES: Final = [kind.itemsize for kind in _KINDS.values()]
#: Bytes of a line in all columns, and in those before each one.
ROW_BYTES: Final = sum(_SIZES)
_BEFORE: Final = dict(zip(_KINDS, accumulate(_SIZES, initial=0), strict=False))


def write(rows: pl.DataFrame, folder: Path) -> Path:
    """Stores rows of ``COLUMNS``; returns the file. O(rows)."""
    path = folder / NAME
    with path.open("wb") as file:
        for name in _KINDS:
            column = rows[name].fill_null(NO_TIME) if name == "time" else rows[name]
            column.to_numpy().tofile(file)
    return path


def read(path: Path, first: int, size: int, names: Collection[str]) -> pl.DataFrame:
    """These columns of ``size`` rows from row ``first`` on; fewer at the end. O(size)."""
    total = path.stat().st_size // ROW_BYTES
    size = max(0, min(size, total - first))
    found = []
    for name in names:
        begin = total * _BEFORE[name] + first * _KINDS[name].itemsize
        column = pl.Series(name, np.fromfile(path, _KINDS[name], size, offset=begin))
        found.append(column.set(column == NO_TIME, None) if name == "time" else column)
    return pl.DataFrame(found)
