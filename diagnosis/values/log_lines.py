"""What shows, before a text is read, that its lines are those of a log: one owner for every kind of
evidence. How a header is read is in ``kinds.logs.read``: ``times`` and ``headers``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from diagnosis.knowledge.late_patterns import late

#: A time of day, as the engine reads it.
CLOCK: Final = r"\d\d:\d\d:\d\d"
#: A part of a second after it, and a date before it.
SUBSECOND: Final = r"(?:[.,]\d{1,9})?"
DATE: Final = r"\d{4}[-/]\d\d[-/]\d\d"
#: The beginning of a line of a log: a date, a day of a month, the seconds since boot, glog's letter
#: and date, or a rank.
LINE_BEGIN: Final = (
    rf"[^\w\n]{{0,3}}(?:{DATE}[T ,]\d\d:\d\d|[A-Z][a-z]{{2}} {{1,2}}\d{{1,2}} {CLOCK}"
    rf"|\d{{1,8}}\.\d{{3,6}}\] |[IWEF]\d{{4}} {CLOCK}|rank ?\d)"
)
#: What begins the stack of a Python program that failed.
TRACEBACK: Final = r"Traceback \(most recent call last\)"
#: What NCCL writes before its lines.
NCCL_NOTE: Final = r"\bNCCL (?:INFO|WARN) "
#: The first of lines that report an event: a time, a traceback, an exception, a line of a library
#: or a scheduler.
EVENT: Final = late(
    rf"(?m)^(?:{LINE_BEGIN}|{TRACEBACK}"
    r"|\S{1,80}:\d{1,8}:\d{1,8} \[\d{1,3}\] |(?:srun|slurmstepd): "
    r"|(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}Error: "
    r"|Unable to determine the device handle|Events:[ \t]{0,20}\n)"
)
#: A few lines with a time are those of a report, too.
_MAX_TIMED_OF_REPORT: Final = 3
_TIMED: Final = late(rf"\b{CLOCK}\b")


def are_timed(lines: Iterable[str], share: float) -> bool:
    """Whether more than a few, and this share, of the lines with text have a time of day."""
    written = list(filter(str.strip, lines))
    timed = sum(_TIMED.search(line) is not None for line in written)
    return timed > max(_MAX_TIMED_OF_REPORT, share * len(written))
