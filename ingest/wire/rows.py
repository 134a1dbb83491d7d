"""Rows that collectors push, and the lines they become in a file.

A file of a program that prints its own times gets its lines as they are, so that it equals the file that the collector
read. Lines without a time get the record's time, and its level if the record states one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from operator import le
from typing import Final, NamedTuple

from ingest.refusals import Refused

#: records, and groups of them that share labels, in one request
MOST_RECORDS: Final = 200_000
MOST_GROUPS: Final = 20_000
#: bytes of a batch's digest
DIGEST_BYTES: Final = 8
#: forms of a file's lines: as they were sent, or with the record's time before lines without one
PLAIN, STAMPED = "plain", "stamped"
#: a time of day near the beginning of a line
_CLOCK = re.compile(r"\d\d?:\d\d:\d\d")
_REACH = 100
_DAY_NS = 86_400 * 10**9


class Row(NamedTuple):
    """One record: its time in ns (0: unknown), what stands before its text if the line is stamped, and the text."""

    at: int
    head: str
    text: str


class Stream(NamedTuple):
    """Rows that share labels. Names of labels are normalised (:func:`name_of`)."""

    labels: dict[str, str]
    rows: list[Row]


class Budget:
    """Counts what one request may have. Raises :class:`Refused` (413) beyond :data:`MOST_RECORDS`, MOST_GROUPS."""

    def __init__(self) -> None:
        self._records = self._groups = 0

    def spend(self, *, records: int = 0, groups: int = 0) -> None:
        self._records += records
        self._groups += groups
        if self._records > MOST_RECORDS or self._groups > MOST_GROUPS:
            sentence = f"One request may have {MOST_RECORDS:,} records in {MOST_GROUPS:,} groups: send smaller batches."
            raise Refused(sentence, code="too_many", status=413)


@lru_cache(4096)
def name_of(raw: str) -> str:
    """The name of a label or attribute in lower case, with ``_`` for all other separators."""
    return re.sub(r"[^a-z0-9]+", "_", raw.lower())[:200].strip("_")


def dated(rows: Sequence[Row], now_ns: int) -> tuple[list[Row], int]:
    """Rows in order of time; those dated more than a day after ``now_ns`` get ``now_ns``. Returns how many those are.

    Rows without a time keep their place behind the row before them.
    """
    times = [row.at for row in rows]
    if times and times[0] and times[-1] <= now_ns and all(map(le, times, times[1:])):  # the usual case
        return list(rows), 0
    late = last = 0
    keyed = []
    for row in rows:
        if row.at > now_ns + _DAY_NS:
            row, late = row._replace(at=now_ns), late + 1  # noqa: PLW2901
        last = row.at or last
        keyed.append((last, row))
    keyed.sort(key=lambda pair: pair[0])
    return [row for _, row in keyed], late


def digest_of(rows: Sequence[Row]) -> bytes:
    """Identifies a batch of one source by times and texts. Empty if no row has a time: equal batches may then be two
    different ones.
    """
    times = array("Q", (row.at for row in rows))
    if not any(times):
        return b""
    digest = blake2b(times.tobytes(), digest_size=DIGEST_BYTES)
    digest.update("\0".join([row.text for row in rows]).encode("utf-8", "replace"))
    return digest.digest()


def form_of(rows: Iterable[Row]) -> str:
    """The form of a file that begins with these rows."""
    return PLAIN if any(_CLOCK.search(row.text, 0, _REACH) for row in rows) else STAMPED


def lines_of(rows: Iterable[Row], form: str, now_ns: int) -> bytes:
    """The lines of these rows. A text of several lines is stamped once."""
    if form == PLAIN:
        return "".join([f"{row.text.rstrip('\r\n')}\n" for row in rows]).encode("utf-8", "replace")
    out = []
    for at, head, text in rows:
        stripped = text.rstrip("\r\n")
        if _CLOCK.search(stripped, 0, _REACH):
            out.append(f"{stripped}\n")
        else:
            out.append(f"{_stamp(at or now_ns)} {head}{stripped}\n")
    return "".join(out).encode("utf-8", "replace")


def _stamp(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
