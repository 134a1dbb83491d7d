"""Encodings of logs: recognised from the first bytes; decoding never fails."""

from __future__ import annotations

import codecs

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding of a file that begins with ``head`` and the size of its byte-order mark.

    UTF-16 without a mark is recognised by its zero bytes: in Latin text every second byte is zero, always on the same
    side.
    """
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name, len(mark)
    pairs = len(head) // 2
    if pairs >= 8 and b"\0" in head:
        even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
        if odd > 0.4 * pairs and even < 0.05 * pairs:
            return "utf-16-le", 0
        if even > 0.4 * pairs and odd < 0.05 * pairs:
            return "utf-16-be", 0
    return "utf-8", 0


def _as_latin1(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are not UTF-8 are read as Latin-1: nothing is lost, and a German log stays readable."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("faultline-latin1", _as_latin1)


def decode(raw: bytes, encoding: str = "utf-8") -> str:
    """Text of ``raw``; never raises."""
    return raw.decode(encoding, "faultline-latin1" if encoding == "utf-8" else "replace")


def begin_of(head: bytes) -> str:
    """The text at the beginning of a file, of which ``head`` may end within a character."""
    encoding, mark = encoding_of(head)
    return decode(head[mark : len(head) - len(head) % 2 if mark != 3 else None], encoding)
