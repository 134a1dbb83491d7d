"""The literals of the rules' patterns, computed when they are written (``describe``) and not when they are used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources

from diagnosis.kinds.logs.text.literals import Way, ways


@cache
def stored_ways() -> dict[str, tuple[Way, ...]]:
    """The stored ways of the rules' patterns (``describe`` writes them): computing them takes longer than reading a
    small log.
    """
    text = (
        resources.files("diagnosis.kinds.logs.meaning.signatures").joinpath("literals.json").read_text(encoding="utf-8")
    )
    return {pattern: tuple(map(_stored_way, found)) for pattern, found in json.loads(text).items()}


def _stored_way(sets: Iterable[Iterable[str]]) -> Way:
    return frozenset(map(frozenset, sets))


def as_json(patterns: Iterable[str]) -> str:
    """The text for :func:`stored_ways`: a line for each pattern."""
    return "{\n" + ",\n".join(map(_json_row, sorted(set(patterns)))) + "\n}\n"


def _json_row(pattern: str) -> str:
    row = sorted(sorted(map(sorted, way)) for way in ways(pattern))
    return f"{json.dumps(pattern)}: {json.dumps(row)}"
