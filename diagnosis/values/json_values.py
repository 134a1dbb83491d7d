"""The types of JSON: what a document from outside, whose keys nobody knows, may hold.

A value is of one of these types and no other, so the type checker asks each reader to look which
one it is.
"""

from __future__ import annotations

from collections.abc import Mapping

#: One value.
type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
#: An object that is only read.
type JsonObject = Mapping[str, Json]


def list_in(value: Json) -> list[Json]:
    """The value, if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def object_in(value: Json) -> JsonObject:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[JsonObject]:
    """The objects of a list; empty for another value."""
    return [row for row in list_in(value) if isinstance(row, dict)]


def whole_in(value: Json) -> int:
    """A whole number, also as text. Raises ``ValueError`` for any other value."""
    if isinstance(value, (int, float, str)):
        return int(value)
    raise ValueError(f"{value!r} is no whole number")
