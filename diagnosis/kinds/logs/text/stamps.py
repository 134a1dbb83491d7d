"""The stamps of lines as nanoseconds, in one pass of compiled code: ISO 8601, glog's and syslog's.

They are nearly all stamps of training logs; the rest is read by patterns (``times``). All loops take UTF-8 ``data``
and the ``start`` and ``end`` of each line in it.
"""

# Loops take flat arrays and return early.
# ruff: noqa: PLR0917
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diagnosis.processing.jit import compiled

type Bytes = npt.NDArray[np.uint8]
type Places = npt.NDArray[np.int64]

#: The time of a line that states none.
NO_TIME = np.iinfo(np.int64).min
#: The time of a line that only patterns decide: a letter outside ASCII before the stamp, a leap second, an odd year.
UNDECIDED = NO_TIME + 1
#: The year of stamps that name none: a leap year.
BARE_YEAR = 1972
_NAMES = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_MONTHS = np.array([int.from_bytes(name) for name in _NAMES])


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
def _is_byte(data: Bytes, at: int, stop: int, byte: int) -> bool:
    return at < stop and data[at] == byte


@compiled
def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar."""
    # unsigned, whose division is cheaper; March begins the year, so that the leap day ends it
    since = np.uint64(year - 1 if month <= 2 else year)
    shifted = np.uint64(month - 3 if month > 2 else month + 9)
    of_year = (np.uint64(153) * shifted + np.uint64(2)) // np.uint64(5)
    leaps = since // np.uint64(4) - since // np.uint64(100) + since // np.uint64(400)
    return np.int64(since * np.uint64(365) + leaps + of_year) + day - 719469  # type: ignore[return-value]


@compiled
def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@compiled
def _two(data: Bytes, at: int) -> int:
    """The number of two digits, or one below -1000."""
    tens = np.int64(data[at]) - 48
    ones = np.int64(data[at + 1]) - 48
    return 10 * tens + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -9999  # type: ignore[return-value]


@compiled
def iso(data: Bytes, at: int, stop: int, is_zoned: bool) -> int:
    """Nanoseconds of the stamp ``2026-03-01 08:00:00,123+01:00`` at ``at``, or NO_TIME."""
    if at + 19 > stop or data[at + 4] != 45 or data[at + 7] != 45 or data[at + 13] != 58 or data[at + 16] != 58:
        return NO_TIME
    if data[at + 10] not in (32, 44, 84, 95):
        return NO_TIME
    year = 100 * _two(data, at) + _two(data, at + 2)
    month = _two(data, at + 5)
    day = _two(data, at + 8)
    hour = _two(data, at + 11)
    minute = _two(data, at + 14)
    second = _two(data, at + 17)
    if year < 1700 or year > 2200 or month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
        return NO_TIME
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
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
    if _is_byte(data, at, stop, 32):
        at += 1
    if _is_byte(data, at, stop, 90):
        return time
    if not (_is_byte(data, at, stop, 43) or _is_byte(data, at, stop, 45)):
        return NO_TIME
    hours = _number(data, at + 1, 2, stop)
    if hours < 0 or hours > 23:
        return NO_TIME
    minutes = _number(data, at + (4 if _is_byte(data, at + 3, stop, 58) else 3), 2, stop)
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
            if data[at + 7] == 45 and data[at + 4] == 45 and data[at + 16] == 58:
                found = iso(data, at, stop, is_zoned)
                if found != NO_TIME:
                    break
        time[place] = found


@compiled
def _digits(data: Bytes, at: int, stop: int, most: int) -> int:
    """How many digits begin at ``at``; counts no more than ``most``."""
    count = 0
    while count < most and at + count < stop and 48 <= data[at + count] <= 57:
        count += 1
    return count


@compiled
def _has_clock(data: Bytes, at: int, stop: int) -> bool:
    """Whether ``08:00:00`` begins at ``at``, with any digits."""
    if at + 8 > stop or data[at + 2] != 58 or data[at + 5] != 58:
        return False
    return _two(data, at) >= 0 and _two(data, at + 3) >= 0 and _two(data, at + 6) >= 0


@compiled
def _stamp(data: Bytes, at: int, stop: int, year: int, month: int, day: int) -> int:
    """Nanoseconds of the clock ``08:00:00.123`` at ``at`` on a date; NO_TIME if there is no such date or time."""
    hour = _two(data, at)
    minute = _two(data, at + 3)
    second = _two(data, at + 6)
    if second == 60 or year < 1971 or year > 2200:
        return UNDECIDED
    if month < 1 or month > 12 or day < 1 or day > _month_days(year, month) or hour > 23 or minute > 59 or second > 59:
        return NO_TIME
    time = (((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000
    at += 8
    if at < stop and data[at] == 46:
        unit = 100_000_000
        for index in range(at + 1, at + 1 + _digits(data, at + 1, stop, 9)):
            time += (data[index] - 48) * unit
            unit //= 10
    return time


@compiled
def _glog(data: Bytes, begin: int, at: int, stop: int) -> int:
    """Nanoseconds of the stamp ``I0301 08:00:00.123456``, or ``I301 …``, or ``I20260301 …``, whose letter is at ``at``;
    0 if there is none.
    """
    size = _digits(data, at + 1, stop, 9)
    clock = at + size + 2
    if size not in (3, 4, 8) or data[clock - 1] != 32 or not _has_clock(data, clock, stop):
        return 0
    if clock + 9 >= stop or data[clock + 8] != 46 or not 48 <= data[clock + 9] <= 57:
        return 0
    if at > begin:
        before = data[at - 1]
        if before >= 128:
            return UNDECIDED
        if 48 <= before <= 57 or 65 <= before <= 90 or 97 <= before <= 122 or before == 95:
            return 0
    year = 100 * _two(data, at + 1) + _two(data, at + 3) if size == 8 else BARE_YEAR
    month = data[at + 1] - 48 if size == 3 else _two(data, clock - 5)
    return _stamp(data, clock, stop, year, month, _two(data, clock - 3))


@compiled
def _syslog(data: Bytes, months: Places, at: int, stop: int) -> int:
    """Nanoseconds of the stamp ``Mar  1 08:00:00.123`` at ``at``; 0 if there is none."""
    name = (np.int64(data[at]) << 16) + (np.int64(data[at + 1]) << 8) + np.int64(data[at + 2])
    month = 0
    for index in range(12):
        if months[index] == name:
            month = index + 1
    index = at + 3
    if month == 0 or data[index] != 32:
        return 0
    while index < stop and data[index] == 32:
        index += 1
    size = _digits(data, index, stop, 3)
    clock = index + size + 1
    if size not in (1, 2) or clock >= stop or data[clock - 1] != 32 or not _has_clock(data, clock, stop):
        return 0
    day = data[index] - 48 if size == 1 else _two(data, index)
    return _stamp(data, clock, stop, BARE_YEAR, month, day)


@compiled
def glog_times(data: Bytes, start: Places, end: Places, rows: Places, reach: int, time: npt.NDArray[np.int64]) -> None:
    """``time`` of each of ``rows``: its first stamp of glog in its first ``reach`` bytes, ns as if UTC and in BARE_YEAR
    if it names no year; NO_TIME, or DOUBTFUL.
    """
    for place in range(len(rows)):
        row = rows[place]
        stop = min(end[row], start[row] + reach)
        found = 0
        for at in range(start[row], stop - 14):
            if data[at] in (73, 87, 69, 70, 68):
                found = _glog(data, start[row], at, stop)
                if found != 0:
                    break
        time[place] = found if found != 0 else NO_TIME


@compiled
def _syslog_times(
    data: Bytes, start: Places, end: Places, rows: Places, reach: int, months: Places, time: npt.NDArray[np.int64]
) -> None:
    for place in range(len(rows)):
        row = rows[place]
        stop = min(end[row], start[row] + reach)
        found = 0
        for at in range(start[row], stop - 13):
            if 65 <= data[at] <= 83 and data[at + 1] >= 97:
                found = _syslog(data, months, at, stop)
                if found != 0:
                    break
        time[place] = found if found != 0 else NO_TIME


def syslog_times(
    data: Bytes, start: Places, end: Places, rows: Places, reach: int, time: npt.NDArray[np.int64]
) -> None:
    """As :func:`glog_times`, of syslog's stamps."""
    _syslog_times(data, start, end, rows, reach, _MONTHS, time)
