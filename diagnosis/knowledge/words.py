"""Words of the field as data: ordered patterns with examples and counter-examples, one file for each question.

``knowledge/outcome.toml``: messages at the end of jobs. ``stages.toml``: lines that begin or end a stage.
``frames.toml``: the stage of a traceback's frames. ``phrases.toml``: deaths, waits, broken connections and ranks in any
words. ``parameters.toml``: the objects of a line. ``watchdogs.toml``: the position of a rank in the order of
collectives. ``watched.toml``: what the watches of a running job read.
``frameworks.toml`` and ``schedulers.toml``: lines that identify them. A row has an ``id`` (the meaning of a match), a
``pattern`` (of the linear-time dialect, or Python's if the file says so), an ``example`` that it matches and a
``counter`` that it does not; ``tests/diagnosis/kinds/logs/test_words.py`` checks both for every row.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from diagnosis.knowledge.knowledge_files import records, table
from diagnosis.knowledge.late_patterns import late

#: What a line may hold without being about it: the name of the module that logs.
MODULE = r"\b[a-z_]\w*(?:\.[a-z_]\w*)+\b"


class Word(msgspec.Struct, frozen=True):
    """One row: the meaning of a match of ``pattern``, with its examples."""

    id: str
    pattern: str
    example: tuple[str, ...] = ()
    counter: tuple[str, ...] = ()
    is_end: bool = False


@cache
def load(name: str) -> tuple[Word, ...]:
    """The rows of one file in order. Raises ``FileNotFoundError`` for a file that does not ship."""
    return records(Word, table(name)["word"])


@cache
def patterns(name: str, word_id: str) -> tuple[str, ...]:
    """The patterns of one meaning, one a row. Raises ``KeyError`` for an unknown meaning."""
    rows = tuple(word.pattern for word in load(name) if word.id == word_id)
    if not rows:
        raise KeyError(f"{name}.toml has no word {word_id!r}")
    return rows


@cache
def pattern(name: str, word_id: str) -> str:
    """The pattern of one meaning, its rows joined. Raises ``KeyError`` for an unknown meaning."""
    rows = patterns(name, word_id)
    return rows[0] if len(rows) == 1 else "|".join(_scoped(row) for row in rows)


@cache
def regex(name: str, word_id: str) -> re.Pattern[str]:
    """The same, compiled in Python's dialect."""
    return late(pattern(name, word_id))


def _scoped(row: str) -> str:
    """A pattern whose leading flag applies only to itself."""
    return f"(?i:{row.removeprefix('(?i)')})" if row.startswith("(?i)") else f"(?:{row})"
