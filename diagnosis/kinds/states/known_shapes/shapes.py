"""The shapes of state reports. Each function turns text into entries: path of the property, value,
line, object.

All are linear in the text, and stop at :data:`diagnosis.evidence.MAX_FACTS` entries.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from diagnosis.evidence import MAX_FACTS
from diagnosis.facts import operations
from diagnosis.kinds.states import trees
from diagnosis.kinds.states.entries import (
    LABEL,
    MAX_DEPTH,
    MAX_LINE_CHARS,
    NODE_LABELS,
    PART_LABELS,
    STATE_LABELS,
    Entry,
)
from diagnosis.kinds.states.formats import Format, ObjectHeader
from diagnosis.kinds.states.known_shapes import (
    cut_json,
    json_shapes,
    operation_traces,
    profiles,
    series_of_places,
)
from diagnosis.knowledge.late_patterns import late

#: What ends a key: a colon before white space, a row of dots or the end, or equals signs.
_SEPARATOR: Final = late(r":(?=[\s.]|$)|={1,2}")
_MAX_KEY_CHARS: Final = 120
_TOKEN: Final = late(r"([A-Za-z][\w:/\-]{0,60})=((?:(?!\s[A-Za-z][\w:/\-]{0,60}=).){0,400})")
_SAMPLE: Final = late(
    r"([A-Za-z_:][\w:]{0,200})(?:\{([^}]{0,2000})\})?\s+([-+]?[0-9][0-9.eE+\-]{0,40}|NaN|[-+]Inf)(?:\s+\d+)?\s*$"
)
#: Marks of colours and underlines, as tools write them for a terminal.
_STYLE: Final = late(r"\x1b\[[\d;]{0,12}m")
#: A number and its unit are one cell.
_UNIT_GAP: Final = late(r"(?<=\d) (?=[KMGT]?i?[Bb](?:/s|ps)(?:\s|$))")
#: What parts two columns that are below the words of a header.
_GAP: Final = late(r"\s{2,200}")
#: The mark of an item of a list in YAML, which stands below the list's key.
_ITEM: Final = late(r"\s*- (?=\w)")
#: A word of a header whose columns are two spaces apart.
_COLUMN: Final = late(r"\S+(?: \S+)*")
#: The line of columns of a table between devices.
_MATRIX_HEADER: Final = late(r"\s*(?:D\\D|GPU|CPU)(?:\s+\d{1,4}){2,64}\s*$")
#: The unit behind the name of a column.
_UNIT: Final = late(r" \[[^\]]{0,20}\]$")
#: Columns that number or name a device, and the one that is no property.
_DEVICE_COLUMNS: Final = ("index", "gpu", "pci.bus_id", "uuid", "gpu_uuid")
#: Columns of a table of several machines that name each.
_HOST_COLUMNS: Final = ("hostname", "host", "node")
_TIME_COLUMN: Final = "timestamp"


def entries(shape: str, text: str, form: Format) -> list[Entry]:
    """The entries of a report of this shape; none if the text is damaged."""
    return list(islice(_SHAPES[shape](text, form), MAX_FACTS))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        yield number, _STYLE.sub("", line[:MAX_LINE_CHARS])


def _header(text: str, headers: Sequence[ObjectHeader]) -> tuple[str, str] | None:
    """Kind and name of the object that a line begins."""
    for header in headers:
        if found := header.pattern.match(text):
            return header.kind, found["name"]
    return None


def _pair(body: str) -> tuple[str, str]:
    """Key and value of a line without white space; the value is empty where there is none."""
    found = _SEPARATOR.search(body[: _MAX_KEY_CHARS + 1])
    if found is None or not found.start():
        return body, ""
    value = body[found.end() :]
    key = body[: found.start()].rstrip()
    if value.startswith(".."):
        value = value.lstrip(".")
    return key, value.strip()


def _pairs(text: str, form: Format) -> Iterator[Entry]:
    """Lines ``key : value`` whose indentation nests them. A line that names an object begins it;
    what is below a value belongs to it only where the format says so.
    """
    levels: list[tuple[int, str]] = []  # indentation and title of each open level
    objects: list[tuple[int, str, str]] = []  # indentation, kind and name of each open object
    for number, line in _lines(text):
        if not line.strip():
            continue
        indent = _indent_of_item(line)
        body = line[indent:].strip()
        _close(levels, indent)
        _close(objects, indent)
        if header := _header(body, form.objects):
            objects.append((indent, *header))
            continue
        key, value = _pair(body)
        if value:
            titles = (title for _, title in levels)
            yield Entry((*titles, key), value, number, *_place_of(objects))
        if (form.nests_values or not value) and len(levels) < MAX_DEPTH:
            levels.append((indent, key if value else body.rstrip(" :.")))


def _indent_of_item(line: str) -> int:
    """Where the text of a line begins, after the mark of an item of a list."""
    item = _ITEM.match(line)
    return item.end() if item else _indent(line)


def _close(opened: list[tuple[int, str]] | list[tuple[int, str, str]], indent: int) -> None:
    """End what a line so far left ends."""
    while opened and opened[-1][0] >= indent:
        opened.pop()


def _place_of(objects: Sequence[tuple[int, str, str]]) -> tuple[str, str]:
    """The names of the open objects, and the node that is open last."""
    part = " ".join(name for _, kind, name in objects if kind != "node")
    nodes = [name for _, kind, name in objects if kind == "node"]
    return part, nodes[-1] if nodes else ""


def _tokens(text: str, form: Format) -> Iterator[Entry]:
    """Words ``Key=Value`` of a scheduler's record. The object's name holds until the next one."""
    node = ""
    for number, line in _lines(text):
        if header := _header(line.strip(), form.objects):
            node = header[1]
        for key, value in _TOKEN.findall(line):
            yield Entry((key,), value, number, node=node)


def _exposition(text: str, form: Format) -> Iterator[Entry]:
    """Samples of Prometheus' text format: the metric with labels that name no place."""
    for number, line in _lines(text):
        found = _SAMPLE.match(line) if line[:1] != "#" else None
        if found is None:
            continue
        labels = {key.lower(): value for key, value in LABEL.findall(found[2] or "")}
        node = next((labels[name] for name in NODE_LABELS if labels.get(name)), "")
        stated = next((name for name in labels if found[1].endswith(f"_{name}")), "")
        state = next((name for name in STATE_LABELS if name in labels), stated)
        value = str(labels.get(state, found[3]))
        # a state is stated by the sample of it that holds
        if (bool(state), found[3]) != (True, "0"):
            path = found[1], labels.get("reason", "")
            yield Entry(path, value, number, _part_of(labels, state), node)


def _part_of(labels: Mapping[str, str], state: str) -> str:
    """The part that labels name: by a known label, else by the first one that names no machine."""
    left = {name: value for name, value in labels.items() if name not in (state, *NODE_LABELS)}
    known = {name: left[name] for name in PART_LABELS if left.get(name)}
    return next(map(" ".join, (known or left).items()), "")


def _columns(text: str, form: Format) -> Iterator[Entry]:
    """Tables with a header of words; the first column names the object, a node where the format
    says so, and the last one takes the rest. A header that is further right than its rows has no word
    for the first column.
    """
    is_node = _is_of_nodes(form)
    header: list[str] = []
    indent = 0
    for number, line in _lines(text):
        words = line.lstrip(" #").split()
        if len(words) >= 3 and form.sign.search(line):
            header, indent = words, _indent(line)
        elif not words or line.lstrip().startswith("$"):
            header = []
        elif header and line[:1] != "#":
            names = header if indent > _indent(line) == 0 else header[1:]
            yield from _row(line, number, names, is_node=is_node)


def _row(line: str, number: int, names: Sequence[str], *, is_node: bool) -> Iterator[Entry]:
    """The values of a row below its header."""
    first, *cells = _UNIT_GAP.sub("", line).split(None, len(names))
    place = ("", first) if is_node else (first, "")
    for name, cell in zip(names, cells, strict=False):
        yield Entry((name,), cell, number, *place)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_of_nodes(form: Format) -> bool:
    """Whether the first column of a table names machines."""
    return any(header.kind == "node" for header in form.objects)


def _aligned(text: str, form: Format) -> Iterator[Entry]:
    """Tables whose cells begin below the words of their header, as kubectl writes them. The first
    column names the object, a node where the format says so; a column NODE says where it is.
    """
    is_node = _is_of_nodes(form)
    edges: list[tuple[str, int, int | None]] = []
    for number, line in _lines(text):
        if form.sign.search(line):
            edges = _column_edges(line)
        elif line[:1].strip():
            cells = dict(zip((name for name, *_ in edges), _cells(line, edges), strict=True))
            subject, node = cells.pop("NAME", ""), cells.pop("NODE", "")
            place = ("", subject) if is_node else (subject, node)
            for name, cell in cells.items():
                yield Entry((name,), cell, number, *place)


def _cells(line: str, edges: Sequence[tuple[str, int, int | None]]) -> list[str]:
    """The cells of a row; where each column has one, gaps part them: in a paste the header may be
    further left or right than its rows.
    """
    by_gaps = _GAP.split(line.strip())
    if len(by_gaps) == len(edges):
        return by_gaps
    return [line[begin:end].strip() for _, begin, end in edges]


def _column_edges(header: str) -> list[tuple[str, int, int | None]]:
    """Name, beginning and end of each column. Two spaces stand between the words of two columns."""
    found = list(_COLUMN.finditer(header))
    ends = [one.start() for one in found[1:]]
    return [(one[0], one.start(), end) for one, end in zip(found, [*ends, None], strict=True)]


def _csv(text: str, form: Format) -> Iterator[Entry]:
    """Tables with commas and a header of properties; the first column of a device is the part."""
    header: list[str] = []
    for number, line in _lines(text):
        row = next(csv.reader([line], skipinitialspace=True), [])
        if form.sign.search(line):
            header = [_UNIT.sub("", name.strip()) for name in row]
            continue
        cells = dict(zip(header, row, strict=False))
        devices = [cells.pop(name) for name in _DEVICE_COLUMNS if name in cells]
        device = f"GPU {devices[0]}" if devices else ""
        cells.pop(_TIME_COLUMN, None)
        hosts = [cells.pop(name) for name in _HOST_COLUMNS if name in cells]
        for name, cell in cells.items():
            yield Entry((name,), cell, number, device, next(iter(hosts), ""))


def _rows(text: str, form: Format) -> Iterator[Entry]:
    """All places of each line that the format's patterns find, also in lines that begin objects."""
    node = part = ""
    for number, line in _lines(text):
        kind, name = _header(line.strip(), form.objects) or ("", "")
        if kind == "node":
            node, part = name, ""
        elif kind:
            part = name
        for found in chain.from_iterable(pattern.finditer(line) for pattern in form.rows):
            said = {"name": form.property, "part": part, "node": node, **_stated(found)}
            yield Entry((said["name"],), said["value"], number, said["part"], said["node"])


def _matrix(text: str, form: Format) -> Iterator[Entry]:
    """Tables of numbers between devices: a title, a line of the columns' numbers, and lines of
    which each begins with its own number. The diagonal, a device with itself, is left out.
    """
    title = ""
    columns: list[str] = []
    for number, line in _lines(text):
        first, *cells = line.split() or [""]
        if _MATRIX_HEADER.match(line):
            columns = cells
        elif not columns or len(cells) != len(columns) or not first.isdigit():
            columns = []
            title = line.strip() or title
        else:
            for column, cell in zip(columns, cells, strict=True):
                if column != first:
                    yield Entry((title,), cell, number, f"GPU {first} to {column}")


def _stated(found: re.Match[str]) -> dict[str, str]:
    """The groups of a match that hold any text."""
    return {name: text for name, text in found.groupdict().items() if text}


def _xml(text: str, form: Format) -> Iterator[Entry]:
    """Elements and attributes with text."""
    return trees.entries(trees.of_xml(text))


def _json(text: str, form: Format) -> Iterator[Entry]:
    """Leaves of a document."""
    return trees.entries(trees.of_json(cut_json.read(text)))


def _profile(text: str, form: Format) -> Iterator[Entry]:
    """A profiler's trace: the format's series, computing first, for each step."""
    part, steps = profiles.read(text)
    for times in steps:
        for row, value in zip(form.series, (times.computed_us, times.communicated_us), strict=True):
            yield Entry((row.name,), f"{value:.0f}", 0, part)


def _operations(text: str, form: Format) -> Iterator[Entry]:
    """Operations of workers, summed by step: of a trace in JSON, else of a table."""
    is_trace = text.lstrip()[:1] in ("[", "{")
    read = operation_traces.read_trace if is_trace else operation_traces.read_table
    for one in operations.sums(read(text)):
        yield Entry(one.path, one.value, 0, one.worker)


def _series(text: str, form: Format) -> Iterator[Entry]:
    """Values over time of several places; the file may say what they are."""
    return series_of_places.entries(text, "")


_SHAPES: Final[dict[str, Callable[[str, Format], Iterator[Entry]]]] = {
    "pairs": _pairs,
    "tokens": _tokens,
    "exposition": _exposition,
    "columns": _columns,
    "aligned": _aligned,
    "csv": _csv,
    "rows": _rows,
    "matrix": _matrix,
    "xml": _xml,
    "json": _json,
    "records": json_shapes.records,
    "profile": _profile,
    "operations": _operations,
    series_of_places.SHAPE: _series,
}
