"""The parallel sizes that a job's own words state: layout files, the upload form, the command line that started it.

Flows show sizes, the command states them. Where both are known and differ, one of them is wrong: the report says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from diagnosis import numbers

#: What frameworks call the sizes on their command lines (Megatron-LM, DeepSpeed, vLLM, TorchTitan, plain scripts).
_OPTIONS: Final = {
    "tp": r"tensor[-_.]model[-_.]parallel[-_.]size|tensor[-_.]parallel[-_.](?:size|degree)|tp(?:[-_]size)?",
    "pp": r"pipeline[-_.]model[-_.]parallel[-_.]size|pipeline[-_.]parallel[-_.](?:size|degree)|pp(?:[-_]size)?",
    "dp": r"data[-_.]parallel[-_.](?:size|degree)|dp(?:[-_]size)?",
}
_PATTERNS: Final = {
    kind: re.compile(rf"(?:^|\s)--(?:[\w.]*\.)?(?:{names})[=\s]+(\d{{1,7}})(?=\s|$)")
    for kind, names in _OPTIONS.items()
}
#: Characters of a command line that are read.
_LONGEST: Final = 100_000


def sizes(layout: Mapping[str, Any], commands: Iterable[str]) -> dict[str, int]:
    """``tp``, ``pp``, ``dp`` as far as they are stated; a layout comes before a command line."""
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


def disagreement(stated: Mapping[str, int], seen: Mapping[str, int | None]) -> str:
    """A sentence where the flows show another size than is stated; empty where they agree or one is silent. One size
    follows from the two others, so only those that traffic shows are compared: ``pp``, and ``tp`` where it is known.
    """
    apart = [kind for kind in ("tp", "pp") if kind in stated and seen.get(kind) not in (None, stated[kind])]
    if not apart:
        return ""
    said = ", ".join(f"{kind} {stated[kind]}" for kind in apart)
    shown = ", ".join(f"{kind} {seen[kind]}" for kind in apart)
    return f"The job's description states {said}; its flows show {shown}. One of them is not of this job."
