"""Distinct 64-bit words, numbered in the order in which they appear: one hash table with open addressing, in machine
code.

It counts keys of lines, their writers and their messages; a column library would sort or copy whole tables for this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.processing import jit
from diagnosis.processing.jit import compiled

type Words = npt.NDArray[np.uint64]
type Places = npt.NDArray[np.int64]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_VALUES = np.uint64(0xBF58476D1CE4E5B9)
_FREE = -1
_MIN_SLOTS = 1 << 10


@compiled
def _slot(word: np.uint64, last: int) -> int:
    spread = word * _SPREAD
    return np.int64((spread ^ (spread >> np.uint64(32))) & np.uint64(last))  # type: ignore[return-value]


@compiled
def _number(  # noqa: PLR0917
    words: Words, begin: int, table: Words, numbers: Places, known: int, number: Places, fresh: Places
) -> tuple[int, int]:
    """Numbers ``words`` from ``begin`` on; stops where the table is half full. Returns the row reached and how many
    words are known.
    """
    last = len(table) - 1
    before = known
    for row in range(begin, len(words)):
        word = words[row]
        slot = _slot(word, last)
        while numbers[slot] != _FREE and table[slot] != word:
            slot = (slot + 1) & last
        if numbers[slot] == _FREE:
            if 2 * known > last:
                return row, known
            table[slot] = word
            numbers[slot] = known
            fresh[known - before] = row
            known += 1
        number[row] = numbers[slot]
    return len(words), known


@compiled
def _move(table: Words, numbers: Places, to_table: Words, to_numbers: Places) -> None:
    last = len(to_table) - 1
    for old in range(len(table)):
        if numbers[old] != _FREE:
            slot = _slot(table[old], last)
            while to_numbers[slot] != _FREE:
                slot = (slot + 1) & last
            to_table[slot] = table[old]
            to_numbers[slot] = numbers[old]


class Numbering:
    """Gives each distinct word the next number, from 0 on. Not safe for several threads at once."""

    def __init__(self) -> None:
        self._held = np.zeros(_MIN_SLOTS, np.uint64)
        self._numbers = np.full(_MIN_SLOTS, _FREE, np.int64)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def add(self, words: Words) -> tuple[Places, Places]:
        """The number of each word, and the rows of ``words`` in which a new one appears first, in order. O(words)."""
        number = np.empty(len(words), np.int64)
        fresh = np.empty(len(words), np.int64)
        row, before = 0, self._known
        while True:
            at = self._known - before
            row, self._known = _number(words, row, self._held, self._numbers, self._known, number, fresh[at:])
            if row == len(words):
                return number, fresh[: self._known - before].copy()
            table, numbers = self._held, self._numbers
            self._held = np.zeros(4 * len(table), np.uint64)
            self._numbers = np.full(4 * len(table), _FREE, np.int64)
            _move(table, numbers, self._held, self._numbers)


def distinct(words: Words) -> tuple[Places, Places]:
    """The number of each word among the distinct ones, and the row in which each of those appears first. O(words)."""
    return Numbering().add(words)


def hash_pair(words: Words, values: npt.NDArray[np.int64] | Words) -> Words:
    """One hash of two columns."""
    word = (words ^ (values.view(np.uint64) * _VALUES)) * _SPREAD
    word ^= word >> np.uint64(29)
    return word


@compiled
def tally(number: Places, level: npt.NDArray[np.uint8], count: Places, worst: npt.NDArray[np.uint8]) -> None:
    """Adds each row to the ``count`` of its ``number`` and keeps the ``worst`` level of it."""
    for row in range(len(number)):
        at = number[row]
        count[at] += 1
        worst[at] = max(worst[at], level[row])


def warm_up() -> None:
    """Loads the compiled code, by a call that uses it, before a job does."""
    jit.load()
    tally(np.zeros(1, np.int64), np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.uint8))
