"""Partition functions: what is done with a part of the records alone, in any process, in any order, more than once.

A partition function is pure: it takes columns of a part and small values, and returns columns, tables and numbers. The
analysis calls it for all parts with :func:`spread` and joins the answers in the order of the parts, so it does not
matter who did which part. Without a runner this process does them one after another. A runner gets the name of the
function and the packed arguments of each part, and returns the packed answers; it knows nothing else of the analysis.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from diagnosis.flows import packing, pieces

_PACKAGE: Final = "diagnosis.flows."
_known: Final[dict[str, Callable[..., Any]]] = {}


def partition[F: Callable[..., Any]](function: F) -> F:
    """Marks a function of a module of this package that a runner may call by its name."""
    _known[_name(function)] = function
    return function


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', '')}"


def spread(disk: pieces.Disk | None, function: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """``function(*part)`` of each part, in their order; a runner does partition functions of several parts."""
    if disk is None or disk.runner is None or len(parts) < 2 or _known.get(_name(function)) is not function:
        for part in parts:
            yield function(*part)
        return
    disk.folder.mkdir(parents=True, exist_ok=True)
    sent = [packing.packed(list(part), disk) for part in parts]
    for answer in disk.runner(_name(function), sent, disk.folder):
        yield packing.unpacked(answer, disk)


def do(function: str, part: bytes, folder: Path) -> bytes:
    """One part, in the process that a runner chose. Raises ``ValueError`` for a name that is no partition function."""
    module, _, _ = function.partition(":")
    if module.startswith(_PACKAGE):
        importlib.import_module(module)
    if function not in _known:
        raise ValueError(f"{function} is no partition function")
    disk = pieces.Disk(folder)
    return packing.packed(_known[function](*packing.unpacked(part, disk)), disk, is_kept=True)
