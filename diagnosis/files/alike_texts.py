"""Texts of one tool from several machines, compared line by line although no reader knows them.

What a line states becomes a fact, so that the table of facts tells which machine differs.

Texts are alike if their paths differ in the name of the machine alone (``gpu-1/lscpu.txt``,
``gpu-2/lscpu.txt``). Logs are not compared: a line of one answers no line of another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from diagnosis.evidence import Fact, Place, number_of
from diagnosis.kinds import states
from diagnosis.model import Parsed, ReadRange
from diagnosis.values import log_lines

#: Bytes and lines of a text that are read, and texts of a job.
MAX_BYTES: Final = 64 << 10
MAX_LINES: Final = 400
MAX_TEXTS: Final = 512
#: Lines that are read of all texts.
MAX_ALL_LINES: Final = 50_000
MAX_FACTS: Final = 100_000
#: Machines from which a majority can be told.
MIN_PLACES: Final = 3
#: Share of lines with a time of day above which a text is a log.
_MAX_LOG_SHARE: Final = 0.2
_MAX_CHARS: Final = 200
_MAX_VALUES: Final = 8
_COUNT: Final = "number of lines"
#: A key before its value.
_PAIR: Final = re.compile(r"([A-Za-z][^:=\n]{0,80}):(?=\s)\s{0,80}(\S[^\n]{0,200})")
_KEY: Final = re.compile(r"[A-Za-z][\w.\-]{0,60}")
_DIGIT: Final = re.compile(r"\d")
_LETTERS: Final = re.compile(r"[A-Za-z]{2,}")
_NOT_WORDS: Final = re.compile(r"[^A-Za-z0-9]+")

type _Stated = tuple[str, Fact]
type _Texts = dict[str, Parsed]


def stated_facts(quiet: Iterable[Parsed], read: ReadRange) -> list[_Stated]:
    """What the lines of alike texts state, each with its path. O(texts × lines read)."""
    found: list[_Stated] = []
    families = _families(quiet)
    most = min(MAX_LINES, MAX_ALL_LINES // max(1, sum(map(len, families.values()))))
    for family, texts in families.items():
        for machine, parsed in texts.items():
            place = Place("node", machine)
            lines = read(parsed.path, 0, MAX_BYTES).decode("utf-8", "replace").splitlines()[:most]
            if log_lines.are_timed(lines, _MAX_LOG_SHARE):
                continue
            for name, (value, line) in _stated_in(lines).items():
                found.append((parsed.path, Fact.of(place, (name,), value, line, family)))
    return found[:MAX_FACTS]


def _families(quiet: Iterable[Parsed]) -> dict[str, _Texts]:
    """The alike texts by machine, for each path without the machine."""
    families: dict[str, _Texts] = defaultdict(dict)
    for parsed in sorted(quiet, key=lambda one: one.path)[:MAX_TEXTS]:
        machine = states.machine_of_path(parsed.path)
        if machine:
            family = parsed.path.replace(machine, "", 1).strip("/-_.").replace("/.", ".")
            families[family].setdefault(machine, parsed)
    return {family: texts for family, texts in families.items() if len(texts) >= MIN_PLACES}


def _stated_in(lines: Sequence[str]) -> dict[str, tuple[str, int]]:
    """What a text states by name: the value, or the middle one of several numbers, and its line."""
    stated: dict[str, list[tuple[str, int]]] = defaultdict(list)
    stated[_COUNT].append((str(len(lines)), 0))
    for number, line in enumerate(lines, 1):
        for name, value in _stated_in_line(line[:_MAX_CHARS]):
            stated[name].append((value, number))
    return {name: _middle(values) for name, values in stated.items()}


def _middle(values: list[tuple[str, int]]) -> tuple[str, int]:
    """One value for several: the middle number, else all words in one order at the first line."""
    ordered = sorted(values, key=lambda one: number_of(one[0]) or 0.0)
    if all(number_of(value) is not None for value, _ in values):
        return ordered[(len(ordered) - 1) // 2]
    words = sorted({value for value, _ in values})
    return ", ".join(words[:_MAX_VALUES]), values[0][1]


def _stated_in_line(line: str) -> Iterator[tuple[str, str]]:
    """Name and value of what a line states: its pair, its words ``key=value``, else each word with a
    digit or in quotes, named by the others and its place among its like.
    """
    words = line.split()
    parts = [word.partition("=") for word in words]
    tokens = [(key, value) for key, _, value in parts if value and _KEY.fullmatch(key)]
    pair = _PAIR.match(line.strip())
    if len(tokens) > 1:
        yield from tokens
    elif pair is not None:
        yield pair[1], pair[2]
    else:
        yield from _numbered_words(words)


def _numbered_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A line of numbers is named by its first number, a single word by its letters."""
    values = list(filter(_is_value, words))
    plain = (_NOT_WORDS.sub(" ", word).strip() for word in words if not _is_value(word))
    letters = " ".join(_LETTERS.findall(values[0])) if len(values) == 1 else ""
    name = " ".join(filter(None, plain)) or letters or next(iter(values), "")
    for place, value in enumerate(values, 1):
        yield (f"{name} ({place} of {len(values)})" if len(values) > 1 else name), value


def _is_value(word: str) -> bool:
    """Whether a word may differ from machine to machine: one with a digit or in quotes."""
    return word.startswith('"') or _DIGIT.search(word) is not None
