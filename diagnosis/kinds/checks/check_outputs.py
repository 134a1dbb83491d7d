"""Output of checks among a job's artifacts: the check, its outcome, its machine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from diagnosis.evidence.check_results import Result
from diagnosis.kinds.checks.check_table import load
from diagnosis.model import LOG_KINDS, Kind, Parsed, ReadRange

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
#: The folder in which the desk keeps pasted output: ``checks/<machine>/<name>``.
FOLDER: Final = "checks"
_CLOCK: Final = re.compile(r"\b\d\d:\d\d:\d\d\b")
_READ_KINDS: Final = (*LOG_KINDS, Kind.STATE, Kind.OTHER)
#: Lines that name the machine: a prompt, a hostname, a launcher's prefix.
_HOST_PATTERNS: Final = (
    re.compile(r"(?mi)^\s*(?:host ?name|host|node)\s*[:=]\s*([\w.\-]+)\s*$"),
    re.compile(r"(?m)^\[?\w[\w\-]*@([\w.\-]+)[ :~]"),
)


def recognise_output(text: str, path: str = "") -> Result | None:
    """The result in a text that is the output of a check; None for any other text. Linear."""
    begin = _beginning(text)
    for check in load():
        if check.sign is None or not check.sign.search(begin) or _is_log(text):
            continue
        for outcome in check.outcomes:
            found = outcome.pattern.search(text) if outcome.pattern is not None else None
            if found is not None:
                words = " ".join(found[0].replace("|", " ").split())[:160]
                return Result(check, outcome, path, text.count("\n", 0, found.start()) + 1, words, _host(text))
    return None


def read_results(parsed: Iterable[Parsed], read_: ReadRange) -> list[Result]:
    """The results among the artifacts, in the order of their paths. Reads the head of each small
    text.
    """
    found: list[Result] = []
    for part in sorted(parsed, key=lambda p: p.path):
        if part.kind not in _READ_KINDS or not 0 < part.bytes <= MAX_OUTPUT_BYTES or len(found) >= MAX_RESULTS:
            continue
        begin = _beginning(read_(part.path, 0, HEAD_BYTES).decode("utf-8", "replace"))
        if not any(check.sign is not None and check.sign.search(begin) for check in load()):
            continue
        result = recognise_output(read_(part.path, 0, MAX_OUTPUT_BYTES).decode("utf-8", "replace"), part.path)
        if result is not None:
            found.append(result)
    return found


def with_targets(results: Iterable[Result], known: Mapping[str, str]) -> list[Result]:
    """The results with their targets: from the path, then from the text, among the ``known`` names
    with their kinds. Where no machine is known, the name that the text or the path states stands.
    """
    names = known.keys()
    out = []
    for result in results:
        parts = PurePosixPath(result.path).parts
        own = [part for part in parts if part in names or PurePosixPath(part).stem in names]
        if own:
            name = own[-1] if own[-1] in names else PurePosixPath(own[-1]).stem
        elif result.target in names:
            name = result.target
        else:
            short = {n for n in names if result.target and n.partition(".")[0] == result.target.partition(".")[0]}
            name = short.pop() if len(short) == 1 else "" if names else result.target
        out.append(replace(result, target=name, kind=known.get(name, "node")))
    return out


def _beginning(text: str) -> str:
    lines = (line for line in text[:HEAD_BYTES].splitlines() if line.strip())
    return "\n".join(itertools.islice(lines, SIGN_LINES))


def _is_log(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(_CLOCK.search(line) is not None for line in lines) > max(3.0, MIN_LOG_SHARE * len(lines))


def _host(text: str) -> str:
    return next((found[1] for pattern in _HOST_PATTERNS if (found := pattern.search(text[:HEAD_BYTES]))), "")
