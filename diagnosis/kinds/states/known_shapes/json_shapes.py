"""State reports of which each line is a record in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from diagnosis.kinds.states.entries import Entry
from diagnosis.kinds.states.formats import Format


def records(text: str, form: Format) -> Iterator[Entry]:
    """Lines of JSON that state quantities of one place; damaged lines are left out."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for row in form.series:
            value = _at(record, row.field)
            if value:
                what = " ".join(filter(None, (_at(record, path) for path in row.of)))
                part = f"rank {_at(record, row.part)}"
                yield Entry((row.name, what), value, number, part, _at(record, row.node))


def _at(record: Any, path: Sequence[str]) -> str:
    """The text or number at a path of an object; empty where there is none."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    return str(record) if isinstance(record, (str, int, float)) else ""
