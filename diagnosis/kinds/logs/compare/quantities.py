"""Quantities that a line states: a number, what it is called, and whether it measures work,
waiting, a rate, a size of the work or a level.

Programs call the same thing by many names. So a name is split into words, and a few words and units
decide (``quantities.toml``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain, product, starmap
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.kinds.logs.text.digit_forms import DigitForms, span_of
from diagnosis.knowledge.knowledge_files import table

LIMITS: Final = thresholds.limits("quantities")

#: A number with its unit, no part of a date, a clock or a fraction; minutes may stand before
#: seconds.
_NUMBER: Final = re.compile(
    r"(?<![\w.])(?<!\d[:/-])(?P<number>\d{1,3}(?:,\d{3}){1,3}(?![\d,])(?:\.\d{1,9})?|\d{1,15}(?:\.\d{1,15})?)"
    r"(?![:/-]\d)(?:m(?P<seconds>\d{1,2}(?:\.\d{1,9})?)s\b"
    r"| ?(?P<unit>[A-Za-z]+(?:[/-][A-Za-z]+)?)(?![\w=:/]))?(?!\w)"
)
_STEP: Final = re.compile(
    r"(?i)(?<![a-z])(?:global[_ ])?(?:step|iteration|iter|it|batch|shard)[\"']?[ :=#/[]{0,3}(\d{1,12})(?![\d.])"
)
#: What ends a clause or a field.
_CLAUSE: Final = re.compile(r"[,;|(){}\[\]\"']")
_ASIDE: Final = re.compile(r"\([^()]{0,30}\)")
_DIGIT: Final = re.compile(r"\d")
_DIGITS: Final = re.compile(r"\d+")
#: Words before a number that name nothing alone.
_BARE: Final = ("in", "of", "for", "took", "at", "is", "was", "after", "within")
_WORD: Final = re.compile(r"[A-Za-z]+")
#: Where a word begins in a name without separators: ``fwdTime``, ``allReduce``.
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Senses by the lists of words of a name, in the order in which they decide; empty: no measure.
_SENSE_OF: Final = {
    "stage_name": "stage",
    "no_measure": "",
    "rate_name": "rate",
    "input_name": "input",
    "wait_name": "wait",
    "work_name": "work",
    "size_name": "size",
    "level_name": "level",
}
#: Senses of what is stated as a time.
_TIMES: Final = ("work", "wait")


class Quantity(NamedTuple):
    """A stated quantity. ``unit``: ``s`` for known units of time, else as written."""

    name: str
    sense: str
    unit: str
    value: float


class _Kind(NamedTuple):
    """What all numbers with the same words around them are; ``factor`` makes the unit of them."""

    name: str
    sense: str
    unit: str
    factor: float


def quantities(line: str) -> Iterator[Quantity]:
    """The quantities of a line, in their order. O(characters)."""
    for number in _numbers.of(line):
        kind = number.kind
        if number.is_named_by_digits:
            kind = _kind(_without_numbers(_before(line, number.start)), number.unit)
        if kind is not None:
            yield Quantity(kind.name, kind.sense, kind.unit, _value(line, number) * kind.factor)


class _Number(NamedTuple):
    """A number in a line, with the seconds behind its minutes; ``is_named_by_digits``: whether its
    kind depends on a word with digits.
    """

    start: int
    end: int
    seconds: tuple[int, int] | None
    unit: str
    kind: _Kind | None
    is_named_by_digits: bool


def _numbers_of(line: str) -> tuple[_Number, ...]:
    """The numbers of a line that are quantities, or may be in other lines of this form."""
    numbers: list[_Number] = []
    for found in _NUMBER.finditer(line):
        start, unit = found.start(), "s" if found["seconds"] else found["unit"] or ""
        before = _before(line, start)
        is_named_by_digits = _DIGIT.search(before, before.rstrip().rfind(" ") + 1) is not None
        kind = _kind(_without_numbers(before), unit)
        seconds = found.span("seconds") if found["seconds"] else None
        if kind is not None or is_named_by_digits:
            numbers.append(_Number(start, found.end("number"), seconds, unit, kind, is_named_by_digits))
    return tuple(numbers)


_numbers: Final = DigitForms(_numbers_of)


def step_of(line: str) -> int | None:
    """The step that a line is about; None where it states none."""
    place = _steps.of(line)
    return int(line[place[0] : place[1]]) if place is not None else None


_steps: Final = span_of(_STEP)


def _value(line: str, number: _Number) -> float:
    """A number of a line; minutes and seconds as seconds."""
    whole = float(line[number.start : number.end].replace(",", ""))
    if number.seconds is None:
        return whole
    begin, end = number.seconds
    return whole * 60 + float(line[begin:end])


def _before(line: str, start: int) -> str:
    """The text before a number that may name it."""
    return _ASIDE.sub("", line[max(0, start - LIMITS.chars_before) : start])


def _without_numbers(before: str) -> str:
    """The words before a number with other numbers alike, so that lines of one wording ask once. The
    last word stays: it may name the number.
    """
    written = before.rstrip()
    last = written.rfind(" ") + 1
    return _DIGITS.sub("0", written[:last]) + written[last:]


@lru_cache(4096)
def _kind(before: str, unit: str) -> _Kind | None:
    """What a number is, by the words before it and its unit; None if neither says it."""
    name = _name(before)
    told = {word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name))}
    seconds = _units().get(unit.lower(), 0.0)
    sense = _sense(told, unit.lower(), is_time=seconds > 0)
    if not sense:
        return None
    if sense not in _TIMES:
        return _Kind(name or unit, sense, unit, 1.0)
    named = [_units()[word] for word in _WORD.findall(name.lower()) if word in _units()]
    seconds = seconds or next(iter(named), 0.0)
    return _Kind(name or "time", sense, "s" if seconds else "", seconds or 1.0)


def _name(before: str) -> str:
    """The words that name a number: the key of a field, else the last words of its clause."""
    clause = _CLAUSE.split(before)[-1].rstrip()
    parts = [part.rstrip("=:").split("=") for part in clause.split()]
    tokens: list[str] = list(chain.from_iterable(parts))
    if clause.endswith(("=", ":")):
        return tokens[-1].strip("-.<>*#")
    kept: list[str] = []
    for token in reversed(tokens):
        is_number = _DIGIT.search(token) is not None
        if is_number and any(word.lower() not in _BARE for word in kept):
            break
        if not is_number and _WORD.search(token):
            kept.append(token.strip("-.<>*#"))
    return " ".join(reversed(kept[: LIMITS.words]))


def _sense(told: set[str], unit: str, *, is_time: bool) -> str:
    """What a number with these words and this unit measures; empty for nothing that is compared."""
    lists = _words()
    row = next((row for row in _SENSE_OF if not told.isdisjoint(lists[row])), None)
    sense = "" if row is None else _SENSE_OF[row]
    if row == "no_measure":
        return ""
    if _is_rate(unit):
        return "rate"
    if unit in lists["size_name"]:
        return "size"
    if sense == "input":
        # a bare number beside such a word is a name, not a time
        is_timed = is_time or not told.isdisjoint(lists["work_name"])
        return "work" if is_timed else ""
    if is_time and sense != "wait":
        return "work"
    return sense


def _is_rate(unit: str) -> bool:
    """Whether a unit is of a rate: ``samples/s``; seconds of a step (``s/it``) are a time."""
    _, slash, per = unit.partition("/")
    return bool(slash) and per.startswith("s") and per not in _words()["step_name"]


@cache
def _words() -> dict[str, frozenset[str]]:
    return {name: frozenset(own) for name, own in table("quantities").items()}


@cache
def _units() -> dict[str, float]:
    """Seconds of each unit of time, also of one step (``s/it``)."""
    rows = {"unit_s": 1.0, "unit_ms": 1e-3, "unit_us": 1e-6, "unit_ns": 1e-9}
    found: dict[str, float] = {}
    for row, factor in rows.items():
        units = _words()[row]
        per_step = starmap("{}/{}".format, product(units, _words()["step_name"]))
        found |= dict.fromkeys([*units, *per_step], factor)
    return found
