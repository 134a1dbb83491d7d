"""The software that raised an exception, from the innermost frames of the traceback above it.

The same exception has different causes in different libraries: a time-out in a client of object storage is a storage
problem, one in a reader of images is a data problem. Frames are read only for exceptions without a clear message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.model import ReadRange

LIMITS: Final = thresholds.limits("frames")

_FRAME: Final = re.compile(r"""File ["“](?P<path>[^"”\n]{1,400})["”], line \d+(?:, in (?P<name>[\w<>.]+))?""")
_OPENING: Final = "Traceback (most recent call last)"

#: Paths of libraries; a frame elsewhere belongs to the program.
_LIBRARY_PATH: Final = re.compile(r"(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<frozen ")
#: Frames that only carry an exception from one process or thread to another.
_CARRIER_FRAME: Final = re.compile(
    r"/(?:ray/_private|ray/_raylet|concurrent/futures|asyncio|threading\.py|multiprocessing|torch/multiprocessing"
    r"|torch/_utils\.py|contextlib\.py|torch/utils/_contextlib\.py|six\.py|tenacity|retry\w*)"
)


def frames(text: str) -> list[tuple[str, str]]:
    """(path, function) of the frames of the last traceback in ``text``, innermost first. O(characters)."""
    found: list[tuple[str, str]] = []
    since = 0
    for line in reversed(text.splitlines()):
        since += 1
        if frame := _FRAME.search(line):
            found.append((frame["path"], frame["name"] or ""))
            since = 0
        elif found and (since > LIMITS.gap or _OPENING in line):
            break
    return found


def category_of_frames(text: str) -> str | None:
    """The category that the innermost frames above an exception suggest; ``text`` is the log up to it.

    Libraries that call the program's code are not responsible for it: the first frame of the program ends the search.
    """
    own = [(path, name) for path, name in frames(text) if not _CARRIER_FRAME.search(path)]
    for path, name in own[: LIMITS.innermost]:
        for library in words.load("libraries"):
            if re.search(library.pattern, f"{path}:{name}"):
                return library.id
        if not _LIBRARY_PATH.search(path):
            break
    return None


def text_above(rows: pl.DataFrame, files: Sequence[str], read: ReadRange) -> str:
    """The text above the first of ``rows`` (``file``, ``offset``, ``length``), as much as a traceback needs; empty if
    it cannot be read.
    """
    if rows.is_empty():
        return ""
    file, offset, length = rows.select("file", "offset", "length").row(0)
    own = raw_lines.record_lines(read, files[file], offset, length)
    if len(own) > 1:
        return "\n".join(own[:-1])
    start = max(0, offset - LIMITS.reach)
    return raw_lines.read_stored(read, files[file], start, offset - start).decode("utf-8", "replace")
