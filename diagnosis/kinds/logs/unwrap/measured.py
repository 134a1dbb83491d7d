"""A record that states a step and what was measured in it, as a line. Histories of experiment
trackers and trainers (``{"step": 40, "loss": 2.1}``) are logs of a training in other words, and so
are records of loggers with a text beside their numbers (``{"msg": "step done", "step": 40}``).
A house style names its step otherwise (``{"msg": "tick", "tick": 40, "busy_s": 0.3}``): then the
numbers are told, and the one that grows evenly counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any, Final

from diagnosis.values.json_values import JsonObject

#: Fields of a record that are told, and characters of each.
MAX_FIELDS: Final = 40
MAX_CHARS: Final = 200
_NUMBER: Final = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,3})?|nan|inf(?:inity)?)", re.IGNORECASE)
#: Columns that a tracker adds to each of its own, and the name of a run before a column.
_BOUND: Final = re.compile(r"__(?:MIN|MAX)$")
_RUN: Final = " - "
#: A field that states how many steps are planned.
_PLANNED: Final = re.compile(
    r"(?:max|num|total)_(?:train_|training_)?"
    r"(?:steps|iters|iterations|updates|batches)"
)


def line_of(fields: JsonObject, step: Any, without: Collection[str]) -> str:
    """``step 40 - loss: 2.1, grad_norm: nan``, or ``step 40/200 - …`` if a field states how many are
    planned; empty without a step or a number beside it. ``without``: fields that say when, where,
    how severe, and the text.
    """
    number = _whole(step)
    if number is None:
        return ""
    stated = {_short_name(name): _word(value) for name, value in fields.items() if name not in without}
    told = {name: word for name, word in stated.items() if word and not _BOUND.search(name)}
    if not any(_NUMBER.fullmatch(word) for word in told.values()):
        return ""
    totals = [word for name, word in told.items() if _PLANNED.fullmatch(name.lower())]
    planned = next(filter(str.isdecimal, totals), "")
    parts = [f"{name}: {word}" for name, word in list(told.items())[:MAX_FIELDS]]
    return f"step {number}{'/' * bool(planned)}{planned} - {', '.join(parts)}"


def numbers_of(fields: JsonObject, without: Collection[str]) -> str:
    """``tick: 40, busy_s: 0.3`` of a record that states a whole number and a fraction, as a step and
    its measurement are; else empty. ``without``: fields that say something else.
    """
    numbers = {name: value for name, value in fields.items() if name not in without}
    told = {name: value for name, value in numbers.items() if type(value) in (int, float)}
    if not {int, float} <= set(map(type, told.values())):
        return ""
    parts = [f"{_short_name(name)}: {_word(value)}" for name, value in told.items()]
    return ", ".join(parts[:MAX_FIELDS])


def _short_name(name: str) -> str:
    return name.rpartition(_RUN)[2][:MAX_CHARS].strip()


def _whole(value: Any) -> int | None:
    """A step: a whole number from 0 on, also as text or as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    word = _word(value)
    number = float(word) if _NUMBER.fullmatch(word) else math.nan
    return int(number) if 0 <= number < 1e12 and number.is_integer() else None


def _word(value: Any) -> str:
    """A number or a text in one line; empty for anything else."""
    if isinstance(value, str):
        return " ".join(value[:MAX_CHARS].split())
    if isinstance(value, float):
        return f"{value:.9g}"
    is_small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18
    return str(value) if is_small else ""
