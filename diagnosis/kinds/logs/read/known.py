"""The facts of a line that follow from its key: all that do not depend on its numbers.

Few keys of a log are new. One line of each key is normalised, its header is removed, its level read and its parameters
named; the other lines look up the result. All artifacts of a process share the table, because it holds pure functions
of lines.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.columns import records
from diagnosis.kinds.logs.read import headers, lines
from diagnosis.kinds.logs.text import hashing, mask
from diagnosis.kinds.logs.text.patterns import Haystack

#: Masked messages longer than this are cut: the rest is data, not wording.
TEXT_CHARS = 1_200
#: Distinct keys kept in memory; beyond it the table starts again empty (slower, same result).
_MAX_KEYS = 300_000
#: ``style`` of lines that state no time.
NO_STYLE = 255
#: ``coded`` for lines without a number that is part of their message.
NO_CODE = -1
_FORMS = {
    "form": pl.UInt64(),
    "masked": pl.UInt64(),
    "level": pl.UInt8(),
    "style": pl.UInt8(),
    "flags": pl.UInt8(),
    "who": pl.UInt16(),
    "coded": pl.Int64(),
}
_KINDS = (np.uint64, np.uint8, np.uint8, np.uint8, np.uint16, np.int64)
type Places = npt.NDArray[np.int64]


class Facts(msgspec.Struct):
    """The facts of each line of a block: its masked message, level, time style, flags, the way it names its writer, and
    the normal form of its codes.
    """

    masked: npt.NDArray[np.uint64]
    level: npt.NDArray[np.uint8]
    style: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    who: npt.NDArray[np.uint16]
    coded: Places


class KnownLines:
    """Keys of lines → their facts. Safe for several threads."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}  # masked id -> masked text
        self._lock = threading.Lock()
        self._keys = hashing.Numbering()
        self._table = _facts([np.empty(1024, kind) for kind in _KINDS])
        self._forms = pl.DataFrame(schema=_FORMS)
        self._normal: list[str] = []  # normalised messages that hold codes
        self._coded: dict[tuple[int, str], int] = {}  # (place in _normal, codes) -> masked id
        self._is_broken = False

    @property
    def is_full(self) -> bool:
        if self._lock.locked():  # a thread is filling it, or was
            return False
        return self._is_broken or len(self._keys) > _MAX_KEYS or len(self._coded) > _MAX_KEYS

    def learn(self, rows: lines.Rows) -> tuple[Places, Facts]:
        """Analyses lines with a new key; returns the number of each line's key and the facts by number."""
        with self._lock:
            before = len(self._keys)
            number, fresh = self._keys.add(rows.key)
            if len(fresh):
                self._is_broken = True  # for other threads, if this one fails
                self._learn(rows.text(fresh, lines.LINE_BYTES), before)
                self._is_broken = False
            return number, self._table

    def facts(self, rows: lines.Rows) -> Facts:
        """The facts of all lines of ``rows``, after analysing those with a new key."""
        number, table = self.learn(rows)
        facts = _facts([column[number] for column in _columns(table)])
        self._set_codes(facts, rows)
        return facts

    def _learn(self, text: pl.Series, at: int) -> None:
        """Fills the table from row ``at`` on for new lines, most of which share their normal form with other keys."""
        hashed = (
            text.to_frame("text")
            .select(normal=mask.normalise(pl.col("text")))
            .with_columns(form=pl.col("normal").hash(1))
        )
        forms = hashed.unique("form", keep="any").join(self._forms, on="form", how="anti")
        if len(forms):
            self._forms = pl.concat([self._forms, self._analyse(forms)]).rechunk()
        found = hashed.select("form").join(self._forms, on="form", how="left", maintain_order="left")
        found = found.with_columns(pl.col("style").fill_null(NO_STYLE))
        size = at + len(found)
        if size > len(self._table.masked):
            room = max(size, 2 * len(self._table.masked))
            self._table = _facts([_grown(column, at, room) for column in _columns(self._table)])
        for name, column in zip(Facts.__struct_fields__, _columns(self._table), strict=True):
            column[at:size] = found[name].to_numpy()

    def _analyse(self, fresh: pl.DataFrame) -> pl.DataFrame:
        message = pl.col("message")
        hay = Haystack.of(fresh["normal"])
        seen = (
            fresh.lazy()
            .with_columns(**headers.split(pl.col("normal"), hay))
            .with_columns(
                flags=records.flags(message, pl.col("style"), hay),
                short=message.str.head(2 * TEXT_CHARS),
                coded=mask.has_code(message.str.head(2 * TEXT_CHARS), hay),
            )
            .collect()
        )
        plain = seen.filter(~pl.col("coded"))
        coded = seen.filter(pl.col("coded"))
        places = range(len(self._normal), len(self._normal) + len(coded))
        self._normal += coded["short"].to_list()
        table = pl.concat(
            [
                plain.with_columns(masked=self._ids(plain["short"]), coded=pl.lit(NO_CODE, pl.Int64)),
                coded.with_columns(masked=pl.lit(0, dtype=pl.UInt64), coded=pl.Series(list(places), dtype=pl.Int64)),
            ]
        )
        return table.select([pl.col(name).cast(kind) for name, kind in _FORMS.items()])

    def _ids(self, normal: pl.Series) -> pl.Series:
        """Masked ids of normalised messages; remembers their texts."""
        if normal.is_empty():
            return pl.Series("id", [], dtype=pl.UInt64)
        named = mask.mask(pl.col("text"), Haystack.of(normal)).str.head(TEXT_CHARS)
        masked = normal.to_frame("text").lazy().select(named).collect()["text"]
        ids: dict[str, int] = {}
        out = []
        for text in masked.to_list():
            if text not in ids:
                shown = text if text.isascii() else text.translate(mask.FROM_PRIVATE)
                ids[text] = mask.identity(shown)
                self.texts[ids[text]] = shown
            out.append(ids[text])
        return pl.Series("id", out, dtype=pl.UInt64)

    def _set_codes(self, facts: Facts, rows: lines.Rows) -> None:
        """Gives lines with numbers that are part of the message their own masked ids."""
        places = np.flatnonzero(facts.coded != NO_CODE)
        if not len(places):
            return
        found = pl.DataFrame({"form": facts.coded[places], "text": rows.text(places, 4 * TEXT_CHARS)})
        found = found.lazy().select("form", codes=mask.codes(pl.col("text"), Haystack.of(found["text"]))).collect()
        pairs = found.unique()
        with self._lock:
            new = [pair for pair in pairs.iter_rows() if pair not in self._coded]
            if new:
                normal = pl.Series([mask.set_codes(self._normal[form], codes) for form, codes in new], dtype=pl.String)
                self._coded.update(zip(new, self._ids(normal), strict=True))
            exact = pl.Series("masked", [self._coded[pair] for pair in pairs.iter_rows()], dtype=pl.UInt64)
        found = found.join(pairs.with_columns(exact), on=["form", "codes"], how="left", maintain_order="left")
        facts.masked[places] = found["masked"].to_numpy()


def _facts(columns: list[npt.NDArray[Any]]) -> Facts:
    return Facts(*columns)


def _columns(facts: Facts) -> list[npt.NDArray[Any]]:
    return [getattr(facts, name) for name in Facts.__struct_fields__]


def _grown(column: npt.NDArray[Any], used: int, room: int) -> npt.NDArray[Any]:
    out = np.empty(room, column.dtype)
    out[:used] = column[:used]
    return out


class _Shared:
    """The process's table, replaced by an empty one when it is large; blocks in progress keep the old one."""

    def __init__(self) -> None:
        self._known = KnownLines()

    def get(self) -> KnownLines:
        if self._known.is_full:
            self._known = KnownLines()
        return self._known


shared = _Shared()
