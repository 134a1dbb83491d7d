"""What has to look at every byte of a log, in one pass of machine code: line ends, keys, times, ranks.

A line's *key* hashes its bytes with every run of digits, and every hexadecimal word, taken as one ``0``; a word is
hexadecimal if it is ``0x…`` or has only
hexadecimal digits and begins with a decimal one or holds two runs of them. Lines with equal keys are equal but for
their numbers, so everything that does
not depend on numbers is worked out once per key (``mask.normalise`` is the same function written as patterns). All
kernels take UTF-8 ``data`` and the ``start`` and ``end`` of each line in it.
"""

# Kernels take flat arrays and return early.
# ruff: noqa: PLR0911, PLR0917
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.jit import compiled

type Bytes = npt.NDArray[np.uint8]
type Places = npt.NDArray[np.int64]

#: The time of a line that states none.
NO_TIME = np.iinfo(np.int64).min
_PRIME = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


# Classes of bytes: what they do to the word that is being read.
_OTHER, _DIGIT, _HEX, _LETTER, _NEWLINE = range(5)


def _classes() -> Bytes:
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        char = chr(byte)
        if byte == 10:
            table[byte] = _NEWLINE
        elif "0" <= char <= "9":
            table[byte] = _DIGIT
        elif char in "abcdefABCDEF":
            table[byte] = _HEX
        elif byte < 128 and (char.isalpha() or char == "_"):
            table[byte] = _LETTER
    return table


_CLASS = _classes()


@compiled
def _keys(data: Bytes, classes: Bytes, end: Places, key: npt.NDArray[np.uint64]) -> int:
    line = 0
    value = _SEED
    before = _SEED  # the value before the word that is being read
    runs = 0  # of digits in that word
    size_of_word = 0
    is_hex = True  # so far
    last = _OTHER
    size = len(data)
    for index in range(size + 1):
        byte = data[index] if index < size else np.uint8(10)
        kind = classes[byte]
        if kind == _DIGIT:
            if size_of_word == 0:
                before = value
            size_of_word += 1
            if last != _DIGIT:
                value = (value ^ np.uint64(48)) * _PRIME
                runs += 1
        elif kind in (_HEX, _LETTER):
            if size_of_word == 0:
                before = value
                if kind == _LETTER:
                    is_hex = False
                else:
                    runs = -1  # one run of digits is not enough in a word that begins with a letter
            elif kind == _LETTER:
                is_0x = size_of_word == 1 and byte in (120, 88) and data[index - 1] == 48
                is_hex = is_hex and is_0x
            size_of_word += 1
            value = (value ^ np.uint64(byte)) * _PRIME
        else:
            if size_of_word > 1 and is_hex and runs > 0:
                value = (before ^ np.uint64(48)) * _PRIME
            size_of_word = 0
            runs = 0
            is_hex = True
            if kind == _NEWLINE:
                if index == size and (size == 0 or data[size - 1] == 10):
                    break
                value ^= value >> np.uint64(33)
                value *= _MIX
                key[line] = value ^ (value >> np.uint64(29))
                end[line] = index
                line += 1
                value = _SEED
            else:
                value = (value ^ np.uint64(byte)) * _PRIME
        last = kind
    return line


def keys(data: Bytes, end: Places, key: npt.NDArray[np.uint64]) -> int:
    """Fills ``end`` (where each line's newline is) and ``key``; returns the number of lines. A last line needs no
    newline. O(bytes).
    """
    return _keys(data, _CLASS, end, key)


@compiled
def gather(data: Bytes, start: Places, end: Places, rows: Places, limit: int, out: Bytes) -> int:
    """Copies at most ``limit`` bytes of each of ``rows``, a newline after each, into ``out``; returns the bytes
    written. Never cuts a character.
    """
    at = 0
    for row in rows:
        first = start[row]
        last = end[row]
        if last - first > limit:
            last = first + limit
            while last > first and (data[last] & 0xC0) == 0x80:
                last -= 1
        for index in range(first, last):
            out[at] = data[index]
            at += 1
        out[at] = 10
        at += 1
    return at


@compiled
def _number(data: Bytes, at: int, digits: int, stop: int) -> int:
    """The number of exactly ``digits`` digits at ``at``, or -1."""
    if at + digits > stop:
        return -1
    value = 0
    for index in range(at, at + digits):
        byte = data[index]
        if byte < 48 or byte > 57:
            return -1
        value = 10 * value + (byte - 48)
    return value


@compiled
def _is(data: Bytes, at: int, stop: int, byte: int) -> bool:
    return at < stop and data[at] == byte


@compiled
def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    shifted = month - 3 if month > 2 else month + 9
    of_year = (153 * shifted + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@compiled
def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@compiled
def _iso(data: Bytes, at: int, stop: int, is_zoned: bool) -> int:
    """Nanoseconds of the stamp ``2026-03-01 08:00:00,123+01:00`` at ``at``, or NO_TIME."""
    year = _number(data, at, 4, stop)
    month = _number(data, at + 5, 2, stop)
    day = _number(data, at + 8, 2, stop)
    hour = _number(data, at + 11, 2, stop)
    minute = _number(data, at + 14, 2, stop)
    second = _number(data, at + 17, 2, stop)
    if min(year, month, day, hour, minute, second) < 0:
        return NO_TIME
    if not (_is(data, at + 4, stop, 45) and _is(data, at + 7, stop, 45)):
        return NO_TIME
    if not (_is(data, at + 10, stop, 32) or _is(data, at + 10, stop, 84) or _is(data, at + 10, stop, 95)):
        return NO_TIME
    if not (_is(data, at + 13, stop, 58) and _is(data, at + 16, stop, 58)):
        return NO_TIME
    if year < 1700 or year > 2200 or month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
        return NO_TIME
    if hour > 23 or minute > 59 or second > 59:
        return NO_TIME
    time = (((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000
    at += 19
    if at + 1 < stop and (data[at] == 44 or data[at] == 46) and 48 <= data[at + 1] <= 57:
        at += 1
        unit = 100_000_000
        while at < stop and 48 <= data[at] <= 57:
            time += (data[at] - 48) * unit
            unit //= 10
            at += 1
    if not is_zoned:
        return time
    if _is(data, at, stop, 32):
        at += 1
    if _is(data, at, stop, 90):
        return time
    if not (_is(data, at, stop, 43) or _is(data, at, stop, 45)):
        return NO_TIME
    hours = _number(data, at + 1, 2, stop)
    if hours < 0 or hours > 23:
        return NO_TIME
    minutes = _number(data, at + (4 if _is(data, at + 3, stop, 58) else 3), 2, stop)
    shift = (hours * 60 + max(minutes, 0)) * 60_000_000_000
    return time + shift if data[at] == 45 else time - shift


@compiled
def iso_times(
    data: Bytes, start: Places, end: Places, rows: Places, reach: int, is_zoned: bool, time: npt.NDArray[np.int64]
) -> None:
    """``time`` of each of ``rows``: its first ISO stamp that begins in its first ``reach`` bytes, ns as if UTC, or
    NO_TIME.
    """
    for place in range(len(rows)):
        row = rows[place]
        stop = end[row]
        found = NO_TIME
        last = min(stop - 18, start[row] + reach)
        for at in range(start[row], last):
            if data[at + 4] == 45 and data[at + 7] == 45:
                found = _iso(data, at, stop, is_zoned)
                if found != NO_TIME:
                    break
        time[place] = found


@compiled
def tagged(
    data: Bytes, start: Places, end: Places, rows: Places, tag: Bytes, reach: int, value: npt.NDArray[np.int64]
) -> None:
    """The number between ``tag`` and ``]`` in the first ``reach`` bytes of each row, case of letters ignored, else
    -1. ``tag`` is lower case.
    """
    size = len(tag)
    for place in range(len(rows)):
        row = rows[place]
        stop = min(end[row], start[row] + reach)
        found = -1
        at = start[row]
        while at + size < stop:
            same = 0
            while same < size and (data[at + same] | (32 if tag[same] >= 97 else 0)) == tag[same]:
                same += 1
            if same == size:
                index = at + size
                if data[index] == 32:
                    index += 1
                number = 0
                first = index
                while index < stop and index - first < 8 and 48 <= data[index] <= 57:
                    number = 10 * number + (data[index] - 48)
                    index += 1
                if index > first and index < stop and data[index] == 93:
                    found = number
                    break
            at += 1
        value[place] = found


@compiled
def leading(data: Bytes, start: Places, end: Places, rows: Places, value: npt.NDArray[np.int64]) -> None:
    """The number that begins each row and is followed by a colon (``srun --label``), else -1."""
    for place in range(len(rows)):
        row = rows[place]
        at = start[row]
        stop = end[row]
        while at < stop and data[at] == 32:
            at += 1
        first = at
        number = 0
        while at < stop and at - first < 7 and 48 <= data[at] <= 57:
            number = 10 * number + (data[at] - 48)
            at += 1
        value[place] = number if at > first and at < stop and data[at] == 58 else -1


@compiled
def _is_host(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in (45, 46, 95)


@compiled
def hosts(
    data: Bytes,
    start: Places,
    end: Places,
    rows: Places,
    reach: int,
    first: Places,
    last: Places,
    word: npt.NDArray[np.uint64],
) -> None:
    """The host of NCCL's ``host:pid:tid [device]`` in the first ``reach`` bytes of each row: its bytes ``first``
    to ``last`` and their hash, 0 without one.
    """
    for place in range(len(rows)):
        row = rows[place]
        stop = min(end[row], start[row] + reach)
        word[place] = 0
        begin = start[row]
        at = begin
        while at < stop:
            if data[at] == 58 and at > begin:
                index = at
                groups = 0
                while groups < 2 and index + 1 < stop and data[index] == 58 and 48 <= data[index + 1] <= 57:
                    index += 1
                    while index < stop and 48 <= data[index] <= 57:
                        index += 1
                    groups += 1
                if groups == 2 and index + 1 < stop and data[index] == 32 and data[index + 1] == 91:
                    value = _SEED
                    for char in range(begin, at):
                        value = (value ^ np.uint64(data[char])) * _PRIME
                    first[place], last[place], word[place] = begin, at, value
                    break
            if not _is_host(data[at]):
                begin = at + 1
            at += 1


@compiled
def labels(
    data: Bytes, start: Places, end: Places, rows: Places, first: Places, last: Places, word: npt.NDArray[np.uint64]
) -> None:
    """The word that labels each row, ``worker-3: …``, after white space and an ISO stamp if there is one; as
    :func:`hosts` gives it.
    """
    for place in range(len(rows)):
        row = rows[place]
        stop = end[row]
        word[place] = 0
        at = start[row]
        while at < stop and data[at] == 32:
            at += 1
        if at + 20 < stop and data[at + 4] == 45 and data[at + 7] == 45 and _iso(data, at, stop, False) != NO_TIME:
            at += 19
            while at < stop and data[at] != 32:
                at += 1
            while at < stop and data[at] == 32:
                at += 1
        begin = at
        value = _SEED
        while at < stop and _is_host(data[at]):
            value = (value ^ np.uint64(data[at])) * _PRIME
            at += 1
        is_named = at > begin and at + 1 < stop and data[at] == 58 and data[at + 1] == 32
        after = at
        while after < stop and data[after] == 32:
            after += 1
        if is_named or (
            at > begin and after > at and after + 1 < stop and data[after] == 124 and data[after + 1] == 32
        ):
            first[place], last[place], word[place] = begin, at, value
