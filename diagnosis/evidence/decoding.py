"""Typed records from the plain objects of a report: fresh ones of this diagnosis, or a stored one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from diagnosis.values.json_values import Json, JsonObject
from diagnosis.values.plain import plain

#: A part of a report: the record of this diagnosis, or its JSON, fresh or stored, whose keys are not known here.
type ReportPart = msgspec.Struct | JsonObject | None


def decode[Record: msgspec.Struct](part: ReportPart, kind: type[Record]) -> Record:
    """``part`` as a record. Keys that the record does not name are not visited; null is what the record says by
    default. Raises ``msgspec.ValidationError`` for another type than the field's.
    """
    return msgspec.convert(plain(_read_keys(part, kind)), kind, strict=False)


def _read_keys(part: ReportPart, kind: type[msgspec.Struct]) -> dict[str, Json]:
    """The keys of a record and of the records in its lists, without nulls."""
    found: dict[str, Json] = {}
    stated = _as_mapping(part)
    for name, inner in _fields(kind).items():
        value = stated.get(name)
        if value is not None:
            found[name] = _read_value(value, inner)
    return found


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct] | None]:
    """The keys of a record, each with the type of record that it holds; to ask takes long."""
    return {field.encode_name: _record_in(field.type) for field in msgspec.structs.fields(kind)}


def _as_mapping(part: ReportPart) -> JsonObject:
    if isinstance(part, msgspec.Struct):
        named: JsonObject = msgspec.to_builtins(part, enc_hook=plain)
        return named
    return part or {}


def _read_value(value: Json, kind: type[msgspec.Struct] | None) -> Json:
    if kind is None:
        return value
    if isinstance(value, (Mapping, msgspec.Struct)):
        return _read_keys(value, kind)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_read_value(row, kind) for row in value]
    return value


def _record_in(kind: Any) -> type[msgspec.Struct] | None:
    """The type of record that a field holds, alone, optional or in a tuple; None if it holds none."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    inside = getattr(kind, "__args__", ())
    return next((found for part in inside if (found := _record_in(part)) is not None), None)
