"""Writes rows of facts in the forms of many tools. The first key of a row is the kind of its object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

type Row = Mapping[str, str]
type Rows = Sequence[Row]


def _object(row: Row) -> tuple[str, str, dict[str, str]]:
    (kind, name), *rest = row.items()
    return kind, name, dict(rest)


def _widths(rows: Rows) -> list[int]:
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _line(cells: Iterator[str] | Sequence[str], widths: Sequence[int], mark: str) -> str:
    return mark.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def _table(rows: Rows, mark: str) -> list[str]:
    widths = _widths(rows)
    return [_line(list(rows[0]), widths, mark), *(_line(list(row.values()), widths, mark) for row in rows)]


def aligned(rows: Rows) -> str:
    """Columns that blanks part, in capitals."""
    header, *lines = _table(rows, "  ")
    return "\n".join([header.upper(), *lines, ""])


def bordered(rows: Rows) -> str:
    """A table within marks."""
    header, *lines = (f"| {line} |" for line in _table(rows, " | "))
    rule = "+" + "+".join("-" * (width + 2) for width in _widths(rows)) + "+"
    return "\n".join([rule, header, rule, *lines, rule, ""])


def boxed(rows: Rows) -> str:
    """A table within the marks that terminals draw."""
    header, *lines = (f"│ {line} │" for line in _table(rows, " │ "))
    dashes = ["─" * (width + 2) for width in _widths(rows)]
    ends = [f"{a}{b.join(dashes)}{c}" for a, b, c in ("┌┬┐", "├┼┤", "└┴┘")]
    return "\n".join([ends[0], header, ends[1], *lines, ends[2], ""])


def markdown(rows: Rows) -> str:
    """A table as tickets show it."""
    header, *lines = (f"| {line} |" for line in _table(rows, " | "))
    rule = "|" + "|".join("-" * (width + 2) for width in _widths(rows)) + "|"
    return "\n".join([header, rule, *lines, ""])


def csv(rows: Rows) -> str:
    """Cells between commas, in quotes where they hold one."""
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(",".join(f'"{one}"' if "," in one else one for one in row) + "\n" for row in cells)


def tabs(rows: Rows) -> str:
    """Cells between tabulators."""
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "".join("\t".join(row) + "\n" for row in cells)


def sections(rows: Rows) -> str:
    """A title for each object, and its properties below it."""
    out = []
    for row in rows:
        kind, name, rest = _object(row)
        out += [
            f"{kind.title()}: {name}",
            *(f"    {key.replace('_', ' ').title()}: {value}" for key, value in rest.items()),
        ]
    return "\n".join([*out, ""])


def columns_of_pairs(rows: Rows) -> str:
    """Properties before a colon in one column, objects apart."""
    out = []
    for row in rows:
        out += [*(f"{key.replace('_', ' ').capitalize():<28}: {value}" for key, value in row.items()), ""]
    return "\n".join(out)


def dotted(rows: Rows) -> str:
    """The way to each property before its value."""
    out = []
    for row in rows:
        kind, name, rest = _object(row)
        out += [f"{kind}.{name}.{key} = {value}" for key, value in rest.items()]
    return "\n".join([*out, ""])


def tokens(rows: Rows) -> str:
    """A line of ``key=value`` for each object."""
    return "".join(" ".join(f'{k}="{v}"' if " " in v else f"{k}={v}" for k, v in row.items()) + "\n" for row in rows)


def sentences(rows: Rows) -> str:
    """A line for each object: its name, and its properties behind a colon."""
    out = []
    for row in rows:
        kind, name, rest = _object(row)
        out.append(f"{kind} {name}: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in rest.items()))
    return "\n".join([*out, ""])


def ini(rows: Rows) -> str:
    """A section for each object."""
    out = []
    for row in rows:
        kind, name, rest = _object(row)
        out += [f"[{kind} {name}]", *(f"{key} = {value}" for key, value in rest.items()), ""]
    return "\n".join(out)


def tree(rows: Rows) -> str:
    """Names further right below their object, without marks."""
    out = ["inventory"]
    for row in rows:
        kind, name, rest = _object(row)
        out += [f"  {kind} {name}", *(f"    {key:<24} {value}" for key, value in rest.items())]
    return "\n".join([*out, ""])


def branches(rows: Rows) -> str:
    """A tree drawn with lines."""
    out = ["cluster"]
    for row in rows:
        kind, name, rest = _object(row)
        out += [f"├── {kind} {name}", *(f"│   ├── {key}: {value}" for key, value in rest.items())]
    return "\n".join([*out, ""])


def _typed(value: str) -> str | float | int:
    return json.loads(value) if value.replace(".", "", 1).isdigit() else value


def json_list(rows: Rows) -> str:
    """One document with a list of objects."""
    kind = next(iter(rows[0]))
    objects = [{key: _typed(value) for key, value in row.items()} for row in rows]
    return json.dumps({"tool": "xq", f"{kind}s": objects}, indent=2)


def json_keys(rows: Rows) -> str:
    """One document whose keys name the objects."""
    kind = next(iter(rows[0]))
    named = {name: {k: _typed(v) for k, v in rest.items()} for _, name, rest in map(_object, rows)}
    return json.dumps({f"{kind}s": named})


def json_lines(rows: Rows) -> str:
    """A document a line."""
    return "".join(json.dumps({key: _typed(value) for key, value in row.items()}) + "\n" for row in rows)


def yaml_list(rows: Rows) -> str:
    """A list of objects."""
    out = [f"{next(iter(rows[0]))}s:"]
    for row in rows:
        first, *rest = (f"{key}: {value}" for key, value in row.items())
        out += [f"  - {first}", *(f"    {line}" for line in rest)]
    return "\n".join([*out, ""])


def yaml_keys(rows: Rows) -> str:
    """Keys that name the objects."""
    out = [f"{next(iter(rows[0]))}s:"]
    for row in rows:
        _, name, rest = _object(row)
        out += [f"  {name}:", *(f"    {key}: {value}" for key, value in rest.items())]
    return "\n".join([*out, ""])


def xml_elements(rows: Rows) -> str:
    """An element for each property."""
    out = ['<?xml version="1.0" ?>', "<report>"]
    for row in rows:
        kind, name, rest = _object(row)
        out += [f'  <{kind} id="{name}">', *(f"    <{k}>{v}</{k}>" for k, v in rest.items()), f"  </{kind}>"]
    return "\n".join([*out, "</report>", ""])


def xml_attributes(rows: Rows) -> str:
    """An attribute for each property."""
    out = ["<report>"]
    for row in rows:
        kind, name, rest = _object(row)
        out.append(f'  <{kind} name="{name}" ' + " ".join(f'{k}="{v}"' for k, v in rest.items()) + "/>")
    return "\n".join([*out, "</report>", ""])


def exposition(rows: Rows) -> str:
    """Samples for Prometheus: numbers, and words as labels."""
    out = []
    for key in list(rows[0])[1:]:
        kind = next(iter(rows[0]))
        out.append(f"# TYPE xq_{kind}_{key} gauge")
        for row in rows:
            name, value = row[kind], row[key]
            is_number = isinstance(_typed(value), (int, float))
            word = "" if is_number else f',{key}="{value}"'
            out.append(f'xq_{kind}_{key}{{{kind}="{name}"{word}}} {value if is_number else 1}')
    return "\n".join([*out, ""])


FORMS: Mapping[str, Callable[[Rows], str]] = {
    form.__name__: form
    for form in (
        *(aligned, bordered, boxed, markdown, csv, tabs, sections, columns_of_pairs, dotted, tokens),
        *(sentences, ini, tree, branches, json_list, json_keys, json_lines, yaml_list, yaml_keys),
        *(xml_elements, xml_attributes, exposition),
    )
}
