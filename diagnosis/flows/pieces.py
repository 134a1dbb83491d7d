"""Columns of a capture of any length: looked at a piece at a time, and kept in files if they are many.

What one piece shows is added to what the others show (counts, sums, smallest and largest values, distinct values), so
the answer is the same for every size of the pieces, and memory is bounded by one piece. The files have no name: the
system removes them when their arrays are gone, also after a crash.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Records looked at together. More of them are kept in files.
PIECE = 1 << 21


def of(count: int) -> Iterator[slice]:
    """The pieces of ``count`` rows, in order; one empty piece if there are none."""
    for low in range(0, max(count, 1), PIECE):
        yield slice(low, min(low + PIECE, count))


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder for columns that are too long for memory."""

    folder: Path

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of ``count`` values, in a file if these are more than a piece. Raises ``OSError`` if the disk is
        full.
        """
        size = count * np.dtype(dtype).itemsize
        if count <= PIECE:
            return np.empty(count, dtype)
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a later write to a full disk would end the process
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype)


def different(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values, sorted."""
    return np.unique(np.concatenate([np.unique(column[piece]) for piece in of(len(column))]))


def tally(parts_of: Iterable[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The distinct values of all parts, sorted, and how often each occurs."""
    parts = [np.unique(part, return_counts=True) for part in parts_of]
    if len(parts) == 1:
        return parts[0]
    values, number = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    times = np.bincount(number, np.concatenate([part[1] for part in parts]), len(values))
    return values, times.astype(np.int64)


def empty(count: int, dtype: npt.DTypeLike, disk: Disk | None) -> npt.NDArray[Any]:
    """An array of ``count`` values, on the disk if there is one and they are many."""
    return np.empty(count, dtype) if disk is None else disk.empty(count, dtype)


def divided(
    columns: Sequence[npt.NDArray[Any]], owner: npt.NDArray[Any], count: int, disk: Disk | None
) -> Iterator[list[npt.NDArray[Any]]]:
    """The rows of the columns that belong to each of ``count`` owners (negative: to nobody), in their order."""
    held = np.zeros(count, np.int64)
    for piece in of(len(owner)):
        held += np.bincount(owner[piece][owner[piece] >= 0], minlength=count)
    cuts = np.concatenate([[0], np.cumsum(held)]).tolist()
    out = [empty(cuts[-1], column.dtype, disk) for column in columns]
    at = np.array(cuts[:-1], np.int64)
    for piece in of(len(owner)):
        order = np.argsort(owner[piece], kind="stable")[np.count_nonzero(owner[piece] < 0) :]
        own = owner[piece][order]
        into = at[own] + np.arange(len(own)) - np.searchsorted(own, np.arange(count))[own]
        for column, target in zip(columns, out, strict=True):
            target[into] = column[piece][order]
        at += np.bincount(own, minlength=count)
    for low, high in itertools.pairwise(cuts):
        yield [column[low:high] for column in out]


def chosen(column: npt.NDArray[Any], rows: npt.NDArray[Any], count: int, disk: Disk | None) -> npt.NDArray[Any]:
    """The ``count`` values of a column that ``rows`` (a mask, or row numbers) chooses, in order."""
    if disk is None or count <= PIECE:
        return np.asarray(column[rows])
    out = disk.empty(count, column.dtype)
    at = 0
    for piece in of(len(rows)):
        part = column[piece][rows[piece]] if rows.dtype == bool else column[rows[piece]]
        out[at : at + len(part)] = part
        at += len(part)
    return out
