"""Partition functions: what is done with a part of the records alone, in any process, in any order, more than once.

A partition function is pure: it takes columns of a part and small values, and returns columns, tables and numbers. The
analysis calls it for all parts with :func:`run_parts` and joins the answers in the order of the parts, so it does not
matter who did which part. Without a runner this process does them one after another. A runner gets the name of the
function and the packed arguments of each part, and returns the packed answers; it knows nothing else of the analysis.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from diagnosis.kinds.flows.capture import packing, pieces

_PACKAGE: Final = "diagnosis.kinds.flows."
_functions: Final[dict[str, Callable[..., Any]]] = {}


def partition[F: Callable[..., Any]](function: F) -> F:
    """Marks a function of a module of this package that a runner may call by its name."""
    _functions[_name(function)] = function
    return function


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', '')}"


#: Rows of an answer, from the first to before the last, and the row of the whole columns at which they are put.
type Run = tuple[int, int, int]
#: Where a part writes its rows: the name of a file for each column, and the runs.
type _Places = tuple[list[str], list[Run]]


def run_parts(
    disk: pieces.Disk | None,
    function: Callable[..., Any],
    parts: Sequence[tuple[Any, ...]],
    places: Sequence[_Places] | None = None,
) -> Iterator[Any]:
    """``function(*part)`` of each part, in their order; a runner does partition functions of several parts, and begins
    at once, so that whoever needs the answers later does other things meanwhile. With ``places`` (for a runner alone)
    the answers are columns that stay there, and their lengths come back.
    """
    if disk is None:
        return (function(*part) for part in parts)
    if not is_shared(disk, function, len(parts)):
        return _here(disk, function, parts)
    assert disk.runner is not None
    disk.folder.mkdir(parents=True, exist_ok=True)
    memo: packing.Memo = {}
    sent = [
        packing.pack([list(part), None if places is None else places[number]], disk, memo=memo)
        for number, part in enumerate(parts)
    ]
    return _unpack_answers(disk.runner(_name(function), sent, disk.folder), disk, parts)


def _here[T](disk: pieces.Disk, function: Callable[..., T], parts: Sequence[tuple[Any, ...]]) -> Iterator[T]:
    """The answers of this process, which has the files of one part at a time."""
    for part in parts:
        yield function(*part)
        disk.let_go()


def _unpack_answers(answers: Iterator[bytes], disk: pieces.Disk, parts: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """The answers unpacked. The files of the ``parts`` are there as long as somebody holds their columns."""
    for answer in answers:
        yield packing.unpack(answer, disk)
        disk.let_go()
    del parts


def is_shared(disk: pieces.Disk | None, function: Callable[..., Any], parts: int) -> bool:
    """Whether a runner does so many parts."""
    is_known = _functions.get(_name(function)) is function
    return disk is not None and disk.runner is not None and parts > 1 and is_known


def fill_columns(
    disk: pieces.Disk | None,
    function: Callable[..., Any],
    parts: Sequence[tuple[Any, ...]],
    rows: Sequence[int],
    kinds: Sequence[npt.DTypeLike],
) -> tuple[list[npt.NDArray[Any]], list[int]]:
    """Columns of ``kinds``, and how many rows of them each part has: ``function(*part)`` returns these, as a list of
    columns or as the only one, at most ``rows`` of them. They follow the most rows of all parts before. Whoever does a
    part writes its rows, and may do so again, so the columns are for reading.
    """
    first = list(itertools.accumulate(rows, initial=0))
    total = first.pop()
    return fill_runs(disk, function, parts, [[(0, n, at)] for n, at in zip(rows, first, strict=True)], total, kinds)


def fill_runs(
    disk: pieces.Disk | None,
    function: Callable[..., Any],
    parts: Sequence[tuple[Any, ...]],
    runs: Sequence[list[Run]],
    total: int,
    kinds: Sequence[npt.DTypeLike],
) -> tuple[list[npt.NDArray[Any]], list[int]]:
    """As :func:`fill_columns`, of ``total`` rows; the runs of each part say where its rows are put. O(rows)."""
    if disk is None or total <= pieces.PIECE_ROWS or not is_shared(disk, function, len(parts)):
        columns = [pieces.empty(total, kind, disk) for kind in kinds]
        counts = []
        for own, values in zip(runs, run_parts(disk, function, parts), strict=True):
            for column, value in zip(columns, _as_list(values), strict=True):
                _put_runs(column, value, own)
            counts.append(len(_as_list(values)[0]))
        return columns, counts
    names = disk.make_files([total * np.dtype(kind).itemsize for kind in kinds])
    counts = list(run_parts(disk, function, parts, [(names, own) for own in runs]))
    return [disk.open_values(name, 0, total, kind) for name, kind in zip(names, kinds, strict=True)], counts


def run_part(function: str, part: bytes, folder: Path) -> bytes:
    """One part, in the process that a runner chose. Raises ``ValueError`` for a name that is no partition function."""
    module, _, _ = function.partition(":")
    if module.startswith(_PACKAGE):
        importlib.import_module(module)
    if function not in _functions:
        raise ValueError(f"{function} is no partition function")
    disk = pieces.Disk(folder)
    given, places = packing.unpack(part, disk)
    answer = _functions[function](*given)
    if places is None:
        return packing.pack(answer, disk, is_kept=True)
    columns = _as_list(answer)
    names, runs = places
    disk.let_go()
    for name, values in zip(names, columns, strict=True):
        for low, high, at in runs:
            disk.put(name, at * values.itemsize, values[low:high])
    return packing.pack(len(columns[0]))


def _put_runs(column: npt.NDArray[Any], values: npt.NDArray[Any], runs: list[Run]) -> None:
    for low, high, at in runs:
        rows = values[low:high]
        column[at : at + len(rows)] = rows


def _as_list(answer: Any) -> list[npt.NDArray[Any]]:
    return answer if isinstance(answer, list) else [answer]
