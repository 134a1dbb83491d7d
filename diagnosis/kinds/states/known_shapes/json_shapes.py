"""State reports in JSON: one document, or a line each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from diagnosis.kinds.states.entries import MAX_DEPTH, Entry
from diagnosis.kinds.states.formats import Format
from diagnosis.kinds.states.known_shapes import cut_json

#: Where an object of Kubernetes states the node that it runs on.
_NODE_OF_POD: Final = ("spec", "nodeName")
#: What an object of Redfish is called.
_OWN_NAME: Final = ("@odata.id",)
#: Where a job of Slurm states the node that it lost.
_LOST_NODE: Final = ("failed_node",)
_NODE_OF_KIND: Final = {"Node": ("metadata", "name"), "Event": ("source", "host")}
#: Names of keys by which an object of a JSON list is called.
_NAME_KEYS: Final = (
    *("name", "id", "gpu", "gpu_id", "entity_id", "device", "metadata.name"),
    *("Name", "Id", "MemberId", "neuron_device_index"),
)


def document(text: str, form: Format) -> Iterator[Entry]:
    """Leaves of a JSON document; the objects of its lists are called by their names."""
    document = cut_json.read(text)
    whole = _at(document, _OWN_NAME)
    pending: list[tuple[tuple[str, ...], Any, str, str, int]] = [((), document, whole, "", 0)]
    while pending:
        path, value, part, node, depth = pending.pop()
        if isinstance(value, dict) and depth < MAX_DEPTH:
            node = _node_of(value) or node
            pending += [((*path, str(key)), one, part, node, depth + 1) for key, one in reversed(value.items())]
        elif isinstance(value, list) and depth < MAX_DEPTH:
            named = [(one, f"{part} {_name_of(one)}".strip()) for one in reversed(value)]
            pending += [(path, one, name, node, depth + 1) for one, name in named]
        elif isinstance(value, (str, int, float)):
            yield Entry(path, str(value), 0, part, node)


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


def _node_of(value: Any) -> str:
    """The machine that an object of Kubernetes is or runs on, or was seen by; else empty."""
    path = _NODE_OF_KIND.get(str(value.get("kind")), _NODE_OF_POD)
    return _at(value, path) or _at(value, _LOST_NODE)


def _name_of(value: Any) -> str:
    """What an object of a JSON list is called by; empty for anything else."""
    names = (_at(value, key.split(".")) for key in _NAME_KEYS)
    return next(filter(None, names), "")[:100]
