"""Columns of a capture of any length: looked at a piece at a time, and kept in files if they are many.

What one piece shows is added to what the others show (counts, sums, smallest and largest values, distinct values), so
the answer is the same for every size of the pieces, and memory is bounded by one piece. The files have no name: the
system removes them when their arrays are gone, also after a crash. Only where other processes look at them do they have
one, in a folder that whoever gave it removes.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from diagnosis.model import Runner

#: Records looked at together. More of them are kept in files.
PIECE_ROWS = 1 << 20
#: An answer of a part keeps arrays from this many bytes on in files.
MIN_FILE_BYTES: Final = 1 << 16
_SUFFIX: Final = ".column"
_NAME: Final = re.compile(r"[a-z0-9_]+\.column")


def pieces_of(count: int) -> Iterator[slice]:
    """The pieces of ``count`` rows, in order; one empty piece if there are none."""
    for low in range(0, max(count, 1), PIECE_ROWS):
        yield slice(low, min(low + PIECE_ROWS, count))


@dataclass(slots=True)
class _MappedFile:
    """A file of columns whose arrays are there; ``is_written``: other machines see what it holds."""

    size: int
    name: str
    mapped: weakref.ref[mmap.mmap]
    is_written: bool = False


type _Mapped = weakref.WeakSet[mmap.mmap]


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder for columns that are too long for memory. With a ``runner`` their files have names until their arrays
    are gone, so that other processes can open them (:mod:`partitions`).
    """

    folder: Path
    runner: Runner | None = None
    _files: dict[int, _MappedFile] = field(default_factory=dict, repr=False, compare=False)
    _open: dict[str, mmap.mmap] = field(default_factory=dict, repr=False, compare=False)
    _mapped: _Mapped = field(default_factory=weakref.WeakSet, repr=False, compare=False)

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of ``count`` values, in a file if these are more than a piece. Raises ``OSError`` if the disk is
        full.
        """
        size = count * np.dtype(dtype).itemsize
        if count <= PIECE_ROWS:
            return np.empty(count, dtype)
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._new(size, dtype)

    def store(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same values in a file, if they are long enough for one."""
        if values.nbytes < MIN_FILE_BYTES or self.place(values) is not None:
            return values
        self.folder.mkdir(parents=True, exist_ok=True)
        out = self._new(values.nbytes, values.dtype)
        out[:] = values
        return out

    def let_go(self) -> None:
        """Gives back the memory of all files, whose pages stay with the system: who looks at a
        column again gets them again. So a process has as much of its files as it looks at between
        two calls. O(files).
        """
        for mapped in list(self._mapped):
            mapped.madvise(mmap.MADV_DONTNEED)

    def make_files(self, sizes: Sequence[int]) -> list[str]:
        """The names of new files of so many bytes. The process that does a part may :meth:`put` rows there; then
        :meth:`open_values` shows them. Raises ``OSError`` if the disk is full.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        return [self._make_file(size) for size in sizes]

    def put(self, name: str, begin: int, values: npt.NDArray[Any]) -> None:
        """Writes values into a file, from its byte ``begin`` on. Others write other bytes of it: nothing of it is read,
        so that nothing of theirs is written again.
        """
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name} is no file of columns")
        number = os.open(self.folder / name, os.O_WRONLY)
        with os.fdopen(number, "wb", buffering=0) as file:
            file.seek(begin)
            left = memoryview(np.ascontiguousarray(values).view(np.uint8))
            while left:
                left = left[file.write(left) :]

    def write(self, values: npt.NDArray[Any]) -> str:
        """The name of a new file with these values, which belongs to whoever opens it."""
        name = self._make_file(values.nbytes)
        with (self.folder / name).open("r+b") as file:
            file.write(memoryview(values.reshape(-1).view(np.uint8)))
        return name

    def place(self, values: npt.NDArray[Any]) -> tuple[str, int] | None:
        """The file of these values and their first byte in it; None if they are in memory alone. They change no more:
        other processes read them from now on.
        """
        address = values.__array_interface__["data"][0]
        for begin, file in self._files.items():
            if begin <= address < begin + file.size:
                mapped = file.mapped()
                if self.runner is not None and self.runner.is_far and not file.is_written and mapped is not None:
                    mapped.flush()
                    file.is_written = True
                return file.name, address - begin
        return None

    def open_values(self, name: str, begin: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Values of a file of the folder; with a runner the file is removed when they are gone."""
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name} is no file of columns")
        if self.runner is not None:
            return self._open_owned(name, count * np.dtype(dtype).itemsize, dtype)
        if name not in self._open:
            with (self.folder / name).open("rb") as file:
                self._open[name] = self._map(file.fileno(), 0, mmap.ACCESS_READ)
        return np.frombuffer(self._open[name], dtype, count, begin)

    def _new(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        if self.runner is not None:
            return self._open_owned(self._make_file(size), size, dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a later write to a full disk would end the process
            return np.frombuffer(self._map(file.fileno(), size), dtype)

    def _map(self, number: int, size: int, access: int = mmap.ACCESS_DEFAULT) -> mmap.mmap:
        self.let_go()  # a new column is filled from pieces of others
        mapped = mmap.mmap(number, size, access=access)
        self._mapped.add(mapped)
        return mapped

    def _make_file(self, size: int) -> str:
        number, path = tempfile.mkstemp(_SUFFIX, "", self.folder)
        try:
            os.posix_fallocate(number, 0, size)
        finally:
            os.close(number)
        return Path(path).name

    def _open_owned(self, name: str, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        path = self.folder / name
        with path.open("r+b") as file:
            mapped = self._map(file.fileno(), size)
        array = np.frombuffer(mapped, dtype)
        address = array.__array_interface__["data"][0]
        self._files[address] = _MappedFile(size, name, weakref.ref(mapped))
        weakref.finalize(mapped, _release, self._files, address, path)
        return array


def _release(files: dict[int, _MappedFile], address: int, path: Path) -> None:
    files.pop(address, None)
    path.unlink(missing_ok=True)


def order_of(numbers: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """The rows in order of their number, which is below ``count``, and as they were of one number. O(n) up to 32,768
    numbers, else O(n log n).
    """
    is_short = count <= 1 << 15 and numbers.dtype.itemsize > 2
    return np.argsort(numbers.astype(np.int16) if is_short else numbers, kind="stable")


def count_values(parts_of: Iterable[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The distinct values of all parts, sorted, and how often each occurs."""
    return add_counts(np.unique(part, return_counts=True) for part in parts_of)


def add_counts(
    counted: Iterable[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The distinct values of parts and how often each occurs, from those of each part."""
    parts = list(counted)
    if len(parts) == 1:
        return parts[0]
    values, number = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    times = np.bincount(number, np.concatenate([part[1] for part in parts]), len(values))
    return values, times.astype(np.int64)


def store(values: npt.NDArray[Any], disk: Disk | None) -> npt.NDArray[Any]:
    """The same values, on the disk if there is one and they are long."""
    return values if disk is None else disk.store(values)


def empty(count: int, dtype: npt.DTypeLike, disk: Disk | None) -> npt.NDArray[Any]:
    """An array of ``count`` values, on the disk if there is one and they are many."""
    return np.empty(count, dtype) if disk is None else disk.empty(count, dtype)


def choose_rows(column: npt.NDArray[Any], rows: npt.NDArray[Any], count: int, disk: Disk | None) -> npt.NDArray[Any]:
    """The ``count`` values of a column that ``rows`` (row numbers, or a mask of few) chooses, in order."""
    if disk is None or len(column) <= PIECE_ROWS:
        return np.asarray(column[rows])
    if count <= PIECE_ROWS:
        chosen = np.asarray(column[rows])
        disk.let_go()
        return chosen
    out = disk.empty(count, column.dtype)
    at = 0
    for piece in pieces_of(len(rows)):
        part = column[rows[piece]]
        out[at : at + len(part)] = part
        at += len(part)
        disk.let_go()
    return out
