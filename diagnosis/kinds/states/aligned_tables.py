"""Tables whose cells stand below the words of their header: below a line of marks, or parted by
columns of blanks. Cells may be empty or hold blanks, so no line tells alone where they begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, groupby, takewhile
from typing import Final, NamedTuple

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("aligned_tables")

#: Characters of a line, and lines of a table.
MAX_WIDTH: Final = 400
MAX_LINES: Final = 2_000
#: Lines of words above a line of marks.
_MAX_HEADER_LINES: Final = 3
_MIN_ROWS: Final = 2
#: Two or more runs of marks, each as wide as its column.
_MARKS: Final = re.compile(r"\s{0,80}(?:-{2,}|={2,})(?:\s{1,40}(?:-{1,}|={1,})){1,60}\s*")
_RUN: Final = re.compile(r"[-=]+")
_RULE: Final = re.compile(r"[\s|+\-=_*#~]*")
_BLANK: Final = re.compile(" ")
_NO_BLANK: Final = re.compile("[^ ]")
#: Branches of a tree before a name.
_BRANCH: Final = " \t├└│─|`-"


class Row(NamedTuple):
    """One row: the index of its line, and a cell for each name of the header."""

    line: int
    cells: tuple[str, ...]


class Table(NamedTuple):
    """A table: the names of its columns, and its rows."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]


def blocks_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each block between blank lines, with the number of its first one from 1."""
    first = 1
    for is_written, group in groupby(text.splitlines(), key=lambda line: bool(line.strip())):
        block = list(group)
        if is_written:
            yield first, block
        first += len(block)


def read(lines: Sequence[str]) -> Table | None:
    """The table that adjacent lines are; None of other lines. O(lines x width)."""
    cut = [line[:MAX_WIDTH].expandtabs().rstrip() for line in lines[:MAX_LINES]]
    title = _title_lines(cut)
    body = cut[title:]
    marks = [at for at, line in enumerate(body) if _MARKS.fullmatch(line)]
    table = _below_marks(body, marks[0]) if marks else _between_blanks(body)
    parted = _with_words_parted(_moved(table, title))
    return parted if _is_table(parted) else None


def _title_lines(lines: Sequence[str]) -> int:
    """How many lines above the table are its title: a line without columns, and lines of marks."""
    is_title = bool(lines) and not _RULE.fullmatch(lines[0]) and len(lines[0].split("  ")) == 1
    rules = list(takewhile(_RULE.fullmatch, lines[1:])) if is_title else []
    return 1 + len(rules) if rules and len(lines) > len(rules) + 1 + _MIN_ROWS else 0


def _moved(table: Table, by: int) -> Table:
    return table._replace(rows=tuple(row._replace(line=row.line + by) for row in table.rows))


def _is_table(table: Table) -> bool:
    names = set(filter(None, table.header))
    is_wide = len(names) == len(table.header) >= THRESHOLDS.columns
    return is_wide and bool(table.rows)


def _with_words_parted(table: Table) -> Table:
    """The table whose columns of several words, as many as in their header, are as many columns."""
    columns = zip(*(row.cells for row in table.rows), strict=True)
    names = list(map(_parted, table.header, columns))
    rows = [Row(row.line, _cells_parted(row.cells, names)) for row in table.rows]
    return Table(tuple(chain.from_iterable(names)), tuple(rows))


def _parted(name: str, cells: Sequence[str]) -> list[str]:
    """The words of a name if each cell has as many, else the name."""
    words = name.split()
    counts = {len(cell.split()) for cell in cells}
    return words if counts == {len(words)} else [name]


def _cells_parted(cells: Sequence[str], names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    parts: list[str] = []
    for cell, words in zip(cells, names, strict=True):
        parts += cell.split() if len(words) > 1 else [cell]
    return tuple(parts)


def _below_marks(lines: Sequence[str], at: int) -> Table:
    """The table whose columns are as wide as the marks of a line."""
    edges = [run.start() for run in _RUN.finditer(lines[at])]
    last = lines[max(0, at - _MAX_HEADER_LINES) : at]
    above = list(takewhile(lambda line: _stands_in(line, edges), reversed(last)))
    if not above:
        return Table((), ())
    words = zip(*(_sliced(line, edges) for line in reversed(above)), strict=True)
    header = [" ".join(filter(None, own)) for own in words]
    return Table(tuple(header), tuple(_rows(lines, at + 1, edges)))


def _stands_in(line: str, edges: Sequence[int]) -> bool:
    """Whether no word of a line crosses the beginning of a column."""
    around = [line[edge - 1 : edge + 1] for edge in edges[1:]]
    return all(len(two) < 2 or " " in two for two in around)


def _between_blanks(lines: Sequence[str]) -> Table:
    """The table whose columns blanks part in all lines; without rows if lines are few."""
    kept = [line for line in lines if not _RULE.fullmatch(line)]
    if len(kept) <= _MIN_ROWS:
        return Table((), ())
    edges = _edges(kept)
    header = _sliced(kept[0], edges)
    return Table(tuple(header), tuple(_rows(lines, lines.index(kept[0]) + 1, edges)))


def _edges(lines: Sequence[str]) -> list[int]:
    """Where the columns begin. What has no word of the header belongs to the nearer neighbour."""
    width = max(map(len, lines))
    written = reduce(int.__or__, map(_written, lines))
    spans = [found.span() for found in re.finditer("1+", f"{written:0{width}b}"[::-1])]
    begins = [begin for begin, _ in spans]
    ends = [end for _, end in spans]
    gaps = [begin - end for begin, end in zip(begins[1:], ends, strict=False)]
    edges: list[int] = []
    begin_of_next: int | None = None
    around = zip([width, *gaps], [*gaps, width], strict=True)
    for begin, end, (before, behind) in zip(begins, ends, around, strict=True):
        own = begin if begin_of_next is None else begin_of_next
        begin_of_next = None
        if lines[0][begin:end].strip():
            edges.append(own)
        elif behind < before:
            begin_of_next = own
    return edges


def _written(line: str) -> int:
    """A bit for each character that is no blank, the first one lowest."""
    return int(_BLANK.sub("0", _NO_BLANK.sub("1", line))[::-1] or "0", 2)


def _rows(lines: Sequence[str], first: int, edges: Sequence[int]) -> Iterator[Row]:
    for at in range(first, len(lines)):
        line = lines[at]
        if _stands_in(line, edges) and not _RULE.fullmatch(line):
            name, *cells = _sliced(line, edges)
            yield Row(at, (name.strip(_BRANCH), *cells))


def _sliced(line: str, edges: Sequence[int]) -> list[str]:
    ends = [*edges[1:], MAX_WIDTH]
    return [line[begin:end].strip() for begin, end in zip(edges, ends, strict=True)]
