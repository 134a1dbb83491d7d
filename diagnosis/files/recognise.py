"""The kind of a file, from its first bytes. Imports no column library, so that the site and
workers may call it.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from diagnosis.kinds import kind_table, logs
from diagnosis.kinds.logs.text import encodings
from diagnosis.kinds.logs.unwrap import wrapped
from diagnosis.model import LOG_KINDS

_DIGITS: Final = re.compile("[0-9]+")
_DIGITS_OF_LINE: Final = re.compile(rb"[0-9]+")
#: Number of bytes that decide for further files of a name.
_CHECKED_BYTES: Final = 1 << 10
#: Lines that are remembered, of one kilobyte at most each.
_MAX_LINES: Final = 1 << 14
_DATED_FROM_BOOT: Final = re.compile(rb"(?m)^(?:<[0-9]+>)?\[ *[0-9]{1,8}\.[0-9]{6}\]")


def log_kind(head: bytes, path: str) -> str | None:
    """The kind of a log, which begins with ``head``, whose lines are independent: in UTF-8 and not wrapped by a
    collector. None for other files.
    """
    return _if_plain(kind_table.kind_of(head, path), head)


def _if_plain(kind: str | None, head: bytes) -> str | None:
    encoding, mark = encodings.encoding_of(head)
    is_plain = kind in LOG_KINDS and encoding == "utf-8" and not wrapped.is_wrapped(encodings.decode(head[mark:]))
    return kind if is_plain else None


class OrdinaryLines:
    """The first lines of logs by the names of their files. A file of such a name that begins with such lines only is no
    other kind of evidence. Names and lines that differ in numbers only are alike. Bounded.
    """

    def __init__(self) -> None:
        self._lines: dict[str, set[bytes]] = {}
        self._count = 0

    def has(self, name: str, lines: Set[bytes]) -> bool:
        """Whether all lines are known of files of this name. O(lines)."""
        return lines <= self._lines.get(name, set())

    def add(self, name: str, lines: Set[bytes]) -> None:
        """Remembers the first lines of a log."""
        if self._count > _MAX_LINES:
            self._lines.clear()
            self._count = 0
        known = self._lines.setdefault(name, set())
        self._count += len(lines - known)
        known |= lines


class LogKinds:
    """:func:`log_kind` of many files. Of files whose names differ in numbers only, the first decides; others are of its
    kind if their first lines are, too. ``ordinary``: what is known of earlier files.
    """

    def __init__(self, ordinary: OrdinaryLines | None = None) -> None:
        self._kinds: dict[str, str] = {}
        self._ordinary = ordinary or OrdinaryLines()

    def of(self, head: bytes, path: str) -> str | None:
        """The kind of a file that begins with ``head``."""
        name = _DIGITS.sub("0", path)
        kind = self._kinds.get(name)
        if kind is None or self._of_start(head[:_CHECKED_BYTES], path, name) is not kind:
            kind = log_kind(head, path)
        if kind is not None:
            self._kinds[name] = kind
        return kind

    def _of_start(self, start: bytes, path: str, name: str) -> str | None:
        lines = set(_DIGITS_OF_LINE.sub(b"0", _whole_lines(start)).split(b"\n"))
        if self._ordinary.has(name, lines):
            return _if_plain(logs.KIND.recognise(start, path), start)
        kind = log_kind(start, path)
        if kind is not None:
            self._ordinary.add(name, lines)
        return kind


def _whole_lines(start: bytes) -> bytes:
    """The first bytes of a file without their last line, which may be cut."""
    return start[: start.rfind(b"\n")] if len(start) == _CHECKED_BYTES and b"\n" in start else start


def whole_lines(raw: bytes, head: bytes) -> int:
    """How many bytes of ``raw``, which begins with a line of a file that begins with ``head``, are whole lines; of a
    journal's export, whole records. 0 if none is whole. In a file that grows a carriage return ends a line, too: a
    progress bar writes no other end for hours.
    """
    encoding, mark = encodings.encoding_of(head)
    if encoding == "utf-8":
        if wrapped.is_export(encodings.decode(head[mark:])):
            return raw.rfind(b"\n\n") + 2 if b"\n\n" in raw else 0
        return max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1
    newline = "\n".encode(encoding)
    at = raw.rfind(newline)
    while at >= 0 and at % 2:  # half of one character and half of the next
        at = raw.rfind(newline, 0, at + 1)
    return at + 2 if at >= 0 else 0


def is_divisible(head: bytes, path: str) -> bool:
    """Whether a file that begins with ``head`` may be parsed in byte ranges cut after newlines: a log with independent
    lines and without a kernel's times since boot, whose date may depend on any line.
    """
    return log_kind(head, path) is not None and not _DATED_FROM_BOOT.search(head)
