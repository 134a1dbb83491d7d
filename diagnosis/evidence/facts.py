"""Facts: what a report states of one place. Hostile text and numbers are checked here, where facts are made."""

from __future__ import annotations

import math
import re
from typing import Final, Self

import msgspec

from diagnosis.evidence.place_names import Place
from diagnosis.values.plain import counted
from diagnosis.values.plain import text as stored_text

#: Facts that are kept of one file.
MAX_FACTS: Final = 100_000
_MAX_NAME_CHARS: Final = 200
_MAX_VALUE_CHARS: Final = 300
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,9})?(?:[eE][-+]?[0-9]{1,3})?")
#: Thousands between commas, as switches write their counters.
_THOUSANDS: Final = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3}){1,6}(?![0-9,])")
_SEPARATORS: Final = re.compile(r"[\s_\-]+")


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """One property of one place.

    ``name`` is the path of the property as it is written: words with one space between them, levels with a full stop
    ("ECC Errors.Volatile.DRAM Uncorrectable"). ``value`` is as written; ``part`` the part of the place that it
    belongs to, such as a GPU or a port of a node; ``line`` is 1-based, 0 if unknown.
    """

    place: Place
    name: str
    value: str
    line: int = 0
    part: str = ""

    @classmethod
    def of(cls, place: Place, path: tuple[str, ...], value: str, line: int = 0, part: str = "") -> Self:
        """A fact from text as it was found; longer names and values are cut."""
        name = ".".join(filter(None, map(_word, path)))[:_MAX_NAME_CHARS]
        return cls(place, name, _cut(stored_text(value.strip())), line, stored_text(part.strip())[:100])


class FactSummary(msgspec.Struct, frozen=True):
    """How many facts a job has.

    ``odd``: values that differ from what most places state, with a few ``examples`` in words;
    ``left_out``: facts beyond the limit; ``table``: the file with all of them, empty without a folder
    for it.
    """

    facts: int
    places: int
    properties: int
    odd: int
    left_out: int = 0
    table: str = ""
    examples: tuple[str, ...] = ()

    @property
    def differences(self) -> str:
        """The sentence about the odd values; empty without any."""
        if not self.odd:
            return ""
        differ = counted(self.odd, "value differs", "values differ")
        told = "; ".join(f"“{example}”" for example in self.examples)
        return f"{differ} from what most places state ({told})."


#: Of a job without reports.
NO_FACTS: Final = FactSummary(0, 0, 0, 0)


def _cut(value: str) -> str:
    """A long value without its middle: errors end with their cause."""
    if len(value) <= _MAX_VALUE_CHARS:
        return value
    half = _MAX_VALUE_CHARS // 2
    return f"{value[: half - 1]}…{value[-half:]}"


def _word(text: str) -> str:
    return _SEPARATORS.sub(" ", stored_text(text)).strip(" :")


def number_of(value: str) -> float | None:
    """The number that begins a value ("34 C", "97 %", "81,231"); None for other text."""
    found = _THOUSANDS.match(value) or _NUMBER.match(value)
    if found is None:
        return None
    number = float(found[0].replace(",", ""))
    return number if math.isfinite(number) else None
