"""Two simple tools for comparison: the first line with a word of failure, and the last traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from lab.exam.papers import Answer

_KEYWORD: Final = re.compile(r"error|exception|fatal|fail|killed|abort|panic", re.IGNORECASE)
_TRACEBACK: Final = "Traceback (most recent call last)"
#: An exception's line under a traceback; a prefix of the launcher may stand before it.
_RAISED: Final = re.compile(r"^(?:\[[^\]]*\]:?)?[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b")
#: Files larger than this are no logs that the simple tools read.
_MAX_BYTES: Final = 50_000_000


def first_keyword(job: Path) -> Answer:
    """The first line of the first file that has a word of failure; the node is its directory."""
    for name, number, line in _lines(job):
        if _KEYWORD.search(line):
            return _failed(name, number, line)
    return Answer(condition="healthy")


def last_traceback(job: Path) -> Answer:
    """The exception of the last traceback of the last file that has one."""
    found = Answer(condition="healthy")
    is_inside = False
    for name, number, line in _lines(job):
        if _TRACEBACK in line:
            is_inside = True
        elif is_inside and _RAISED.search(line):
            found = _failed(name, number, line)
            is_inside = False
    return found


BASELINES: Final[Mapping[str, Callable[[Path], Answer]]] = {
    "first_keyword": first_keyword,
    "last_traceback": last_traceback,
}


def _failed(name: str, number: int, line: str) -> Answer:
    parts = Path(name).parts
    node = parts[1] if len(parts) > 2 and parts[0] == "logs" else ""
    suspects = (node,) if node else ()
    return Answer(condition="failed", suspects=suspects, sentence=line.strip(), first_line=(name, number))


def _lines(job: Path) -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line of the text files of a job, in order of name."""
    files = [job] if job.is_file() else sorted(path for path in job.rglob("*") if path.is_file())
    for path in files:
        data = path.read_bytes()
        if b"\0" in data or len(data) > _MAX_BYTES:
            continue
        name = path.name if path == job else str(path.relative_to(job))
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            yield name, number, line
