"""The steps that read every byte of a log, in one pass of compiled code: line ends, keys, ranks, hosts.

A line's *key* hashes its bytes with every run of digits, every hexadecimal word and every UUID, taken as one ``0``; a
word is hexadecimal if it is ``0x…`` or has only hexadecimal digits and begins with a decimal one or holds two runs of
them. Lines with equal keys differ only in numbers, so everything that does not depend on numbers is computed once per
key (``mask.normalise`` is the same function written as patterns). All kernels take UTF-8 ``data`` and the ``start`` and
``end`` of each line in it.
"""

# Kernels take flat arrays and return early.
# ruff: noqa: PLR0915, PLR0917
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.kinds.logs.text.stamps import NO_TIME, iso
from diagnosis.processing.jit import compiled

type Bytes = npt.NDArray[np.uint8]
type Places = npt.NDArray[np.int64]

_PRIME = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


# Classes of bytes: their effect on the current word. Those of words are bits.
_OTHER, _DIGIT, _HEX, _LETTER, _NEWLINE = 0, 1, 2, 4, 8
_IN_WORD = _DIGIT | _HEX | _LETTER
#: Text is hashed in words of seven bytes; a bit before them tells how many there are.
_EMPTY = np.uint64(1)
_FULL = np.uint64(1 << 56)
_BYTE = np.uint64(8)
_ZERO = np.uint64(48)


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
def _mix(value: np.uint64, word: np.uint64) -> np.uint64:
    """The hash of a text that goes on with ``word``. Its callers make the result a ``uint64`` again:
    the interpreter gets a number of Python from compiled code.
    """
    return (((value << np.uint64(23)) | (value >> np.uint64(41))) ^ word) * _SPREAD


@compiled
def _ended(value: np.uint64, word: np.uint64) -> np.uint64:
    """The hash of a text that ends with ``word``."""
    mixed = np.uint64(_mix(value, word))
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _MIX
    return mixed ^ (mixed >> np.uint64(29))


@compiled
def _is_uuid(data: Bytes, classes: Bytes, at: int) -> bool:
    """Whether the 36 bytes at ``at``, the last 12 of which are a word, are a separate UUID."""
    if (at > 0 and data[at - 1] == 45) or (at + 36 < len(data) and data[at + 36] == 45):
        return False
    for index in range(at, at + 36):
        place = index - at
        if place in (8, 13, 18, 23):
            if data[index] != 45:
                return False
        elif classes[data[index]] not in (_DIGIT, _HEX):
            return False
    return True


@compiled
def _is_number(data: Bytes, classes: Bytes, begin: int, end: int, kinds: int, runs: int) -> bool:
    """Whether a word with these ``kinds`` of bytes and so many ``runs`` of digits is a number."""
    if classes[data[begin]] != _DIGIT:
        return kinds & _LETTER == 0 and runs > 1
    if kinds & _LETTER == 0:
        return runs > 0
    if data[begin] != 48 or data[begin + 1] not in (120, 88) or end - begin < 3:
        return False
    after = 0
    for index in range(begin + 2, end):
        after |= classes[data[index]]
    return after & _LETTER == 0


@compiled
def _keys(data: Bytes, classes: Bytes, end: Places, key: npt.NDArray[np.uint64]) -> int:
    line = 0
    value = _SEED  # the hash of the line so far, but for its last bytes,
    word = _EMPTY  # which are these
    value_before = _SEED  # the same before the current word
    word_before = _EMPTY
    uuid_at = -99  # start of the last group of eight letters and a dash, and the hash before it
    uuid_value = _SEED
    uuid_word = _EMPTY
    begin = 0  # of the current word
    kinds = 0  # of its bytes
    runs = 0  # of digits in it
    last = _OTHER
    size = len(data)
    for index in range(size + 1):
        byte = data[index] if index < size else np.uint8(10)
        kind = classes[byte]
        if kind & _IN_WORD:
            if kind != _DIGIT:
                word = (word << _BYTE) | np.uint64(byte)
            elif last != _DIGIT:
                word = (word << _BYTE) | _ZERO
                runs += 1
            kinds |= kind
            last = kind
            if word >= _FULL:
                value = np.uint64(_mix(value, word))
                word = _EMPTY
            continue
        if byte == 45 and index - begin == 8:
            uuid_at = begin
            uuid_value = value_before
            uuid_word = word_before
        is_mixed = kinds & _DIGIT and kinds != _DIGIT  # digits alone are one zero already
        if is_mixed or index == uuid_at + 36:
            is_number = is_mixed and _is_number(data, classes, begin, index, kinds, runs)
            if index == uuid_at + 36 and index - begin == 12 and _is_uuid(data, classes, uuid_at):
                is_number = True
                value_before = uuid_value
                word_before = uuid_word
            if is_number:
                value = value_before
                word = (word_before << _BYTE) | _ZERO
                if word >= _FULL:
                    value = np.uint64(_mix(value, word))
                    word = _EMPTY
        if kind != _NEWLINE:
            word = (word << _BYTE) | np.uint64(byte)
            if word >= _FULL:
                value = np.uint64(_mix(value, word))
                word = _EMPTY
        else:
            if index == size and (size == 0 or data[size - 1] == 10):
                break
            if line < len(end):
                key[line] = _ended(value, word)
                end[line] = index
            line += 1
            value = _SEED
            word = _EMPTY
        value_before = value
        word_before = word
        begin = index + 1
        kinds = 0
        runs = 0
        last = _OTHER
    return line


def keys(data: Bytes, end: Places, key: npt.NDArray[np.uint64]) -> int:
    """Fills ``end`` (the position of each line's newline) and ``key`` up to their length; returns the number of lines.
    A last line needs no newline. O(bytes).
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
def _is_host(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in (45, 46, 95)


@compiled
def leading(data: Bytes, start: Places, end: Places, rows: Places, value: npt.NDArray[np.int64]) -> None:
    """The number that begins each row, or follows its first word, and is followed by a colon (``srun --label``,
    ``mpiexec --label``), else -1.
    """
    for place in range(len(rows)):
        row = rows[place]
        at = start[row]
        stop = end[row]
        while at < stop and data[at] == 32:
            at += 1
        if at < stop and not 48 <= data[at] <= 57:
            while at < stop and _is_host(data[at]):
                at += 1
            at += 1
        first = at
        number = 0
        while at < stop and at - first < 7 and 48 <= data[at] <= 57:
            number = 10 * number + (data[at] - 48)
            at += 1
        value[place] = number if at > first and at < stop and data[at] == 58 else -1


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
        if at + 20 < stop and data[at + 4] == 45 and data[at + 7] == 45 and iso(data, at, stop, False) != NO_TIME:
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
        after = at
        if after + 1 < stop and data[after] == 32 and 48 <= data[after + 1] <= 57:
            after += 1
            while after < stop and 48 <= data[after] <= 57:
                after += 1
        is_named = at > begin and after + 1 < stop and data[after] == 58 and data[after + 1] == 32
        after = at
        while after < stop and data[after] == 32:
            after += 1
        if is_named or (
            at > begin and after > at and after + 1 < stop and data[after] == 124 and data[after + 1] == 32
        ):
            first[place], last[place], word[place] = begin, at, value
