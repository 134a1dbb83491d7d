"""Every pattern of the knowledge files finds its examples and leaves its counter-examples alone."""

from __future__ import annotations

import re

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.meaning.words import Word

#: Files whose lines are compared in lower case.
FOLDED = {"stages"}
#: Files whose patterns say themselves whether case matters.
EXACT = {"frameworks", "schedulers", "phrases"}
#: Files in Python's dialect.
PYTHON = {"parameters", "watchdogs", "measures", "watched"}
NAMES = (
    "outcome",
    "stages",
    "frames",
    "frameworks",
    "schedulers",
    "parameters",
    "phrases",
    "watchdogs",
    "measures",
    "watched",
)
ROWS = [(name, n, word) for name in NAMES for n, word in enumerate(words.load(name))]


def found(name: str, word: Word, line: str) -> bool:
    """Whether the row finds the line, with the engine that uses it."""
    if name in PYTHON:
        return re.search(word.pattern, line) is not None
    pattern = word.pattern if word.pattern.startswith("(?i)") or name in EXACT else f"(?i){word.pattern}"
    text = line.lower() if name in FOLDED else line
    return bool(pl.Series([text]).str.contains(pattern)[0])


@pytest.mark.parametrize(("name", "n", "word"), ROWS, ids=[f"{name}-{n}-{word.id}" for name, n, word in ROWS])
def test_a_row_finds_its_examples_and_not_its_counter_examples(name: str, n: int, word: Word) -> None:
    assert word.example
    assert word.counter
    assert [line for line in word.example if not found(name, word, line)] == []
    assert [line for line in word.counter if found(name, word, line)] == []
