"""Output of checks among a job's artifacts: the check, its outcome, its machine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from msgspec.structs import replace

from diagnosis.evidence.check_results import Check, Result
from diagnosis.kinds.checks.check_table import load
from diagnosis.model import LOG_KINDS, Kind, Parsed, ReadRange
from diagnosis.values import log_lines

#: Larger files are logs, not the output of one check.
MAX_OUTPUT_BYTES: Final = 1 << 20
#: Number of bytes in which the sign of a check must occur, and number of bytes read of a file with
#: it.
HEAD_BYTES: Final = 4_096
#: Number of first lines of which one must have the sign, and the share of lines with a time of day
#: from which a text is a log that contains a check among other things.
SIGN_LINES: Final = 12
MIN_LOG_SHARE: Final = 0.2
#: Maximum number of results of one job.
MAX_RESULTS: Final = 256
_READ_KINDS: Final = (*LOG_KINDS, Kind.STATE, Kind.OTHER)
#: Lines that name the machine: a prompt, a hostname, a launcher's prefix.
_HOST_PATTERNS: Final = (
    re.compile(r"(?mi)^\s*(?:host ?name|host|node)\s*[:=]\s*([\w.\-]+)\s*$"),
    re.compile(r"(?m)^\[?\w[\w\-]*@([\w.\-]+)[ :~]"),
)


def recognise_output(text: str, path: str = "") -> Result | None:
    """The result in a text that is the output of a check; None for any other text. Linear."""
    signed = _signed_checks(text)
    if not signed or log_lines.are_timed(text.splitlines(), MIN_LOG_SHARE):
        return None
    results = (_result_of(check, text, path) for check in signed)
    return next(filter(None, results), None)


def _signed_checks(text: str) -> list[Check]:
    """The checks whose sign occurs in the beginning of a text."""
    begin = _beginning(text)
    return [check for check in load() if check.sign is not None and check.sign.search(begin)]


def _result_of(check: Check, text: str, path: str) -> Result | None:
    """The first outcome of a check whose pattern occurs in the text."""
    for outcome in check.outcomes:
        found = outcome.pattern.search(text) if outcome.pattern is not None else None
        if found is not None:
            words = " ".join(found[0].replace("|", " ").split())[:160]
            line = text.count("\n", 0, found.start()) + 1
            return Result(check, outcome, path, line, words, _host(text))
    return None


def read_results(parsed: Iterable[Parsed], read_: ReadRange) -> list[Result]:
    """The results among the artifacts, by path. Reads the head of each small text."""
    readable = [part for part in parsed if part.kind in _READ_KINDS]
    small = [part for part in readable if 0 < part.bytes <= MAX_OUTPUT_BYTES]
    results = (_result_of_file(part.path, read_) for part in sorted(small, key=lambda part: part.path))
    return list(itertools.islice(filter(None, results), MAX_RESULTS))


def _result_of_file(path: str, read_: ReadRange) -> Result | None:
    """The result in one file, of which only the head is read where that has no sign of a check."""
    head = read_(path, 0, HEAD_BYTES).decode("utf-8", "replace")
    if not _signed_checks(head):
        return None
    return recognise_output(read_(path, 0, MAX_OUTPUT_BYTES).decode("utf-8", "replace"), path)


def with_targets(results: Iterable[Result], known: Mapping[str, str]) -> list[Result]:
    """The results with their targets: from the path, then from the text, among the ``known`` names
    with their kinds. Where no machine is known, the name that the text or the path states stands.
    """
    named = [replace(result, target=_target_of(result, known)) for result in results]
    return [replace(result, kind=known.get(result.target, "node")) for result in named]


def _target_of(result: Result, known: Collection[str]) -> str:
    """The known name in the path, else the one that the text states, in full or without its domain."""
    parts = PurePosixPath(result.path).parts
    stems = [PurePosixPath(part).stem for part in parts]
    for of_path in (*reversed(parts), *reversed(stems)):
        if of_path in known:
            return of_path
    if result.target in known or not known:
        return result.target
    host = result.target.partition(".")[0]
    alike = [name for name in known if host and name.partition(".")[0] == host]
    return alike[0] if len(alike) == 1 else ""


def _beginning(text: str) -> str:
    lines = filter(str.strip, text[:HEAD_BYTES].splitlines())
    return "\n".join(itertools.islice(lines, SIGN_LINES))


def _host(text: str) -> str:
    """The machine that the head of a text names; empty if it names none."""
    found = (pattern.search(text[:HEAD_BYTES]) for pattern in _HOST_PATTERNS)
    return next((host[1] for host in found if host), "")
