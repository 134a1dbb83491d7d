"""Arguments and answers of partition functions as bytes: numbers, text, lists, sets, arrays, tables, some classes.

Nothing that is unpacked can run code: a text in JSON says how the values lie in the bytes after it. Arrays that are in
a file of the analysis's folder are named by file and place, not copied.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from functools import partial
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
    return _Packer(disk, is_kept, memo).packed(value)


@dataclasses.dataclass(slots=True)
class _Packer:
    """The bytes of one value so far. No closures: they would keep what they see."""

    disk: Disk | None
    is_kept: bool
    memo: Memo | None
    at: int = 0
    parts: list[bytes | memoryview] = dataclasses.field(default_factory=list)

    def packed(self, value: Any) -> bytes:
        head = json.dumps(self._told(value), separators=(",", ":")).encode()
        head += b" " * (-len(head) % _ALIGN_BYTES)
        return b"".join([_LENGTH.pack(len(head)), head, *self.parts])

    def _add(self, data: bytes | memoryview) -> list[int]:
        begin, size = self.at, len(data)
        self.parts.extend((data, bytes(-size % _ALIGN_BYTES)))
        self.at += size + -size % _ALIGN_BYTES
        return [begin, size]

    def _told(self, one: Any) -> Any:
        if one is None or isinstance(one, bool | int | float | str):
            return one
        if isinstance(one, np.generic):
            return one.item()
        if isinstance(one, list | tuple):
            name = "list" if isinstance(one, list) else "tuple"
            return {name: [self._told(x) for x in one]}
        if isinstance(one, frozenset):
            return {"set": [self._told(x) for x in sorted(one)]}
        if isinstance(one, dict):
            return {"dict": [[self._told(key), self._told(x)] for key, x in one.items()]}
        if isinstance(one, np.ndarray):
            return self._array(np.ascontiguousarray(one))
        if isinstance(one, pl.DataFrame):
            out = io.BytesIO()
            one.write_ipc_stream(out)
            return {"table": self._add(out.getvalue())}
        if type(one).__name__ in _classes:
            return self._instance(one)
        raise TypeError(f"{type(one).__name__} cannot be sent")

    def _instance(self, one: Any) -> Any:
        if self.memo is not None and id(one) in self.memo:
            return self.memo[id(one)]
        before, name = self.at, type(one).__name__
        own = {field: self._told(getattr(one, field)) for field in _fields[name]}
        seen = {"class": name, "of": own}
        if self.memo is not None and self.at == before:
            self.memo[id(one)] = seen
        return seen

    def _array(self, one: npt.NDArray[Any]) -> Any:
        kind = {"dtype": one.dtype.str, "shape": list(one.shape)}
        disk = self.disk
        if disk is not None and self.is_kept and one.nbytes >= MIN_FILE_BYTES:
            return {"file": disk.write(one), "from": 0, **kind}
        place = disk.place(one) if disk is not None else None
        if place is not None:
            return {"file": place[0], "from": place[1], **kind}
        return {"array": self._add(memoryview(one.reshape(-1).view(np.uint8))), **kind}


def _made(kind: Any, own: dict[str, Any], disk: Disk) -> Any:
    """A value of a class. Whoever does a part keeps long columns of it on its own disk."""
    has_disk = "disk" in kind.__dataclass_fields__ and disk.runner is None
    return kind(disk=disk, **own) if has_disk else kind(**own)


def unpack(data: bytes, disk: Disk) -> Any:
    """The value that :func:`pack` packed. Raises ``ValueError`` for other bytes."""
    (length,) = _LENGTH.unpack_from(data)
    begin = _LENGTH.size + length
    return _value(json.loads(data[_LENGTH.size : begin]), data, begin, disk)


def _value(one: Any, data: bytes, begin: int, disk: Disk) -> Any:
    """The value that a text in JSON tells of, whose bytes ``begin`` there."""
    if not isinstance(one, dict):
        return one
    read = partial(_value, data=data, begin=begin, disk=disk)
    if "list" in one:
        return list(map(read, one["list"]))
    if "tuple" in one:
        return tuple(map(read, one["tuple"]))
    if "set" in one:
        return frozenset(map(read, one["set"]))
    if "dict" in one:
        return {read(key): read(x) for key, x in one["dict"]}
    if "class" in one:
        own = {name: read(x) for name, x in one["of"].items()}
        return _made(_classes[one["class"]], own, disk)
    if "table" in one:
        at, size = one["table"]
        return pl.read_ipc_stream(data[begin + at : begin + at + size])
    return _array(one, data, begin, disk)


def _array(one: Any, data: bytes, begin: int, disk: Disk) -> npt.NDArray[Any]:
    """An array of the bytes, or of a file. Raises ``ValueError`` for a type that no column has."""
    dtype, shape = np.dtype(one["dtype"]), tuple(one["shape"])
    if dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"{dtype} is no type of a column")
    if "file" in one:
        count = int(np.prod(shape, dtype=np.int64))
        return disk.open_values(one["file"], one["from"], count, dtype).reshape(shape)
    at, size = one["array"]
    return np.frombuffer(data, dtype, size // dtype.itemsize, begin + at).reshape(shape)
