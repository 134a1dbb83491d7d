"""Time stamps: their styles and their values.

A style is recognised on normalised lines (every number is ``0``); the value is read from the raw line: the usual styles
by compiled code (``stamps``), the rest by polars.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.read.lines import Rows
from diagnosis.kinds.logs.text import stamps
from diagnosis.knowledge.knowledge_files import records, table

#: The end of 1972, a leap year: stamps without a year are read in it.
NEXT_YEAR = 94_694_400_000_000_000
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
#: The style of a kernel's stamps, and of those without a date.
SINCE_BOOT, OF_DAY = "since_boot", "of_day"
DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"


class TimeStyle(msgspec.Struct, frozen=True):
    """One way to write a time: a row of ``time_styles.toml``, which explains the fields."""

    name: str
    normal: str
    raw: str = ""
    format: str = ""
    zoned: bool = False
    yearless: bool = False
    epoch: int = 0
    is_iso: bool = False
    reach: int = 300


#: What stands for these in the patterns; behind a level a date without a year is recognised.
_PARTS = {
    "<month>": MONTH,
    "<day>": DAY,
    "<level>": "[IWEFD]|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL",
}
#: The styles for lines that only look like these: ``[1772352000.5] …``, ``[12.5] … 2026-03-01 …``,
#: ``36:45:31 left …``.
FALLBACK_STYLES = ("epoch", "iso_zoned", "iso")


def _with_parts(style: TimeStyle) -> TimeStyle:
    normal, raw = style.normal, style.raw
    for name, pattern in _PARTS.items():
        normal, raw = normal.replace(name, pattern), raw.replace(name, pattern)
    return replace(style, normal=normal, raw=raw)


TIME_STYLES = tuple(map(_with_parts, records(TimeStyle, table("time_styles")["style"])))

#: Styles other than ISO 8601 that compiled code reads.
_COMPILED = {"glog": stamps.glog_times, "syslog": stamps.syslog_times}


def read_times(lines: Rows, rows: npt.NDArray[np.int64], style: TimeStyle, time_zone: str) -> npt.NDArray[np.int64]:
    """Nanoseconds UTC of ``rows``, written in ``style``; ``stamps.NO_TIME`` if a line has no such time. ``time_zone``:
    for stamps without a zone. Year-less stamps are returned in 1972, a leap year, a kernel's as nanoseconds since boot
    and those without a date since midnight; the caller moves them.
    """
    if style.is_iso:
        value = np.empty(len(rows), np.int64)
        stamps.iso_times(lines.data, lines.start, lines.end, rows, style.reach, style.zoned, value)
        if style.zoned:
            return value
        other = np.flatnonzero(value == stamps.NO_TIME)
        if len(other):
            value[other] = _naive_times(_dashed_times(lines.text(rows[other], style.reach)))
        return _from_zone(value, time_zone)
    if style.name not in _COMPILED:
        return _naive_times(_times_by_pattern(lines.text(rows, style.reach), style, time_zone))
    value = np.empty(len(rows), np.int64)
    _COMPILED[style.name](lines.data, lines.start, lines.end, rows, style.reach, value)
    doubtful = np.flatnonzero(value == stamps.UNDECIDED)
    if len(doubtful):
        value[doubtful] = _naive_times(_times_by_pattern(lines.text(rows[doubtful], style.reach), style, "UTC"))
    return _from_zone(value, time_zone)


def _naive_times(time: pl.Series) -> npt.NDArray[np.int64]:
    return time.fill_null(stamps.NO_TIME).to_numpy()


def _from_zone(value: npt.NDArray[np.int64], time_zone: str) -> npt.NDArray[np.int64]:
    if time_zone == "UTC":
        return value
    time = pl.Series("time", value)
    return _naive_times(_local_to_utc(time.set(time == stamps.NO_TIME, None), time_zone))


def _times_by_pattern(text: pl.Series, style: TimeStyle, time_zone: str) -> pl.Series:
    found = text.str.extract(style.raw, 1).alias("time")
    if style.epoch:
        if style.epoch > 1:
            return found.cast(pl.Int64, strict=False) * (1_000_000_000 // style.epoch)
        return (found.cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Int64) * 1_000
    if style.name == "slashed":
        return _local_to_utc(_slashed_times(found), time_zone)
    stamp, template = _with_month(found) if style.name == "named_month" else _fixed_form(found, style)
    naive = stamp.str.to_datetime(template, strict=False, time_unit="ns").cast(pl.Int64)
    digits = found.str.extract(r":[0-9]{2}[.,]([0-9]{1,9})", 1).fill_null("").str.pad_end(9, "0")
    time = naive + digits.cast(pl.Int64, strict=False).fill_null(0)
    if style.name != "named_month":
        return _local_to_utc(time, time_zone)
    offset = found.str.extract(r" ([+-][0-9]{4})$", 1).cast(pl.Int64, strict=False)
    hours, minutes = offset.abs() // 100, offset.abs() % 100
    zoned = time - offset.sign() * (hours * 60 + minutes) * 60_000_000_000
    return zoned.zip_with(offset.is_not_null(), _local_to_utc(time, time_zone))


def _local_to_utc(time: pl.Series, time_zone: str) -> pl.Series:
    """Local times of a zone as UTC: the earlier of two in the repeated hour, none in the skipped one."""
    if time_zone == "UTC":
        return time
    local = time.cast(pl.Datetime("ns")).dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    return local.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.Int64)


def _fixed_form(found: pl.Series, style: TimeStyle) -> tuple[pl.Series, str]:
    """The part of a stamp up to its seconds, in exactly the form of the returned strptime format."""
    if style.name == "iso_dashed":
        return found.str.slice(0, 19), style.format
    if style.name == "iso_ampm":
        return found, style.format
    if style.name == "compact":
        return found.str.slice(0, 17).str.replace("T", " "), style.format
    if style.name == "glog":
        stamp = found.str.extract(r"^([0-9]+ [0-9:]+)", 1)
        stamp = stamp.str.replace(r"^([0-9]{3} )", "0$1")  # C10 writes months with one digit
        bare = stamp.str.len_bytes() == len("0301 08:00:00")
        return stamp.zip_with(~bare, "1972" + stamp), "%Y" + style.format
    parts = found.str.replace_all(r" +", " ").str.replace(r"[.,][0-9]+", "").str.replace(r" [A-Z]{2,5} ", " ")
    if style.name == "month_day":
        parts = parts.str.replace("[/-]", "")
    if style.name == "dotted":
        return found.str.slice(0, 10) + " " + found.str.extract(r"([0-9:]{8})", 1), style.format
    if style.name == "ctime":
        return parts, style.format
    if style.name == OF_DAY:
        return "1970 " + parts, style.format
    return "1972 " + parts, "%Y " + style.format


def _with_month(found: pl.Series) -> tuple[pl.Series, str]:
    """The same of dates with a month's name, in any order of year, month and day; the year has four digits."""
    date = found.str.replace(r"[ :,]+[0-9]{2}:[0-9]{2}:[0-9]{2}.*$", "")
    clock = found.str.extract(r"[ :,]([0-9]{2}:[0-9]{2}:[0-9]{2})", 1)
    year, day = date.str.extract(r"([0-9]{4})", 1), date.str.extract(r"(?:^|[^0-9])([0-9]{1,2})(?:[^0-9]|$)", 1)
    return year + " " + date.str.extract(f"({MONTH})", 1) + " " + day + " " + clock, "%Y %b %d %H:%M:%S"


def _dashed_times(text: pl.Series) -> pl.Series:
    """Naive times of stamps like ISO 8601 whose year has two digits ("25-09-28 05:30:59.25") or comes last."""
    found = text.str.extract(
        r"(?:^|[^0-9-])([0-9]{2}-[0-9]{2}-[0-9]{2}(?:[0-9]{2})?[T _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)", 1
    )
    digits = found.str.extract(r"[.,]([0-9]+)$", 1).fill_null("").str.pad_end(9, "0").cast(pl.Int64)
    return _slashed_times(found.str.replace_all(r"[-_]", "/").str.replace(r"/([0-9]{2}:)", " $1")) + digits


def _slashed_times(found: pl.Series) -> pl.Series:
    """Naive times of stamps with slashes. A year has four digits, or comes first; if the first number can be a month,
    the year comes last: no log is older than 2012.
    """
    stamp = found.str.replace(r"[ ,T]+", " ").str.replace(r"[.,][0-9]+", "")
    ways = []
    for shape, date in (
        (r"^[0-9]{4}/", "%Y/%m/%d"),
        (r"^[0-9]{2}/[0-9]{2}/[0-9]{4}", "%m/%d/%Y"),
        (r"^[0-9]{2}/[0-9]{2}/[0-9]{4}", "%d/%m/%Y"),
        (r"^(?:1[3-9]|[2-9][0-9])/[0-9]{2}/[0-9]{2} ", "%y/%m/%d"),
        (r"^(?:0[1-9]|1[0-2])/[0-9]{2}/[0-9]{2} ", "%m/%d/%y"),
    ):
        fits = pl.when(pl.col("s").str.contains(shape)).then(pl.col("s"))
        ways += [
            fits.str.to_datetime(f"{date} {clock}", strict=False, time_unit="ns")
            for clock in ("%H:%M:%S", "%I:%M:%S %p")
        ]
    return stamp.to_frame("s").select(pl.coalesce(*ways).cast(pl.Int64).alias("time"))["time"]
