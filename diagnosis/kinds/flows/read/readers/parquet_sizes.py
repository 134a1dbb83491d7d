"""What a Parquet file says of its sizes, read without unpacking anything.

A reader of Parquet takes as much memory at once as a page states, and a page of a few kB can state any size. So the
footer and the header of each page (Thrift's compact protocol) are read first, with limits of their own.
"""

from __future__ import annotations

from typing import IO, Any, Final

import msgspec

from diagnosis import thresholds

LIMITS: Final = thresholds.limits("parquet")
_END_BYTES: Final = 8  # the footer's length and the mark
_HEADER_BYTES: Final = 64 << 10
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS: Final = (4, 5, 6)
_MAX_DEPTH: Final = 16


class Unreadable(ValueError):
    """The file states nothing that can be read, or too much; the text is a clause for a sentence."""


class _Thrift(msgspec.Struct):
    """Values of the compact protocol: structs as a dictionary by field number. Raises :class:`Unreadable`."""

    data: bytes
    at: int = 0
    values: int = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            found[field] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        self.values += 1
        if self.values > LIMITS.values or depth > _MAX_DEPTH:
            raise Unreadable("its description is too large")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        sizes = {_BYTE: 1, _DOUBLE: 8}
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in sizes:
            return self._take(sizes[kind])
        raise Unreadable("its description is damaged")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        is_flags = head & 15 in (_TRUE, _FALSE)
        if count > len(self.data) - self.at:
            raise Unreadable("its description is damaged")
        return [self._byte() if is_flags else self._value(head & 15, depth + 1) for _ in range(count)]

    def _take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise Unreadable("its description is cut")
        self.at += count
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        number = 0
        for place in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << place
            if byte < 128:
                return number
        raise Unreadable("its description is damaged")

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)


def check_sizes(file: IO[bytes]) -> None:
    """Raise :class:`Unreadable` if a page of the file states more than one reading may take, or the file cannot tell.
    O(pages).
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES))
    end = file.read(_END_BYTES)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > min(size - _END_BYTES, LIMITS.footer_bytes):
        raise Unreadable("its end is missing, or states a wrong size")
    file.seek(size - _END_BYTES - length)
    footer = _Thrift(file.read(length)).struct()
    _check_schema(_structs(footer.get(2)))
    pages = 0
    for group in _structs(footer.get(4)):
        for chunk in _structs(group.get(1)):
            column = chunk.get(3)
            if isinstance(column, dict):
                pages = _check_pages(file, column, size, pages)


def _check_schema(elements: list[dict[int, Any]]) -> None:
    """Columns that nest deeply end the reader's process. The elements are in depth-first order."""
    left: list[int] = []
    for element in elements:
        while left and left[-1] <= 0:
            left.pop()
        if left:
            left[-1] -= 1
        left.append(_whole(element.get(5)))
        if len(left) > LIMITS.nesting:
            raise Unreadable("its columns nest too deeply")


def _check_pages(file: IO[bytes], column: dict[int, Any], size: int, pages: int) -> int:
    """Check the pages of one column of one row group; returns the number of pages so far."""
    begins = [column[field] for field in (9, 11) if isinstance(column.get(field), int) and column[field] > 0]
    at = min(begins, default=size)
    end = min(at + _whole(column.get(7)), size)
    left = _whole(column.get(5))
    while at < end and left > 0:
        file.seek(at)
        thrift = _Thrift(file.read(_HEADER_BYTES))
        header = thrift.struct()
        stated, packed = _whole(header.get(2)), _whole(header.get(3))
        pages += 1
        if stated > LIMITS.page_bytes:
            raise Unreadable(f"a page of it unfolds to {stated >> 20:,} MiB")
        if pages > LIMITS.pages:
            raise Unreadable(f"it has more than {LIMITS.pages:,} pages")
        data = header.get(5, header.get(8))
        left -= _whole(data.get(1)) if isinstance(data, dict) else 0
        at += thrift.at + packed
    return pages


def _structs(value: Any) -> list[dict[int, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
