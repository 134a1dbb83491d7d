"""Names of columns in the tables of any exporter: what each means, and the unit that it states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from diagnosis.knowledge.knowledge_files import table

#: our name -> exporters' names (compared without case, blanks, `_`, `-` and `.`)
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {name: tuple(own) for name, own in table("flow_columns").items()}
BY_NAME = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
#: Longer words are no column names.
MAX_CHARS = 100
_PUNCTUATION = re.compile(r"[\W_]+")
_WORD = re.compile(r"[KM]iB|[A-Z]?[a-z0-9]+|[A-Z]+")
#: Words that a name may have besides its meaning.
_FILLERS = frozenset({"total", "sum", "epoch", "unix", "flow"})
#: Nanoseconds, or bytes, of a unit that ends a name.
TIME_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), 1e9),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "milliseconds"), 1e6),
    **dict.fromkeys(("us", "usec", "usecs", "micros", "microseconds"), 1e3),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanoseconds"), 1.0),
}
SIZE_UNITS = {
    **dict.fromkeys(("kb", "kbytes", "kilobytes"), 1e3),
    **dict.fromkeys(("kib", "kibibytes"), 1024.0),
    **dict.fromkeys(("mb", "mbytes", "megabytes"), 1e6),
    **dict.fromkeys(("mib", "mebibytes"), 1048576.0),
    "bits": 0.125,
}
_UNITS = TIME_UNITS | SIZE_UNITS
#: Units that names are written together with, as in `durationms`.
_JOINED_UNITS = ("ms", "us", "ns")


def plain(name: str) -> str:
    """A column name without case and punctuation."""
    return _PUNCTUATION.sub("", name.lower())


def _words(name: str) -> list[str]:
    """The words of a column name that say what it means, and its unit as the last one."""
    words = [word for word in map(str.lower, _WORD.findall(name)) if word not in _FILLERS]
    is_joined = bool(words) and words[-1][-2:] in _JOINED_UNITS and words[-1][:-2] in BY_NAME
    return [*words[:-1], words[-1][:-2], words[-1][-2:]] if is_joined else words


def stem(name: str) -> str:
    """The name as the aliases have it: whole if it is one, else without fillers and unit."""
    whole = plain(name)
    if whole in BY_NAME:
        return whole
    words = _words(name)
    has_unit = len(words) > 1 and words[-1] in _UNITS
    meaning = "".join(words[:-1] if has_unit else words)
    return "bytes" if meaning in SIZE_UNITS else meaning


def unit_of(name: str, units: dict[str, float]) -> float | None:
    """The unit that the last word of a name states."""
    words = _words(name)
    return units.get(words[-1]) if words else None


@lru_cache(4096)  # every small log is searched for a header, and they are similar
def our_name(name: str) -> str | None:
    """Our name of an exporter's column; None if it is not known."""
    return BY_NAME.get(stem(name)) if len(name) <= MAX_CHARS else None
