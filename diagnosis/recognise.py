"""The kind of a file, from its first bytes. Imports no column library, so that the site and workers may call it."""

from __future__ import annotations

import re
from typing import Final

from diagnosis.kinds import kind_table
from diagnosis.kinds.logs.read import encodings, wrapped
from diagnosis.model import LOG_KINDS

_DIGITS: Final = re.compile("[0-9]+")
#: Number of bytes that decide for further files of a name.
_CHECKED_BYTES: Final = 1 << 10
_AS_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)
_DATED_FROM_BOOT: Final = re.compile(rb"(?m)^(?:<[0-9]+>)?\[ *[0-9]{1,8}\.[0-9]{6}\]")


def log_kind(head: bytes, path: str) -> str | None:
    """The kind of a log, which begins with ``head``, whose lines are independent: in UTF-8 and not wrapped by a
    collector. None for other files.
    """
    kind = kind_table.kind_of(head, path)
    encoding, mark = encodings.encoding_of(head)
    is_plain = kind in LOG_KINDS and encoding == "utf-8" and not wrapped.is_wrapped(encodings.decode(head[mark:]))
    return kind if is_plain else None


class LogKinds:
    """:func:`log_kind` of many files. Of files whose names differ in numbers only, the first decides; others are of its
    kind if their first lines are, too. First lines that differ in numbers only are looked at once.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._starts: dict[str, tuple[bytes, str | None]] = {}

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
        form = start.translate(_AS_ZERO)
        known = self._starts.get(name)
        if known is not None and known[0] == form:
            return known[1]
        kind = log_kind(start, path)
        self._starts[name] = form, kind
        return kind


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
