"""Values over time of several machines or devices: a table with a column for each, as dashboards
export it, and the answer to a range query of Prometheus.

What was measured stands in the name of the series, else in that of the file. Only what a place does
is compared (:mod:`diagnosis.unevenness`); other quantities are shown.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from diagnosis.evidence import MAX_FACTS
from diagnosis.kinds.states.entries import LABEL, NODE_LABELS, PART_LABELS, Entry
from diagnosis.kinds.states.known_shapes import cut_json
from diagnosis.knowledge.knowledge_files import table
from diagnosis.values.json_values import Json, list_in, object_in, objects_in

SHAPE: Final = "series"
#: The series of the format: what a place does, and any other quantity.
_RATE: Final = "rate"
_LEVEL: Final = "level"
MAX_SERIES: Final = 4_096
_WORD: Final = re.compile(r"[A-Za-z]+")
#: A device in the name of a column.
_DEVICE: Final = re.compile(r"(?i)\b(?:gpu|npu|device|rank|hca|port)[ _\-#]?\d{1,4}\b")
_NAME: Final = re.compile(r"[\w.\-]{2,80}")
#: What dashboards write into the name of an exported file.
_EXPORT: Final = re.compile(
    r"(?i)[-_ ]?(?:data|as[-_ ]joinbyfield|as|export)?"
    r"[-_ ]?\d{4}-\d\d-\d\d.*"
)


class _Series(NamedTuple):
    """The values of one place, each with its line."""

    quantity: str
    node: str
    part: str
    values: Sequence[tuple[str, int]]


def entries(text: str, path: str) -> Iterator[Entry]:
    """Each value as an entry, series by series. O(len(text))."""
    found = _of_query(text) if text.lstrip()[:1] == "{" else _of_table(text)
    stem = _EXPORT.sub("", PurePosixPath(path).name.rpartition(".")[0])
    for one in found:
        quantity = one.quantity or stem
        name = _RATE if _is_rate(quantity) else _LEVEL
        for value, line in one.values:
            yield Entry((name, quantity), value, line, one.part, one.node)


def _of_query(text: str) -> Iterator[_Series]:
    data = object_in(object_in(cut_json.read(text)).get("data"))
    for one in objects_in(data.get("result"))[:MAX_SERIES]:
        points = map(list_in, list_in(one.get("values")))
        labels = {key: str(value) for key, value in object_in(one.get("metric")).items()}
        yield _labelled(labels, [(str(value), 1) for _, value in filter(_is_point, points)])


def _is_point(values: Sequence[Json]) -> bool:
    """Whether values are a time and what was measured at it."""
    return len(values) == 2


def _labelled(labels: Mapping[str, str], values: Sequence[tuple[str, int]]) -> _Series:
    own = {key.lower(): value for key, value in labels.items()}
    node = next((own[name] for name in NODE_LABELS if own.get(name)), "")
    part = next((f"{name} {own[name]}" for name in PART_LABELS if own.get(name)), "")
    return _Series(own.get("__name__", ""), node.partition(":")[0], part, values)


def _of_table(text: str) -> Iterator[_Series]:
    header, *rows = _rows(text) or [[]]
    for column, name in enumerate(header[1 : MAX_SERIES + 1], 1):
        filled = ((row[column], line) for line, row in enumerate(rows, 2) if len(row) > column)
        yield _named(name, [(value, line) for value, line in filled if value.strip()])


def _rows(text: str) -> list[list[str]]:
    """The rows of a table, as many as become facts; of a damaged one those before the damage."""
    found: list[list[str]] = []
    cells = 0
    try:
        for row in csv.reader(text.splitlines()):
            cells += len(row)
            if cells > MAX_FACTS:
                break
            found.append(row)
    except csv.Error:
        return found
    return found


def _named(name: str, values: Sequence[tuple[str, int]]) -> _Series:
    """The series of a column: by its labels, else by the device and the name in it."""
    labels = dict(LABEL.findall(name))
    if labels:
        return _labelled({"__name__": name.partition("{")[0], **labels}, values)
    device = _DEVICE.search(name)
    rest = _DEVICE.sub("", name).strip(" _-:/")
    is_place = _NAME.fullmatch(rest) is not None and any(map(str.isdigit, rest))
    node, quantity = (rest, "") if is_place else ("", rest)
    return _Series(quantity, node, device[0] if device else "", values)


def _is_rate(quantity: str) -> bool:
    words = {word.lower() for word in _WORD.findall(quantity.replace("_", " "))}
    return not words.isdisjoint(_rate_words())


@cache
def _rate_words() -> frozenset[str]:
    return frozenset(table("quantities")["series_rate_name"])
