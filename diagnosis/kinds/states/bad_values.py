"""The table of bad values, from ``bad_values.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from diagnosis.knowledge.knowledge_files import records, table
from diagnosis.knowledge.late_patterns import late

#: Values that say that nothing is wrong, whatever their property is called.
_NO: Final = late(
    r"(?:not active|inactive|n/?a|no|none|false|disabled|not supported|ok|healthy|pass(?:ed)?|\(null\)|-+)"
    r"(?:\s+(?:[a-z%/]{1,8}|- all))?"
    r"|0(?:\.0+)?(?:\s*[a-z%/]{1,8})?",
    re.IGNORECASE,
)


#: The last word of what a part says of itself, and what it says if it is well.
_OF_ITSELF: Final = late(r"(?i)(?:.*[. ])?(?:health|status|state|severity|level|result|phase)")
_WELL: Final = late(
    r"normal|info(?:rmational)?|good|online|optimal|ready|active|running|up|succe\w{0,8}"
    r"|completed?|done|resolved|enabled|connected|idle|alloc(?:ated)?|mix(?:ed)?|valid"
    r"|present|link(?:ed)?|established|full|joined|bound|available|alive|reachable|nominal"
    r"|clean|started|in service|yes|true",
    re.IGNORECASE,
)
#: The number of a state before its word ("4: ACTIVE").
_CODE: Final = re.compile(r"^[0-9]{1,3}: {0,2}")
_UP: Final = re.compile(rf"ok|healthy|pass(?:ed)?|{_WELL.pattern}", re.IGNORECASE)


class FaultRow(msgspec.Struct, frozen=True):
    """One row: which values of which property are bad (``bad_values.toml`` explains the fields)."""

    id: str
    name: re.Pattern[str]
    ratio: float
    says: str
    formats: frozenset[str] = frozenset()
    above: float | None = None
    value: re.Pattern[str] | None = None
    below_peers: float | None = None
    below_property: tuple[str, str] | None = None
    below_share: float = 1.0
    above_peers: float | None = None
    unlike_peers: bool = False
    beside: re.Pattern[str] | None = None
    above_share: float | None = None
    reads: str = ""
    category: str = ""
    judges_no: bool = False
    unless_well: bool = False
    part: re.Pattern[str] = late("")
    categories: Mapping[str, str] = {}

    @property
    def has_limit(self) -> bool:
        """Whether it judges numbers."""
        limits = self.above, self.below_peers, self.below_property, self.above_peers, self.beside
        return any(limit is not None for limit in limits)

    def category_for(self, format_ids: frozenset[str]) -> str:
        """What a bad value means in a report of these formats."""
        of_format = (self.categories[one] for one in sorted(format_ids) if one in self.categories)
        return next(of_format, self.category)

    def is_about(self, format_ids: frozenset[str], name: str) -> bool:
        """Whether the row judges this property of a report of these formats."""
        own = self.formats or self.categories.keys()
        return (not own or not format_ids.isdisjoint(own)) and self.name.fullmatch(name) is not None


def says_no(value: str) -> bool:
    """Whether a value states that nothing is wrong ("Not Active", "0", "N/A", "ok")."""
    return _NO.fullmatch(value.strip()) is not None


def is_of_itself(name: str) -> bool:
    """Whether a property is what a part says of its own state."""
    return _OF_ITSELF.fullmatch(name) is not None


def says_up(value: str) -> bool:
    """Whether a state is that of a part that works: "inactive" and "none" are not."""
    return _UP.fullmatch(_CODE.sub("", value.strip())) is not None


def says_well(value: str) -> bool:
    """Whether a state is a good one."""
    return says_no(value) or _WELL.fullmatch(value.strip()) is not None


@cache
def load() -> tuple[FaultRow, ...]:
    """All rows, in the order in which they are tried."""
    return records(FaultRow, table("bad_values", "diagnosis.kinds.states")["fault"], re.IGNORECASE)
