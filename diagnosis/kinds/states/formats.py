"""The formats of state reports, from ``formats.toml``: one row a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from diagnosis.kinds.sign_search import SignSearch
from diagnosis.knowledge.knowledge_files import table

#: Bytes at the beginning of a section in which the sign of its format must occur.
SIGN_BYTES: Final = 4_096
#: Shapes whose rows may begin with a time.
_SHAPES_WITH_TIMES: Final = ("csv", "aligned")


class ObjectHeader(msgspec.Struct, frozen=True):
    """A line or element that begins an object. ``pattern`` has a group ``name``; ``kind`` is
    ``node`` for a machine, else the object is a part of the machine.
    """

    kind: str
    pattern: re.Pattern[str]


class Series(msgspec.Struct, frozen=True):
    """A quantity that a report states many times: ``field`` is its path in a record, ``node`` and
    ``part`` those of its place, ``of`` those that name what was measured. ``sense`` and ``unit`` as in
    :class:`diagnosis.evidence.Measure`.
    """

    name: str
    field: tuple[str, ...]
    sense: str
    unit: str
    node: tuple[str, ...]
    part: tuple[str, ...]
    of: tuple[tuple[str, ...], ...]


class Format(msgspec.Struct, frozen=True, dict=True):
    """One tool's report. ``concludes``: what is judged, in words. Its patterns are compiled at the
    first such report: few files are reports.
    """

    id: str
    title: str
    shape: str
    sign_pattern: str
    concludes: str
    #: pairs of kind and pattern of :attr:`objects`
    object_patterns: tuple[tuple[str, str], ...] = ()
    #: patterns of :attr:`rows`
    row_patterns: tuple[str, ...] = ()
    #: the name of what a pattern of ``rows`` finds that names nothing
    property: str = ""
    example: str = ""
    #: id of the check whose output this is; empty: of none
    check: str = ""
    #: whether it is of a run that ended so, such as a test of the network
    is_run: bool = False
    #: whether its rows may state a time
    has_times: bool = False
    #: whether lines below a pair with a value tell more of it
    nests_values: bool = False
    #: what it measures, for the shapes ``records`` and ``profile``
    series: tuple[Series, ...] = ()

    @cached_property
    def sign(self) -> re.Pattern[str]:
        """What stands in every report of this form, and in no other text."""
        return re.compile(self.sign_pattern, re.MULTILINE)

    @cached_property
    def objects(self) -> tuple[ObjectHeader, ...]:
        """What begins an object."""
        return tuple(ObjectHeader(kind, re.compile(pattern)) for kind, pattern in self.object_patterns)

    @cached_property
    def rows(self) -> tuple[re.Pattern[str], ...]:
        """Patterns with the groups ``name``, ``value`` and perhaps ``part`` or ``node``."""
        return tuple(map(re.compile, self.row_patterns))


@cache
def load() -> tuple[Format, ...]:
    """All formats, in the order in which they are tried."""
    return tuple(map(_format, table("formats", "diagnosis.kinds.states")["format"]))


@cache
def load_layouts() -> tuple[Format, ...]:
    """The families of tools whose reports are read by their layout; the sign: words of the family."""
    return tuple(map(_format, table("layouts", "diagnosis.kinds.states")["format"]))


def format_of(text: str) -> Format | None:
    """The format of a report that begins with ``text``; None for any other text."""
    head = text[:SIGN_BYTES]
    places, formats = _places_of_signs(), load()
    possible = sorted(map(places.__getitem__, _signs().possible(head)))
    return next((formats[place] for place in possible if formats[place].sign.search(head)), None)


@cache
def _places_of_signs() -> dict[str, int]:
    """The number of the first format with each sign."""
    return {one.sign_pattern: place for place, one in reversed(tuple(enumerate(load())))}


@cache
def _signs() -> SignSearch:
    return SignSearch(_places_of_signs())


def _format(row: Mapping[str, Any]) -> Format:
    return Format(
        id=row["id"],
        title=row["title"],
        shape=row["shape"],
        sign_pattern=row["sign"],
        concludes=row["concludes"],
        object_patterns=tuple((one["kind"], one["pattern"]) for one in row.get("object", ())),
        row_patterns=tuple(row.get("rows", ())),
        property=row.get("property", row["id"]),
        example=row.get("example", ""),
        check=row.get("check", ""),
        is_run=row.get("run", False),
        has_times=row.get("times", row["shape"] in _SHAPES_WITH_TIMES),
        nests_values=row.get("nests_values", False),
        series=tuple(map(_series, row.get("series", ()))),
    )


def _series(row: Mapping[str, Any]) -> Series:
    paths = {key: tuple(row.get(key, "").split(".")) for key in ("field", "node", "part")}
    of = tuple(tuple(path.split(".")) for path in row.get("of", ()))
    return Series(row["name"], paths["field"], row["sense"], row["unit"], paths["node"], paths["part"], of)
