"""Record headers: when, who and how bad, before what.

Headers are recognised on *normalised* lines (every number is ``0``, see :mod:`diagnosis.logs.mask`), of which there are few; the values are then read
from the raw lines by the one pattern that was recognised.
"""

from __future__ import annotations

import polars as pl

from diagnosis.logs.times import DAY as _DAY
from diagnosis.logs.times import MONTH as _MONTH
from diagnosis.logs.times import TIME_STYLES
from diagnosis.model import Level


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
        (TASK, header.str.contains(r"^ *0:(?: |$)")),
        (LOCAL, header.str.contains(r"\[default0\]")),
        (NCCL, start_of.str.contains(rf"(?:^|[\s:]){_HOST}:0:0 \[0\]")),
        (SYSLOG, normal.str.contains(_SYSLOG)),
        (SRUN, normal.str.contains(r"^srun: error: \S+: tasks? 0")),
    ):
        who |= pl.when(is_so).then(pl.lit(bit, dtype=pl.UInt8)).otherwise(pl.lit(0, dtype=pl.UInt8))
    return {"header": header, "message": message, "level": level, "style": style, "who": who}


#: Bits of ``who``: where a line names its writer. Numbers are read by compiled code; RAW[bit] = (part, pattern over raw lines).
LABEL, TAG, TASK, LOCAL, NCCL, SYSLOG, SRUN = (1 << index for index in range(7))
RAW: dict[int, tuple[str, str]] = {
    SRUN: ("host", r"^srun: error: ([A-Za-z0-9][\w.-]*): tasks? [0-9]"),
    SYSLOG: (
        "host",
        rf"^(?:<[0-9]+>)?(?:{_MONTH} +[0-9]+ [0-9:.]+|[0-9]{{4}}-[0-9-]+T[0-9:.]+(?:Z|[+-][0-9:]+)) ([A-Za-z0-9][\w.-]*) ",
    ),
}
#: Bits whose words are read by RAW.
WORDS = SYSLOG | SRUN
#: Bytes from the start of a line in which its writer is named.
WRITER_CHARS = 160
PARTS = ("label", "rank", "local", "host")


def writers(text: pl.Series, who: int) -> list[pl.Series]:
    """Of raw lines with these ``who`` bits, the words that name their writers: a series for each part ("label", "host") that they have."""
    found: dict[str, list[pl.Expr]] = {}
    for bit, (part, pattern) in RAW.items():
        if who & bit:
            found.setdefault(part, []).append(pl.col("text").str.extract(pattern, 1))
    parts = [pl.coalesce(*ways).fill_null("").alias(part) for part, ways in found.items()]
    return text.to_frame("text").lazy().select(*parts).collect().get_columns() if parts else []
