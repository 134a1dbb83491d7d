"""Message classes of protobuf that differ from their published form in what is read as bytes, or have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD: Final = descriptor_pb2.FieldDescriptorProto
#: name, number, type, of which message (with a dot first: of another file), whether it is repeated
type Field = tuple[str, int, Any, str, bool]


def message_classes(
    name: str, messages: Mapping[str, Sequence[Field]], wanted: Sequence[str], needs: Sequence[str] = ()
) -> list[Any]:
    """The classes of the ``wanted`` among ``messages``, in a package of their own. ``needs``: published files."""
    package = f"faultline.{name}"
    file = descriptor_pb2.FileDescriptorProto(name=f"faultline/{name}.proto", package=package, syntax="proto3")
    file.dependency.extend(needs)
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for field_name, number, kind, of, is_repeated in fields:
            label = FIELD.LABEL_REPEATED if is_repeated else FIELD.LABEL_OPTIONAL
            field = made.field.add(name=field_name, number=number, type=kind, label=label)
            if of:
                field.type_name = of if of.startswith(".") else f".{package}.{of}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{one}")) for one in wanted]
