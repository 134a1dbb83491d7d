"""The literals of the patterns that ship as data, computed when they are written and not when they are used: that takes
longer than reading a small log. ``python -m diagnosis.kinds.logs.meaning.signatures.describe docs`` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from diagnosis.kinds.logs.text.literals import Way, ways

FILE: Final = Path(__file__).with_name("literals.json")


@cache
def stored_ways() -> dict[str, tuple[Way, ...]]:
    """The stored ways by pattern."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, tuple[frozenset[frozenset[str]], ...]])


@cache
def ways_of(pattern: str) -> tuple[Way, ...]:
    """:func:`literals.ways` of a pattern, in any order."""
    return stored_ways().get(pattern) or ways(pattern)


def as_json(patterns: Iterable[str]) -> str:
    """The text for :func:`stored_ways`: a line for each pattern."""
    return "{\n" + ",\n".join(map(_json_row, sorted(set(patterns)))) + "\n}\n"


def _json_row(pattern: str) -> str:
    row = sorted(sorted(map(sorted, way)) for way in ways(pattern))
    return f"{json.dumps(pattern)}: {json.dumps(row)}"
