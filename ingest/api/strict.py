"""Requests must have the fields and the types of the schema: others are refused, and none is converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers

from ingest.api.schema import for_programmers

#: kind of field -> the JSON type that it accepts, and its name
_TYPES: tuple[tuple[tuple[type[Any], ...], type[Any], str], ...] = (
    ((serializers.BooleanField,), bool, "true or false"),
    ((serializers.CharField, serializers.ChoiceField, serializers.DateTimeField), str, "a text"),
)


@for_programmers
class StrictSerializer(serializers.Serializer[Any]):
    """The body of a request. Django REST framework alone would read 1 as a text, and "yes" as true, and would ignore a
    field that it does not know: the sender would think that it was stored.
    """

    #: fields of the answer that cannot be sent, and what to do instead
    elsewhere: ClassVar[Mapping[str, str]] = {}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            wrong = {name[:40]: [self._unknown(name)] for name in map(str, data) if name not in self.fields}
            wrong |= {
                name: [f"This must be {said}."]
                for name, field in self.fields.items()
                if name in data and (said := _needed_type(field, data[name]))
            }
            if wrong:
                raise serializers.ValidationError(wrong)
        return super().to_internal_value(data)

    def _unknown(self, name: str) -> str:
        names = f"there are {', '.join(self.fields)}" if self.fields else "send none"
        return self.elsewhere.get(name) or f"There is no field of this name here: {names}."


@for_programmers
class NoFields(StrictSerializer):
    """The body of a request that takes no fields: nothing, or an empty object."""


def _needed_type(field: Any, value: Any) -> str:
    """What the field needs instead of ``value``; empty if the type is right, or if the field itself reports it."""
    if value is None:
        return ""
    if isinstance(field, serializers.ListField):
        if not isinstance(value, list):
            return "a list"
        return next(
            (f"a list, each of it {sentence}" for one in value if (sentence := _needed_type(field.child, one))), ""
        )
    return next((name for kinds, wanted, name in _TYPES if isinstance(field, kinds) and type(value) is not wanted), "")
