"""Arguments and answers of partition functions as bytes: numbers, text, lists, sets, arrays, tables, some classes.

Nothing that is unpacked can run code: a text in JSON says how the values lie in the bytes after it. Arrays that are in
a file of the analysis's folder are named by file and place, not copied.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.flows.capture.pieces import MIN_FILE_BYTES, Disk

_LENGTH: Final = struct.Struct("<Q")
_ARRAY_KINDS: Final = "biuf"
_ALIGN_BYTES: Final = 8
_classes: Final[dict[str, type]] = {}
#: The names of their fields that are sent.
_fields: Final[dict[str, list[str]]] = {}


def packable[T: type](kind: T) -> T:
    """Marks a dataclass whose values may be packed. Fields without ``repr`` are not sent; whoever does a part gets its
    own ``disk``.
    """
    _classes[kind.__name__] = kind
    _fields[kind.__name__] = [f.name for f in dataclasses.fields(kind) if f.repr]
    return kind


#: What values of classes look like that hold no bytes of their own, by their ids.
type Memo = dict[int, Any]


def pack(value: Any, disk: Disk | None = None, *, is_kept: bool = False, memo: Memo | None = None) -> bytes:
    """The value as bytes. ``is_kept``: long arrays are written to files of the disk, which the reader then owns.
    ``memo``: of values that live as long as it, and do not change.
    """
    parts: list[bytes | memoryview] = []
    at = 0

    def add(data: bytes | memoryview) -> list[int]:
        nonlocal at
        begin, size = at, len(data)
        parts.extend((data, bytes(-size % _ALIGN_BYTES)))
        at += size + -size % _ALIGN_BYTES
        return [begin, size]

    def told(one: Any) -> Any:
        if one is None or isinstance(one, bool | int | float | str):
            return one
        if isinstance(one, np.generic):
            return one.item()
        if isinstance(one, list | tuple):
            return {"list" if isinstance(one, list) else "tuple": [told(x) for x in one]}
        if isinstance(one, frozenset):
            return {"set": [told(x) for x in sorted(one)]}
        if isinstance(one, dict):
            return {"dict": [[told(key), told(x)] for key, x in one.items()]}
        if isinstance(one, np.ndarray):
            return _array(np.ascontiguousarray(one))
        if isinstance(one, pl.DataFrame):
            out = io.BytesIO()
            one.write_ipc_stream(out)
            return {"table": add(out.getvalue())}
        if type(one).__name__ in _classes:
            return _instance(one)
        raise TypeError(f"{type(one).__name__} cannot be sent")

    def _instance(one: Any) -> Any:
        if memo is not None and id(one) in memo:
            return memo[id(one)]
        before, name = at, type(one).__name__
        seen = {"class": name, "of": {field: told(getattr(one, field)) for field in _fields[name]}}
        if memo is not None and at == before:
            memo[id(one)] = seen
        return seen

    def _array(one: npt.NDArray[Any]) -> Any:
        kind = {"dtype": one.dtype.str, "shape": list(one.shape)}
        if disk is not None and is_kept and one.nbytes >= MIN_FILE_BYTES:
            return {"file": disk.write(one), "from": 0, **kind}
        place = disk.place(one) if disk is not None else None
        if place is not None:
            return {"file": place[0], "from": place[1], **kind}
        return {"array": add(memoryview(one.reshape(-1).view(np.uint8))), **kind}

    head = json.dumps(told(value), separators=(",", ":")).encode()
    head += b" " * (-len(head) % _ALIGN_BYTES)
    return b"".join([_LENGTH.pack(len(head)), head, *parts])


def _made(kind: Any, own: dict[str, Any], disk: Disk) -> Any:
    """A value of a class. Whoever does a part keeps long columns of it on its own disk."""
    has_disk = any(f.name == "disk" for f in dataclasses.fields(kind))
    return kind(disk=disk, **own) if has_disk and disk.runner is None else kind(**own)


def unpack(data: bytes, disk: Disk) -> Any:
    """The value that :func:`pack` packed. Raises ``ValueError`` for other bytes."""
    (length,) = _LENGTH.unpack_from(data)
    begin = _LENGTH.size + length

    def value(one: Any) -> Any:
        if isinstance(one, dict):
            if "list" in one:
                return [value(x) for x in one["list"]]
            if "tuple" in one:
                return tuple(value(x) for x in one["tuple"])
            if "set" in one:
                return frozenset(value(x) for x in one["set"])
            if "dict" in one:
                return {value(key): value(x) for key, x in one["dict"]}
            if "class" in one:
                own = {name: value(x) for name, x in one["of"].items()}
                return _made(_classes[one["class"]], own, disk)
            if "table" in one:
                at, size = one["table"]
                return pl.read_ipc_stream(data[begin + at : begin + at + size])
            dtype, shape = np.dtype(one["dtype"]), tuple(one["shape"])
            if dtype.kind not in _ARRAY_KINDS:
                raise ValueError(f"{dtype} is no type of a column")
            if "file" in one:
                count = int(np.prod(shape, dtype=np.int64))
                return disk.open_values(one["file"], one["from"], count, dtype).reshape(shape)
            at, size = one["array"]
            return np.frombuffer(data, dtype, size // dtype.itemsize, begin + at).reshape(shape)
        return one

    return value(json.loads(data[_LENGTH.size : begin]))
