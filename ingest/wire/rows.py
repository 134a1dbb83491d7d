"""Rows that collectors push, and the lines they become in a file.

A file of a program that prints its own times gets its lines as they are, so that it equals the file that the collector
read. Lines without a time get the record's time, and its level if the record states one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from operator import le
from typing import Final, NamedTuple

from diagnosis.kinds.logs.unwrap.structured import headed, stamp_of
from diagnosis.values import log_lines
from ingest.refusals import Refused

#: records, and groups of them that share labels, in one request
MAX_RECORDS: Final = 200_000
MAX_GROUPS: Final = 20_000
#: bytes of a batch's digest
DIGEST_BYTES: Final = 8
#: forms of a file's lines: as they were sent, or with the record's time before lines without one
PLAIN, STAMPED = "plain", "stamped"
#: a time of day near the beginning of a line
_CLOCK = re.compile(log_lines.CLOCK.encode())
_HEAD_BYTES = 100
_DAY_NS = 86_400 * 10**9


class Rows:
    """Records of one file, as columns: their times in ns (0: unknown), what stands before their texts if the lines are
    stamped, and the texts as UTF-8, which no sender checks.
    """

    __slots__ = ("heads", "texts", "times")

    def __init__(self, times: list[int], heads: list[str], texts: list[bytes]) -> None:
        self.times, self.heads, self.texts = times, heads, texts

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.times[part], self.heads[part], self.texts[part])

    def add(self, at: int, head: str, text: bytes) -> None:
        self.times.append(at)
        self.heads.append(head)
        self.texts.append(text)

    def extend(self, times: Sequence[int], heads: Sequence[str], texts: Sequence[bytes]) -> None:
        self.times.extend(times)
        self.heads.extend(heads)
        self.texts.extend(texts)


def no_rows() -> Rows:
    return Rows([], [], [])


class Stream(NamedTuple):
    """Rows that share labels. Names of labels are normalised (:func:`structured.name_of`)."""

    labels: dict[str, str]
    rows: Rows


class Budget:
    """Counts what one request may have. Raises :class:`Refused` (413) beyond :data:`MAX_RECORDS`, MOST_GROUPS."""

    def __init__(self) -> None:
        self._records = self._groups = 0

    def spend(self, *, records: int = 0, groups: int = 0) -> None:
        self._records += records
        self._groups += groups
        if self._records > MAX_RECORDS or self._groups > MAX_GROUPS:
            sentence = f"One request may have {MAX_RECORDS:,} records in {MAX_GROUPS:,} groups: send smaller batches."
            raise Refused(sentence, code="too_many", status=413)


def in_time_order(rows: Rows, now_ns: int) -> tuple[Rows, int]:
    """Rows in order of time; those dated more than a day after ``now_ns`` get ``now_ns``. Returns how many those are.

    Rows without a time keep their place behind the row before them.
    """
    times = rows.times
    if times and times[0] and times[-1] <= now_ns and all(map(le, times, times[1:])):  # the usual case
        return rows, 0
    late = last = 0
    known, keys = [], []
    for at in times:
        if at > now_ns + _DAY_NS:
            at, late = now_ns, late + 1  # noqa: PLW2901
        last = at or last
        known.append(at)
        keys.append(last)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return Rows([known[n] for n in order], [rows.heads[n] for n in order], [rows.texts[n] for n in order]), late


def digest_of(rows: Rows) -> bytes:
    """Identifies a batch of one source by times and texts. Empty if no row has a time: equal batches may then be two
    different ones.
    """
    if not any(rows.times):
        return b""
    digest = blake2b(array("Q", rows.times).tobytes(), digest_size=DIGEST_BYTES)
    digest.update(b"\0".join(rows.texts))
    return digest.digest()


def form_of(rows: Rows) -> str:
    """The form of a file that begins with these rows."""
    return PLAIN if any(_CLOCK.search(text, 0, _HEAD_BYTES) for text in rows.texts) else STAMPED


def lines_of(rows: Rows, form: str, now_ns: int) -> bytes:
    """The lines of these rows, in valid UTF-8. Each line of a text gets the record's time and what stands before it;
    a text that states its own time stays as it is.
    """
    texts = [text.rstrip(b"\r\n") for text in rows.texts]
    if form != PLAIN:
        texts = [
            text if _CLOCK.search(text, 0, _HEAD_BYTES) else _stamped(text, at or now_ns, head)
            for at, head, text in zip(rows.times, rows.heads, texts, strict=True)
        ]
    data = b"\n".join([*texts, b""])
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "replace").encode()
    return data


def _stamped(text: bytes, at_ns: int, head: str) -> bytes:
    before = f"{stamp_of(at_ns)} "
    if b"\n" not in text:
        return f"{before}{head}".encode("utf-8", "replace") + text
    lines = text.decode("utf-8", "replace").split("\n")
    return "\n".join(headed(lines, before, head)).encode("utf-8", "replace")
