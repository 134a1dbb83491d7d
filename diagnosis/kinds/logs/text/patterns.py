"""Searching for patterns in the strings of a job.

To compile a pattern costs as much as to match it on some hundred lines. So in few strings only those are compiled whose
literals (:mod:`literals`) the strings hold, and in the form that ASCII text needs: ``\\w``, ``\\b`` and ``[^…]`` cover
all of Unicode; in ASCII text the form made here matches exactly the same, and compiles in about a tenth of the time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Self

import msgspec
import polars as pl

from diagnosis.kinds.logs.text.literals import Way
from diagnosis.kinds.logs.text.stored_literals import ways_of

#: Bytes of strings up to which they are looked through for the literals of each pattern. In more
#: the search itself takes longer than to compile a pattern.
MAX_LOOKED_THROUGH_BYTES: Final = 1 << 18
_ALONE = {
    "w": "[0-9A-Za-z_]",
    "W": r"[\x00-\x7F&&[^0-9A-Za-z_]]",
    "s": r"[\t\n\x0B\x0C\r ]",
    "S": r"[\x00-\x08\x0E-\x1F!-\x7F]",
    "d": "[0-9]",
    "b": r"(?-u:\b)",
}
_IN_CLASS = {"w": "0-9A-Za-z_", "s": r"\t\n\x0B\x0C\r ", "d": "0-9"}
#: What is written alike in both forms is one piece.
_PIECE = re.compile(r"\\.|\[\^?|[^\\.\[\]]+|.", re.DOTALL)
#: Outside and at the beginning of classes.
_ASCII = {".": r"[\x00-\x09\x0B-\x7F]", "[^": r"[\x00-\x7F&&[^"}
_CLOSING = {"[": "]", "[^": "]]"}


@cache
def ascii_form(pattern: str) -> str:
    """A pattern that finds in ASCII text what ``pattern`` finds there; no ``\\W``, ``\\S`` in classes."""
    out: list[str] = []
    opened: list[str] = []  # the closing parts of the current classes; they nest
    for piece in _PIECE.findall(pattern):
        if opened and piece in {r"\W", r"\S"}:
            raise ValueError(f"{piece} in a class: {pattern}")
        if opened and piece == "]":
            out.append(opened.pop())
            continue
        out.append(_ascii_piece(piece, is_in_class=bool(opened)))
        if piece in _CLOSING:
            opened.append(_CLOSING[piece])
    return "".join(out)


def _ascii_piece(piece: str, *, is_in_class: bool) -> str:
    if piece[0] == "\\":
        return (_IN_CLASS if is_in_class else _ALONE).get(piece[1], piece)
    if is_in_class and piece == ".":
        return piece
    return _ASCII.get(piece, piece)


class Haystack(msgspec.Struct, frozen=True):
    """Strings in which patterns are searched: in these strings themselves, or in parts of them.

    ``is_ascii``: whether all of them are; ``text``: all of them in lower case, None if they are too many.
    """

    is_ascii: bool = False
    text: str | None = None

    @classmethod
    def of(cls, strings: pl.Series) -> Self:
        """O(bytes)."""
        if strings.estimated_size() > MAX_LOOKED_THROUGH_BYTES:
            return cls(bool((strings.str.len_bytes() == strings.str.len_chars()).all()))
        text = "\n".join(filter(None, strings))
        # the long s is the only letter that matches another one in lower case
        return cls(text.isascii(), text.lower().replace("\u017f", "s"))

    def form(self, pattern: str) -> str:
        """The pattern in the form that suits the strings."""
        return ascii_form(pattern) if self.is_ascii else pattern

    def holds(self, word: str) -> bool:
        """Whether the strings hold a word in lower case, or may hold it, because they are too many."""
        return self.text is None or word in self.text

    def may_hold(self, pattern: str) -> bool:
        """Whether the strings hold the literals that a match needs."""
        return any(map(self._fulfils, ways_of(pattern)))

    def _fulfils(self, way: Way) -> bool:
        return all(any(map(self.holds, strings)) for strings in way)

    def contains[Part: (pl.Expr, pl.Series)](self, part: Part, pattern: str) -> Part:
        """Whether the pattern matches; null for null."""
        if self.may_hold(pattern):
            return part.str.contains(self.form(pattern))
        if isinstance(part, pl.Series) and not part.null_count():  # no operation on a table
            return pl.Series(part.name, [False]).new_from_index(0, part.len())
        return part.str.len_bytes() < 0

    def replace[Part: (pl.Expr, pl.Series)](self, part: Part, pattern: str, by: str) -> Part:
        """Without the first match."""
        return part.str.replace(self.form(pattern), by) if self.may_hold(pattern) else part

    def replace_all[Part: (pl.Expr, pl.Series)](self, part: Part, pattern: str, by: str) -> Part:
        """Without all matches."""
        return part.str.replace_all(self.form(pattern), by) if self.may_hold(pattern) else part

    def extract(self, part: pl.Expr, pattern: str, group: int) -> pl.Expr:
        """A group of the first match; null without one."""
        if not self.may_hold(pattern):
            return pl.when(part.str.len_bytes() < 0).then(part)
        return part.str.extract(self.form(pattern), group)


#: Strings of which nothing is known.
ANY: Final = Haystack()
