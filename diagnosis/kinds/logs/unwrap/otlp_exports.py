"""Logs as the collector of OpenTelemetry writes them to files: JSON with ``resourceLogs``, one document
or one a line. Each record becomes an object of fields, with those of its resource.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from diagnosis.kinds.logs.unwrap import structured
from diagnosis.values.json_values import Json

_SIGN: Final = re.compile(r'\s{0,20}\{\s{0,20}"resourceLogs"\s{0,4}:')
#: Words of the severity numbers of OpenTelemetry: four numbers a word, the first is 1.
_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
#: How deep the values of attributes are read.
_MAX_DEPTH: Final = 5


def begins(text: str) -> bool:
    """Whether a file that begins with ``text`` is such an export. O(1)."""
    return _SIGN.match(text) is not None


def fields_of_records(data: bytes) -> Iterator[dict[str, Json]]:
    """The fields of each record; none of a damaged document or line. O(bytes)."""
    whole = structured.document_of(data)
    documents = [whole] if whole is not None else map(structured.document_of, data.splitlines())
    for document in documents:
        for group in _objects(document, "resourceLogs"):
            yield from _of_group(group)


def _of_group(group: dict[str, Json]) -> Iterator[dict[str, Json]]:
    resource = group.get("resource")
    base = _attributes(resource)
    for scope in _objects(group, "scopeLogs"):
        for record in _objects(scope, "logRecords"):
            yield {**base, **_attributes(record), **_own_fields(record)}


def _own_fields(record: dict[str, Json]) -> dict[str, Json]:
    at = record.get("timeUnixNano") or record.get("observedTimeUnixNano") or ""
    level = record.get("severityText") or _level(record.get("severityNumber"))
    message = _value(record.get("body"), _MAX_DEPTH)
    text = message if isinstance(message, str) else json.dumps(message)
    return {"timestamp": at, "level": level, "message": text}


def _level(number: Any) -> str:
    is_known = isinstance(number, int) and 1 <= number <= 4 * len(_LEVELS)
    return _LEVELS[(number - 1) // 4] if is_known else ""


def _attributes(owner: Any) -> dict[str, Json]:
    pairs = _objects(owner, "attributes")
    return {str(pair.get("key", "")): _value(pair.get("value"), _MAX_DEPTH) for pair in pairs}


def _value(stated: Any, depth: int) -> Json:
    """The value of an ``AnyValue``: the only field of its object."""
    if not isinstance(stated, dict) or not depth:
        return None
    kind, value = next(iter(stated.items()), ("", None))
    if kind == "kvlistValue":
        return {str(one.get("key", "")): _value(one.get("value"), depth - 1) for one in _objects(value, "values")}
    if kind == "arrayValue":
        return [_value(one, depth - 1) for one in _objects(value, "values")]
    if kind == "intValue" and isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isdecimal():
        return int(value)
    return value


def _objects(owner: Any, name: str) -> Iterable[dict[str, Json]]:
    """The objects of a list in an object; none of anything else."""
    listed = owner.get(name) if isinstance(owner, dict) else None
    return (one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
