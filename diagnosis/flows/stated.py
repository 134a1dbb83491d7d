"""The stated parallel sizes of a job: from layout files, the upload form, or its command line. If flows show another
size, one of them is wrong, and the report says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from diagnosis import numbers

#: Frameworks' options for the sizes on their command lines (Megatron-LM, DeepSpeed, vLLM, TorchTitan, plain scripts).
_OPTIONS: Final = {
    "tp": r"tensor[-_.]model[-_.]parallel[-_.]size|tensor[-_.]parallel[-_.](?:size|degree)|tp(?:[-_]size)?",
    "pp": r"pipeline[-_.]model[-_.]parallel[-_.]size|pipeline[-_.]parallel[-_.](?:size|degree)|pp(?:[-_]size)?",
    "dp": r"data[-_.]parallel[-_.](?:size|degree)|dp(?:[-_]size)?",
}
_PATTERNS: Final = {
    kind: re.compile(rf"(?:^|\s)--(?:[\w.]*\.)?(?:{names})[=\s]+(\d{{1,7}})(?=\s|$)")
    for kind, names in _OPTIONS.items()
}
#: Number of characters of a command line that are read.
_LONGEST: Final = 100_000


def sizes(layout: Mapping[str, Any], commands: Iterable[str]) -> dict[str, int]:
    """``tp``, ``pp``, ``dp`` if stated; a layout outranks a command line."""
    found: dict[str, int] = {}
    for command in commands:
        for kind, pattern in _PATTERNS.items():
            match = pattern.search(command[:_LONGEST])
            size = numbers.rank(match[1]) if match else None
            if size:
                found.setdefault(kind, size)
    for kind in _OPTIONS:
        value = layout.get(kind)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            found[kind] = value
    return found


def apart(stated: Mapping[str, int], seen: Mapping[str, int | None]) -> list[str]:
    """The sizes that the flows show differently than stated. One size follows from the two others, so only those that
    traffic shows are compared: ``pp``, and ``tp`` if known.
    """
    return [kind for kind in ("tp", "pp") if kind in stated and seen.get(kind) not in (None, stated[kind])]


def disagreement(stated: Mapping[str, int], seen: Mapping[str, int | None]) -> str:
    """A sentence if the flows show another size than stated; empty if they agree or one is unknown."""
    sizes = apart(stated, seen)
    if not sizes:
        return ""
    said = ", ".join(f"{kind} {stated[kind]}" for kind in sizes)
    shown = ", ".join(f"{kind} {seen[kind]}" for kind in sizes)
    return f"The job's description states {said}; its flows show {shown}. One of them is not of this job."


def compare(
    report: dict[str, Any],
    stated: Mapping[str, int],
    described: Sequence[tuple[frozenset[str], Mapping[str, int]]] = (),
) -> None:
    """Adds ``stated`` to the jobs of a flow report, and a limit for each that shows other sizes: to the largest job, or
    where several jobs are ``described`` (machines, sizes), to each whose machines are mostly those of one description.
    """
    jobs = sorted(report["jobs"], key=lambda job: -len(job["members"]))
    known = [(job, stated) for job in jobs[:1]]
    if described:
        known = [(job, of) for job in jobs for places, of in described if _mostly(job, places)]
    for job, sizes_ in known:
        if not sizes_:
            continue
        job["stated"] = dict(sizes_)
        if sentence := disagreement(sizes_, job["parallelism"]):
            report["limits"].append(sentence)


def _mostly(job: Mapping[str, Any], places: frozenset[str]) -> bool:
    """Whether most machines of a job, by name or address, are among the places."""
    named = job.get("nodes") or job["members"]
    return 2 * sum(str(name) in places for name in named) > len(named)
