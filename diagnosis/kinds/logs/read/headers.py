"""Record headers: time, writer and level before the message.

Headers are recognised on *normalised* lines (every number is ``0``, see :mod:`mask`), of which
there are few; the recognised pattern then reads the values from the raw lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import polars as pl

from diagnosis.kinds.logs.read.times import DAY as _DAY
from diagnosis.kinds.logs.read.times import MONTH as _MONTH
from diagnosis.kinds.logs.read.times import TIME_STYLES
from diagnosis.kinds.logs.text.patterns import ANY, Haystack
from diagnosis.knowledge.knowledge_files import table
from diagnosis.model import Level

# The parts of a header, in any order and number. Recognised on normalised text. No piece takes more
# than one blank after itself, so that the indentation of the message survives.
_GAP = r"(?: *[|,-]+)?[ \t]?"
_CLOCK = r"0:0:0(?:[.,:]0)*"
_ZONE = r"(?: ?(?:Z\b|UTC\b|GMT\b|[AP]M\b|[+-]0(?::?0)?))?"
_STAMP = (
    rf"(?:[\[(]?(?:{_DAY},? +)?(?:0-0-0[T _,]{_CLOCK}|0-0-0-{_CLOCK}|0[- ]{_CLOCK}|0/0/0[ ,T]+{_CLOCK}"
    rf"|0\.0(?:\.0)? {_CLOCK}"
    rf"|{_MONTH} +0 {_CLOCK}(?: (?:[A-Z]+ )?0\b)?|0[/ -]{_MONTH}[/ -]+0[ :]{_CLOCK}|0:0:0[.,]0"
    rf"|{_MONTH}[/ -]0[/, -]+0[ ,]+{_CLOCK}){_ZONE}[\])]?[:,]?"
    rf"|\[ *0\.0\](?:\[ *[CT]0\])?|^0\.0 |^\[0/0 {_CLOCK} [\w.]+\]:)"
)
_WORDS = "DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|ERR|FATAL|CRITICAL|CRIT|PANIC|EVENT|TRACE|Warning|Normal|Error|Info"
_LOWER = "debug|info|notice|warning|warn|error|err|fatal|critical|crit|alert|emerg"
_LEVEL = (
    rf"(?:[\[<(](?:{_WORDS}|{_LOWER}) *[\])>]:?|(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL"
    rf"|Normal|Warning)(?:: ?|\b *)"
    rf"|(?:kern|daemon|user|syslog) *:(?:{_LOWER}) *:|<0>)"
)
_WRITER = (
    r"(?:\[default0\]:?|\[[Rr]ank ?0\]:?|\[pod/[^\]]{1,200}\]|\[0,0\]<std(?:out|err)>:?|std(?:out|err) [FP] "
    r"|[A-Z][A-Z_]{1,9}\([^)\s]{1,60}\):"
    # Ray's driver; pasted colours have lost their escape
    r"|(?:\[0m)?\((?:[A-Za-z_][0-9A-Za-z_.:]{0,80} pid=0|raylet)(?:, ip=[0-9A-Fa-f.:]{1,45})?\)(?:\[0m)?)"
)
_GLOG = r"(?:\[?[IWEFD] ?0 0:0:0\.0(?: +0)? ?)"
_TASK = r"0:(?: |$)"  # srun --label
_SCRIPT = r"\b(?:epi|pro)log\w{0,12}"  # of Slurm, which name the node: "epilog[81]: gpu-7: 2 errors"
_PIECES = rf"(?:(?:{_WRITER}|{_STAMP}|{_GLOG}|{_LEVEL}){_GAP}|{_TASK})"
_HEADER = rf"^\s*{_PIECES}+"
_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*"
# A host at the start of the line, or after the collector's stamp: "worker-3: …", "web-0  | …";
# mpiexec of PALS labels lines with the rank, too: "x1000c0s0b0n0 12: …".
_LABELLED = rf"^\s*(?:{_STAMP}\s*)?(?:{_NAME}|0\.0\.0\.0)(?: 0)?(?:: | +\| )"
_AFTER_LABEL = rf"{_LABELLED}{_PIECES}*"
_SYSLOG = (
    rf"^(?:<0>)?(?:{_MONTH} +0 0:0:0(?:\.0)? |0-0-0T0:0:0(?:\.0)?(?:Z|[+-]0:?0?) )[A-Za-z0][\w.-]* "
    rf"[\w./@()-]+(?:\[0\])?: "
    r"(?:\[ *0\.0\] )?"
)
#: Words that begin messages as ``word0:`` and name no host.
_NOT_HOSTS = (
    r"(?i)^\s*(?:epoch|iter|iteration|step|loss|batch|layer|stage|trial|attempt|try|phase|part|shard"
    r"|dev|device|cuda|gpu|npu|tpu|cpu"
    r"|eth|ib|nvme|sd[a-z]|fold|eval|train|test|level|top|acc|task|thread|worker_?group|line|col"
    r"|section|figure|table|run|seed|version"
    r"|v|python|h|x|y|e[ijz]?|err|nvidia[\w-]*|mlx0?\w*|bnxt\w*|pcieport|usb|nvidia-\w+)[-_. ]?0?(?: 0)?:"
)
# Dotted words are hosts if they end in a domain or begin like a numbered machine; else they are
# modules: "urllib3.connectionpool".
_DOMAIN = (
    r"\.(?:local|localdomain|internal|cluster|svc|lan|com|net|org|edu|gov|io|ai|cloud|[a-z]{2})(?::| "
    r")|^\s*[A-Za-z0-9]*[A-Za-z]-?0[\w-]*\.\w+-|0\.0\.0\.0"
)
# An overwritten progress bar before a record.
_BAR = r"^[^|]{0,80}\b0%\|[^|]*\|[^\[]{0,40}\[[^\]]*\]\s*"
# The header of a second record within the line: two processes wrote at once.
_SECOND = r"\S(?:\[default0\]:|\[rank0\]: ?|\[0-0-0 0:0:0[.,]0\] |\[?[IWEF]0 0:0:0\.0 )"
_GRAVE = r"\bERROR\b|\bFATAL\b|Error\b|Exception\b|\bXid\b|Traceback|\bfailed\b|\bFailed\b|Aborted|Killed"
_HOST = rf"(?:0\.0\.0\.0|{_NAME})"

#: The key of a level, as logfmt writes it.
_LOGFMT = r"\b(?:level|lvl|severity)=\"?"

#: (level, pattern over the normalised header and the start of the message), worst first.
_LEVELS = [(Level[row["name"]], row["pattern"].replace("<key>", _LOGFMT)) for row in table("levels")["level"]]
_EXCEPTION = r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Abort|Failure)(?::|$)"
_DATE = rf"0[-/]0[-/]0|{_MONTH}"
_LEVEL_REACH = 120  # number of characters from the start of a line in which its level is searched
_STYLE_REACH = 200  # and in which its time is searched
_DATE_REACH = 40  # and in which a date follows a time of day at once
_RUN_OF_DIGITS = re.compile("[0-9]+")


def split(normal: pl.Expr, hay: Haystack = ANY) -> dict[str, pl.Expr]:
    """Expressions over normalised lines: ``message``, ``level``, ``style`` (index into TIME_STYLES
    or null), ``who`` (bits below). ``hay``: of all these lines.
    """
    is_labelled = _is_labelled(normal, hay)
    is_syslog = hay.contains(normal, _SYSLOG)
    header = _header(normal, hay)
    message = _first_record(normal.str.slice(header.str.len_chars()), hay)
    start = normal.str.head(_LEVEL_REACH)
    names_writer = {
        LABEL: is_labelled,
        TAG: hay.contains(start, r"\[[Rr]ank ?0\]"),
        TASK: hay.contains(header, rf"^ *(?:{_NAME} )?0:(?: |$)"),
        LOCAL: hay.contains(header, r"\[default0\]"),
        NCCL: hay.contains(start, rf"(?:^|[\s:]){_HOST}:0:0 \[0\]"),
        SYSLOG: is_syslog,
        SRUN: hay.contains(normal, rf"^srun: error: \S+: tasks? 0|{_SCRIPT}\[0\]: [A-Za-z][\w.-]*0[\w.-]*: "),
        POD: header.str.contains("[pod/", literal=True),
        MPI: hay.contains(header, r"\[0,0\]<std"),
        RAY: hay.contains(header, r"(?: pid=0|\(raylet), ip="),
    }
    return {
        "message": message,
        "level": _level(start, message, hay),
        "style": _style(normal, hay),
        "who": _bits(names_writer),
    }


def lengths(lines: Sequence[str]) -> list[int]:
    """How many characters of each line are its header, which a viewer shows less strongly."""
    starts = [line[:_STYLE_REACH] for line in lines]
    normal = pl.Series(starts, dtype=pl.String).str.replace_all(_RUN_OF_DIGITS.pattern, "0")
    headers = normal.to_frame("normal").select(_header(pl.col("normal"), ANY)).to_series()
    return [_length(header, start) for header, start in zip(headers, starts, strict=True)]


def length(line: str) -> int:
    """The same of one line, without a table: names of hosts before a message are its own."""
    start = line[:_STYLE_REACH]
    found = _compiled_header().match(_RUN_OF_DIGITS.sub("0", start))
    return _length(found[0], start) if found else 0


@cache
def _compiled_header() -> re.Pattern[str]:
    return re.compile(_HEADER)


def _length(header: str, start: str) -> int:
    """The length of a normalised header in its line: each ``0`` stands for a run of digits."""
    runs = _RUN_OF_DIGITS.findall(start)[: header.count("0")]
    return len(header) + sum(len(run) - 1 for run in runs)


def _header(normal: pl.Expr, hay: Haystack) -> pl.Expr:
    return (
        pl.when(hay.contains(normal, _SYSLOG))
        .then(hay.extract(normal, _SYSLOG, 0))
        .when(_is_labelled(normal, hay))
        .then(hay.extract(normal, _AFTER_LABEL, 0))
        .otherwise(hay.extract(normal, _HEADER, 0))
        .fill_null("")
    )


def _is_labelled(normal: pl.Expr, hay: Haystack) -> pl.Expr:
    """Whether a line begins with the name of a host."""
    labelled = hay.extract(normal, _LABELLED, 0)
    label = hay.extract(labelled, rf"((?:{_NAME}|0\.0\.0\.0)(?: 0)?(?::| +\|) )$", 1)
    has_number = hay.contains(label, r"^\S*0")
    is_word = hay.contains(label, _NOT_HOSTS)
    is_module = label.str.contains(".", literal=True) & ~hay.contains(label, _DOMAIN)
    return (has_number & ~is_word & ~is_module).fill_null(False)


def _style(normal: pl.Expr, hay: Haystack) -> pl.Expr:
    """The index of a line's first style of time in TIME_STYLES, or null."""
    reach = normal.str.head(_STYLE_REACH)
    of_day = len(TIME_STYLES) - 1
    style: pl.Expr = pl.lit(None, dtype=pl.UInt8)
    for index in reversed(range(len(TIME_STYLES))):
        has_style = hay.contains(reach, TIME_STYLES[index].normal)
        style = pl.when(has_style).then(pl.lit(index, dtype=pl.UInt8)).otherwise(style)
    # other stamps of a line that begins with the time of day are its message's, unless a date
    # follows at once
    has_time_of_day = hay.contains(reach, TIME_STYLES[of_day].normal)
    has_date = hay.contains(reach.str.head(_DATE_REACH), _DATE)
    of_day_style = pl.lit(of_day, dtype=pl.UInt8)
    return pl.when(has_time_of_day & ~has_date).then(of_day_style).otherwise(style)


def _level(start: pl.Expr, message: pl.Expr, hay: Haystack) -> pl.Expr:
    """The worst level that the start of a line states; an exception without one is an error."""
    is_exception = hay.contains(message, _EXCEPTION)
    level = pl.when(is_exception).then(int(Level.ERROR)).otherwise(int(Level.NONE))
    for value, pattern in reversed(_LEVELS):
        level = pl.when(hay.contains(start, pattern)).then(int(value)).otherwise(level)
    return level.cast(pl.UInt8)


def _bits(is_set: Mapping[int, pl.Expr]) -> pl.Expr:
    """One number of these bits."""
    none = pl.lit(0, dtype=pl.UInt16)
    who = none
    for bit, is_so in is_set.items():
        who |= pl.when(is_so).then(pl.lit(bit, dtype=pl.UInt16)).otherwise(none)
    return who


def _first_record(message: pl.Expr, hay: Haystack) -> pl.Expr:
    """One message of a line that several writers share: the first, or the first severe one. A
    progress bar before a message is removed.
    """
    rest = hay.replace(message, _BAR, "")
    message = pl.when(hay.contains(rest, r"\S")).then(rest).otherwise(message)
    has_second = hay.contains(message, _SECOND)
    first = hay.extract(message, rf"^(.*?\S)(?:{_SECOND[2:]})", 1)
    second = hay.extract(message, rf"{_SECOND}(.*)$", 1)
    return (
        pl.when(~has_second)
        .then(message)
        .when(hay.contains(second, _GRAVE) & ~hay.contains(first, _GRAVE))
        .then(second)
        .otherwise(first)
    )


#: Bits of ``who``: the ways in which a line names its writer. Compiled code reads numbers and most
#: words.
LABEL, TAG, TASK, LOCAL, NCCL, SYSLOG, SRUN, POD, MPI, RAY = (1 << index for index in range(10))
#: bit -> (part, pattern over raw lines) of those that patterns read.
RAW: dict[int, tuple[str, str]] = {
    POD: ("label", r"\[pod/([^/\]]+)"),
    RAY: ("host", r"(?: pid=[0-9]+|\(raylet), ip=([0-9A-Fa-f.:]{1,45})\)"),
    SRUN: ("host", rf"(?:^srun: error: |{_SCRIPT}\[[0-9]+\]: )([A-Za-z0-9][\w.-]*): "),
    SYSLOG: (
        "host",
        (
            rf"^(?:<[0-9]+>)?(?:{_MONTH} +[0-9]+ [0-9:.]+|[0-9]{{4}}-[0-9-]+T[0-9:.]+(?:Z|[+-][0-9:]+)) "
            rf"([A-Za-z0-9][\w.-]*) "
        ),
    ),
}
#: Bits whose words are read by RAW.
WORDS = SYSLOG | SRUN | POD | RAY
#: Number of bytes from the start of a line in which its writer is searched.
WRITER_CHARS = 160
PARTS = ("label", "rank", "local", "host", "task")


def writers(text: pl.Series, who: int) -> list[pl.Series]:
    """The words that name writers by these ``who`` bits: a series for each part."""
    found: dict[str, list[pl.Expr]] = {}
    for bit, (part, pattern) in RAW.items():
        if who & bit:
            found.setdefault(part, []).append(pl.col("text").str.extract(pattern, 1))
    parts = [pl.coalesce(*ways).fill_null("").alias(part) for part, ways in found.items()]
    return text.to_frame("text").lazy().select(*parts).collect().get_columns() if parts else []
