"""What the words of an event say of it, searched once for all who ask.

To prepare a search takes milliseconds for each of these patterns, more than all else that is done
with the events of a small job. So no rule searches for them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words

#: A frame of a traceback, or a line of source that it quotes.
STRUCTURE: Final = "|".join(words.pattern("phrases", row) for row in ("frame", "source_line"))

#: A column of events: the column whose text is searched, and the pattern.
_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "is_structure": ("template", STRUCTURE),
    # a line of source that a traceback quotes, recognised by its indentation, after any prefix
    "is_quoted_code": ("example", words.pattern("phrases", "quoted_code")),
    # a word for a problem
    "is_ill": ("example", words.pattern("phrases", "ill")),
    # what a program does instead
    "is_tolerated": ("example", words.pattern("phrases", "tolerated")),
    # a program or a launcher was told to stop
    "is_told_to_stop": ("example", words.pattern("phrases", "told_to_stop")),
}


def with_words(events: pl.DataFrame) -> pl.DataFrame:
    """``events`` (``template``, ``example``) with a column of booleans for each of these questions,
    null where there is no text. O(bytes).
    """
    hay = {name: Haystack.of(events[name]) for name in ("template", "example")}
    return events.with_columns(
        **{
            column: hay[searched].contains(pl.col(searched), pattern)
            for column, (searched, pattern) in _COLUMNS.items()
        }
    )


def first_row(lines: pl.Series, name: str) -> str:
    """The id of the first row whose pattern is near the beginning of a line; else empty."""
    heads = lines.str.head(400)
    hay = Haystack.of(heads)
    return next((word.id for word in words.load(name) if hay.contains(heads, word.pattern).any()), "")
