"""Words of the field as data: ordered patterns with examples and counter-examples, one file for each question.

``knowledge/outcome.toml``: how jobs say that they ended. ``stages.toml``: which stage a line begins or ends.
``frames.toml``: which stage a traceback's frames tell. ``libraries.toml``: what the library that raised an exception
suggests. ``phrases.toml``: deaths, waits, broken connections, ranks and peers in any words. ``parameters.toml``: what
a line is about. ``watchdogs.toml``: where a rank stands in the order of collectives. ``measures.toml``: what a number
measures. ``frameworks.toml`` and ``schedulers.toml``: what gives them away. A row has an ``id`` (what a match means), a
``pattern`` (of the linear-time dialect, or Python's where the file says so), an ``example`` that it finds and a
``counter`` that it does not; ``tests/diagnosis/logs/test_words.py`` holds every row to both.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Word:
    """One row: what a match of ``pattern`` means, with what proves it."""

    id: str
    pattern: str
    example: tuple[str, ...] = ()
    counter: tuple[str, ...] = ()
    is_end: bool = False


@cache
def load(name: str) -> tuple[Word, ...]:
    """The rows of one file in order. Raises ``FileNotFoundError`` for a file that does not ship."""
    text = resources.files("diagnosis").joinpath("knowledge", f"{name}.toml").read_text(encoding="utf-8")
    return tuple(
        Word(row["id"], row["pattern"], tuple(row["example"]), tuple(row["counter"]), row.get("is_end", False))
        for row in tomllib.loads(text)["word"]
    )


@cache
def pattern(name: str, word_id: str) -> str:
    """The pattern of one meaning, its rows joined. Raises ``KeyError`` for a meaning that the file lacks."""
    rows = [word.pattern for word in load(name) if word.id == word_id]
    if not rows:
        raise KeyError(f"{name}.toml has no word {word_id!r}")
    return rows[0] if len(rows) == 1 else "|".join(_scoped(row) for row in rows)


@cache
def regex(name: str, word_id: str) -> re.Pattern[str]:
    """The same, compiled in Python's dialect."""
    return re.compile(pattern(name, word_id))


def _scoped(row: str) -> str:
    """A pattern whose leading flag holds for it alone."""
    return f"(?i:{row.removeprefix('(?i)')})" if row.startswith("(?i)") else f"(?:{row})"
