"""Record headers: when, who and how bad, before what.

Headers are recognised on *normalised* lines (every number is ``0``, see :mod:`diagnosis.logs.mask`), of which there are few; the values are then read
from the raw lines by the one pattern that was recognised.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from diagnosis.model import Level

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"


@dataclass(frozen=True, slots=True)
class TimeStyle:
    """One way to write a time. ``normal`` finds it in a normalised line, ``raw`` (one group) in a raw one, ``formats`` parse the group.

    ``zoned``: the text names its offset. ``yearless``: it names no year. ``epoch``: it is a number in units of ``1 / epoch`` s.
    """

    name: str
    normal: str
    raw: str
    format: str = ""
    zoned: bool = False
    yearless: bool = False
    epoch: int = 0
    reach: int = 300  # characters from the start of a line in which it is looked for


_FRACTION = r"(?:[.,][0-9]+)?"
#: In order of preference: a line that holds two stamps (a container's and its own) is dated by the one that names its zone.
TIME_STYLES: tuple[TimeStyle, ...] = (
    TimeStyle(
        "iso_zoned",
        r"0-0-0[T ]0:0:0(?:[.,]0)? ?(?:Z|[+-]0:?0?)(?:[^0-9A-Za-z]|$)",
        r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)? ?(?:Z|[+-][0-9]{2}:?(?:[0-9]{2})?))",
        "%Y-%m-%dT%H:%M:%S",
        zoned=True,
    ),
    TimeStyle(
        "iso",
        r"0-0-0[T ]0:0:0",
        rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION})",
        "%Y-%m-%dT%H:%M:%S",
    ),
    TimeStyle(
        "iso_dashed",
        r"0-0-0-0:0:0",
        r"([0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)",
        "%Y-%m-%d-%H:%M:%S",
    ),
    TimeStyle(
        "slashed",
        r"0/0/0[ ,T]+0:0:0",
        rf"([0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}[ ,T]+[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION})",
        "%Y/%m/%d %H:%M:%S",
    ),
    TimeStyle(
        "ctime",
        rf"{_DAY} {_MONTH} +0 0:0:0 (?:[A-Z]+ )?0",
        rf"({_MONTH} +[0-9]{{1,2}} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}} (?:[A-Z]+ )?[0-9]{{4}})",
        "%b %d %H:%M:%S %Y",
    ),
    TimeStyle(
        "glog",
        r"\b[IWEFD]0 0:0:0\.0",
        r"\b[IWEFD]([0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+)",
        "%m%d %H:%M:%S",
        yearless=True,
    ),
    TimeStyle(
        "syslog",
        rf"{_MONTH} +0 0:0:0",
        rf"({_MONTH} +[0-9]{{1,2}} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]+)?)",
        "%b %d %H:%M:%S",
        yearless=True,
    ),
    TimeStyle("mllog", r'"time_ms": 0', r'"time_ms": ([0-9]{13})\b', epoch=1_000, reach=6_000),
    TimeStyle(
        "journal_us", r"__REALTIME_TIMESTAMP\W{1,5}0", r"__REALTIME_TIMESTAMP\W{1,5}([0-9]{16})\b", epoch=1_000_000
    ),
    TimeStyle("epoch", r"^\[?0\.0\]? ", r"^\[?(1[0-9]{9}\.[0-9]+)\]? ", epoch=1),
)

# What may stand before a message, in any order and number. Recognised on normalised text.
_STAMP = (
    rf"(?:[\[(]?(?:{_DAY},? +)?(?:0-0-0[T ]0:0:0(?:[.,:]0)*|0-0-0-0:0:0(?:[.,]0)*|0/0/0[ ,T]+0:0:0(?:[.,:]0)?|{_MONTH} +0 0:0:0(?:[.,]0)?(?: (?:[A-Z]+ )?0\b)?"
    r"|0:0:0[.,]0|\[ *0\.0\])(?: ?(?:Z\b|UTC|[AP]M|[+-]0(?::?0)?))?[\])]?[:,]?)"
)
_LEVEL_WORD = "DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|ERR|FATAL|CRITICAL|CRIT|PANIC|EVENT|TRACE|debug|info|notice|warning|warn|error|fatal|critical|Warning|Normal|Error"
_LEVEL = rf"(?:[\[<(](?:{_LEVEL_WORD}) ?[\])>]:?|(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL|Normal|Warning)(?::|\b)|<0>)"
_RANK = r"(?:\[default0\]:?|\[[Rr]ank ?0\]:?|\[pod/[^\]]{1,200}\])"
_TASK = r"0:(?: |$)"  # srun --label
_LABEL = r"(?:[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*: )"
_GLOG = r"(?:\[?[IWEFD]0 0:0:0\.0(?: 0)? ?)"
# At most one blank, so that the indentation of the message survives.
_GAP = r"(?: ?[|,-]+)?[ \t]?"
_HEADER = rf"^\s*(?:(?:{_RANK}|{_STAMP}|{_GLOG}|{_LEVEL}){_GAP}|{_TASK})+"
_HEADER_AFTER_LABEL = rf"^\s*(?:{_STAMP}\s*)?{_LABEL}(?:(?:{_RANK}|{_STAMP}|{_GLOG}|{_LEVEL}){_GAP}|{_TASK})*"

_SYSLOG = rf"^(?:<0>)?(?:{_MONTH} +0 0:0:0(?:\.0)? |0-0-0T0:0:0(?:\.0)?(?:Z|[+-]0:?0?) )[A-Za-z][\w.-]* [\w./@()-]+(?:\[0\])?: "
#: Words that begin messages as ``word0:`` and name no host.
_NOT_HOSTS = r"(?i)^\s*(?:epoch|iter|iteration|step|loss|batch|layer|stage|trial|attempt|try|phase|part|shard|dev|device|cuda|gpu|npu|tpu|cpu|eth|ib|mlx0_|nvme|sd[a-z]|fold|eval|train|test|level|top|acc|bleu|task|thread|worker_?group|line|col|section|figure|table|run|seed|version|v|python|h|x|y)[-_. ]?0?:"
_HOST = r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*)"

#: (level, pattern over the normalised header and the start of the message), worst first.
_LEVELS: tuple[tuple[Level, str], ...] = (
    (Level.FATAL, r"\b(?:FATAL|CRITICAL|CRIT|PANIC|EMERG|ALERT)\b|\bF0 0:0:0|\b[Ff]atal error\b|[Kk]ernel panic"),
    (
        Level.ERROR,
        r"\b(?:ERROR|ERR|SEVERE)\b|\[error\]|\blevel=error\b|\bE0 0:0:0|\bslurmstepd: error:|\bsrun: error:|^\s*[Ee]rror:|^Traceback \(most recent call last\)",
    ),
    (
        Level.WARNING,
        r"\b(?:WARNING|WARN)\b|\[warn(?:ing)?\]|\blevel=warn|\bW0 0:0:0|\b\w*Warning: |^\s*[Ww]arning:|\bWarning\b",
    ),
    (Level.INFO, r"\b(?:INFO|NOTICE|EVENT)\b|\[info\]|\blevel=info\b|\bI0 0:0:0|\bNormal\b"),
    (Level.DEBUG, r"\b(?:DEBUG|TRACE)\b|\[debug\]|\blevel=debug\b|\bD0 0:0:0"),
)
_EXCEPTION = r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Abort|Failure)(?::|$)"
_LEVEL_REACH = 120  # characters from the start of a line in which its level stands


def split(normal: pl.Expr) -> dict[str, pl.Expr]:
    """Expressions over normalised lines: ``header``, ``message``,
    , ``level``, ``style`` (index into TIME_STYLES or null) and ``who`` (bits below)."""
    is_labelled = normal.str.contains(rf"^\s*(?:{_STAMP}\s*)?[A-Za-z][\w.-]*0[\w.-]*: ") & ~normal.str.contains(
        _NOT_HOSTS
    )
    header = (
        pl.when(normal.str.contains(_SYSLOG))
        .then(normal.str.extract(_SYSLOG, 0))
        .when(is_labelled)
        .then(normal.str.extract(_HEADER_AFTER_LABEL, 0))
        .otherwise(normal.str.extract(_HEADER, 0))
        .fill_null("")
    )
    style: pl.Expr = pl.lit(None, dtype=pl.UInt8)
    reach = normal.str.head(200)
    for index in reversed(range(len(TIME_STYLES))):
        style = (
            pl.when(reach.str.contains(TIME_STYLES[index].normal)).then(pl.lit(index, dtype=pl.UInt8)).otherwise(style)
        )
    message = normal.str.slice(header.str.len_chars())
    start = normal.str.head(_LEVEL_REACH)
    level: pl.Expr = (
        pl.when(message.str.contains(_EXCEPTION))
        .then(pl.lit(int(Level.ERROR), dtype=pl.UInt8))
        .otherwise(pl.lit(0, dtype=pl.UInt8))
    )
    for value, pattern in reversed(_LEVELS):
        level = pl.when(start.str.contains(pattern)).then(pl.lit(int(value), dtype=pl.UInt8)).otherwise(level)
    start_of = normal.str.head(120)
    who: pl.Expr = pl.lit(0, dtype=pl.UInt8)
    for bit, is_so in (
        (LABEL, is_labelled),
        (TAG, start_of.str.contains(r"\[[Rr]ank ?0\]")),
        (TASK, header.str.contains(r"^\s*(?:0-0-\S+\s+)?0: ?")),
        (LOCAL, header.str.contains(r"\[default0\]")),
        (NCCL, start_of.str.contains(rf"(?:^|[\s:]){_HOST}:0:0 \[0\]")),
        (SYSLOG, normal.str.contains(_SYSLOG)),
        (SRUN, normal.str.contains(r"^srun: error: \S+: tasks? 0")),
    ):
        who |= pl.when(is_so).then(pl.lit(bit, dtype=pl.UInt8)).otherwise(pl.lit(0, dtype=pl.UInt8))
    return {"header": header, "message": message, "level": level, "style": style, "who": who}


#: Bits of ``who``: where a line names its writer. RAW[bit] = (part, pattern over raw lines).
LABEL, TAG, TASK, LOCAL, NCCL, SYSLOG, SRUN = (1 << index for index in range(7))
RAW: dict[int, tuple[str, str]] = {
    LABEL: ("label", r"^\s*(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]\S+\s+)?([A-Za-z][\w.-]*[0-9][\w.-]*): "),
    TAG: ("rank", r"\[[Rr]ank ?([0-9]{1,7})\]"),
    TASK: ("rank", r"^\s*(?:[0-9]{4}-\S+\s+)?([0-9]{1,6}): ?"),
    LOCAL: ("local", r"\[default([0-9]{1,3})\]"),
    SRUN: ("host", r"^srun: error: ([A-Za-z0-9][\w.-]*): tasks? [0-9]"),
    SYSLOG: (
        "host",
        rf"^(?:<[0-9]+>)?(?:{_MONTH} +[0-9]+ [0-9:.]+|[0-9]{{4}}-[0-9-]+T[0-9:.]+(?:Z|[+-][0-9:]+)) ([A-Za-z0-9][\w.-]*) ",
    ),
    NCCL: ("host", r"(?:^|[\s:])([A-Za-z0-9][\w.-]*):[0-9]+:[0-9]+ \[[0-9]+\]"),
}
#: Characters from the start of a line in which its writer is named.
WRITER_CHARS = 160
PARTS = ("label", "rank", "local", "host")


def writers(text: pl.Expr, who: int) -> list[pl.Expr]:
    """Expressions over raw lines, one for each of ``PARTS`` that lines with these ``who`` bits name."""
    found: dict[str, list[pl.Expr]] = {}
    for bit, (part, pattern) in RAW.items():
        if who & bit:
            found.setdefault(part, []).append(text.str.extract(pattern, 1))
    return [pl.coalesce(*ways).fill_null("").alias(part) for part, ways in found.items()]


def times(text: pl.Series, style: TimeStyle, time_zone: str) -> pl.Series:
    """Nanoseconds UTC of raw lines that are written in ``style``; null where a line holds no such time.

    ``time_zone`` is that of stamps that name none. Year-less stamps come out in 1972, a leap year, for the caller to move.
    """
    found = text.str.extract(style.raw, 1)
    frame = found.to_frame("found")
    column = pl.col("found")
    if style.epoch:
        scale = 1_000_000_000 // style.epoch
        whole = (
            column.cast(pl.Int64, strict=False)
            if style.epoch > 1
            else (column.cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Int64)
        )
        return frame.select((whole * (scale if style.epoch > 1 else 1_000)).alias("time"))["time"]
    if style.zoned:
        offset = column.str.extract(r"(Z|[+-][0-9]{2}:?(?:[0-9]{2})?)$", 1)
        minutes = (
            offset.str.slice(1, 2).cast(pl.Int64, strict=False).fill_null(0) * 60
            + offset.str.extract(r"([0-9]{2})$", 1).cast(pl.Int64, strict=False).fill_null(0)
            * (offset.str.len_bytes() > 3).cast(pl.Int64)
        ) * pl.when(offset.str.starts_with("-")).then(-1).otherwise(1)
        shift = pl.when(offset == "Z").then(0).otherwise(minutes) * 60_000_000_000
    else:
        shift = pl.lit(0, dtype=pl.Int64)
    stamp, template = _fixed(found, style)
    naive = stamp.str.to_datetime(template, strict=False, time_unit="ns")
    if not style.zoned and time_zone != "UTC":
        naive = (
            naive.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
            .dt.convert_time_zone("UTC")
            .dt.replace_time_zone(None)
        )
    if style.name in ("iso", "iso_zoned"):
        digits = column.str.slice(20)
        if style.zoned:
            digits = digits.str.extract(r"^([0-9]+)", 1)
    else:
        digits = column.str.extract(r":[0-9]{2}[.,]([0-9]{1,9})", 1)
    fraction = digits.fill_null("").str.pad_end(9, "0").cast(pl.Int64, strict=False).fill_null(0)
    return frame.select((naive.cast(pl.Int64) + fraction - shift).alias("time"))["time"]


def _fixed(found: pl.Series, style: TimeStyle) -> tuple[pl.Expr, str]:
    """The part of a stamp up to its seconds, in exactly the shape of the returned strptime format."""
    column = pl.col("found")
    if style.name in ("iso", "iso_zoned"):
        separators = found.str.slice(10, 1).drop_nulls().unique()
        if len(separators) == 1:
            return column.str.slice(0, 19), f"%Y-%m-%d{separators[0]}%H:%M:%S"
        return column.str.slice(0, 19).str.replace(" ", "T", literal=True), "%Y-%m-%dT%H:%M:%S"
    if style.name == "iso_dashed":
        return column.str.slice(0, 19), style.format
    if style.name == "slashed":
        return column.str.replace(r"[ ,T]+", " ").str.slice(0, 19), style.format
    if style.name == "glog":
        return "1972" + column.str.slice(0, 13), "%Y" + style.format
    parts = column.str.replace_all(r" +", " ").str.replace(r"\.[0-9]+", "").str.replace(r" [A-Z]{2,5} ", " ")
    if style.name == "ctime":
        return parts, style.format
    return "1972 " + parts, "%Y " + style.format
