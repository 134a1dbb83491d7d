"""Every pattern of the knowledge files finds its examples and leaves its counter-examples alone."""

from __future__ import annotations

import re

import polars as pl
import pytest

from diagnosis.facts import setups
from diagnosis.kinds.logs.meaning.signatures import quotations
from diagnosis.kinds.logs.meaning.signatures.load import builtin
from diagnosis.kinds.logs.read import headers
from diagnosis.knowledge import words
from diagnosis.knowledge.words import Word

#: Files whose lines are compared in lower case.
FOLDED = {"stages"}
#: Files whose patterns say themselves whether case matters.
EXACT = {"frameworks", "schedulers", "phrases"}
#: Files in Python's dialect.
PYTHON = {"parameters", "watchdogs", "watched"}
NAMES = (
    "outcome",
    "stages",
    "frames",
    "frameworks",
    "schedulers",
    "parameters",
    "phrases",
    "watchdogs",
    "watched",
)
#: ``\w{0,60}`` for all of Unicode, which the linear-time engine writes out as often as the count says.
COUNTED = re.compile(r"(?:\\[wW]|\[(?:[^\]\\]|\\.)*\\[wW](?:[^\]\\]|\\.)*\])\{(?:\d+,)?(\d+)\}")
MAX_COUNTED = 8
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


def test_no_pattern_counts_the_letters_of_all_alphabets() -> None:
    """To compile 60 of them takes longer than to search a small log; polars forgets most patterns between two jobs."""
    patterns = [word.pattern for name, _, word in ROWS if name not in PYTHON]
    patterns += [row.pattern for row in setups.properties() if row.pattern]
    patterns += [rule.pattern for rule in builtin()]
    patterns += [quotations.HYPOTHESIS_WORDS, quotations.QUOTED_NAME, headers._HEADER, headers._AFTER_LABEL]
    assert [one for one in patterns if sum(map(int, COUNTED.findall(one))) > MAX_COUNTED] == []
