"""What a text looks like that no reader knows, in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

#: Bytes at the beginning of a file that are looked at.
HEAD_BYTES: Final = 4_096
_MIN_ROWS: Final = 3
_MIN_COLUMNS: Final = 3
#: Rows of a table have one number of cells, but for titles and wrapped ones.
_EQUAL_SHARE: Final = 0.8
#: Cells of a table between spaces are mostly numbers; those of prose are not.
_NUMBER_SHARE: Final = 0.4
_HAS_DIGIT: Final = re.compile(r"\d")
_SEPARATORS: Final = (",", "\t", ";", "|")
#: How a JSON object, or a list of objects, texts or numbers, begins.
_JSON: Final = re.compile(r'\{\s*["}]|\[\s*[\[{"\]\d-]')
#: A word at the beginning of a format that is known but not read, and its name.
_KNOWN: Final = (('"traceEvents"', "a trace of a profiler (Chrome's trace format)"),)


def form_of(head: str) -> str:
    """The form that begins with ``head``: a table, JSON, XML, text or a known format's name."""
    head = head[:HEAD_BYTES]
    for word, name in _KNOWN:
        if word in head:
            return name
    start = head.lstrip()
    if _JSON.match(start):
        return "JSON"
    if start[:1] == "<":
        return "XML"
    whole_lines = head.rpartition("\n")[0]
    rows = [line for line in whole_lines.splitlines() if line.strip()]
    return "a table" if len(rows) >= _MIN_ROWS and _is_table(rows) else "text"


def _is_table(rows: Sequence[str]) -> bool:
    if any(_are_even_cells(rows, mark) for mark in _SEPARATORS):
        return True
    cells = [row.split() for row in rows]
    columns = len(cells[0])
    if columns < _MIN_COLUMNS or any(len(row) < columns for row in cells):
        return False
    words = list(chain.from_iterable(row[:columns] for row in cells[1:]))
    numbers = sum(_HAS_DIGIT.search(word) is not None for word in words)
    return numbers >= _NUMBER_SHARE * len(words)


def _are_even_cells(rows: Sequence[str], mark: str) -> bool:
    counts = [row.count(mark) + 1 for row in rows]
    columns, even = Counter(counts).most_common(1)[0]
    return columns >= _MIN_COLUMNS and even >= _EQUAL_SHARE * len(counts)
