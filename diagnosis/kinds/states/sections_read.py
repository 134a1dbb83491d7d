"""Reads a piece of a text: by its format, and what the format does not know by its layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import MAX_FACTS
from diagnosis.kinds.states import layouts
from diagnosis.kinds.states.aligned_tables import blocks_of
from diagnosis.kinds.states.entries import Entry
from diagnosis.kinds.states.formats import Format
from diagnosis.kinds.states.known_shapes import series_of_places
from diagnosis.kinds.states.known_shapes.shapes import entries
from diagnosis.kinds.states.pieces_of_text import Piece, without_title

THRESHOLDS: Final = thresholds.of("sections_read")

#: The shape of the formats of what no format describes, and how the ids of all begin whose parts are
#: judged by their family.
LAYOUT: Final = "layout"
#: Shapes that read every line of their report: a block of which they read none is of another tool.
_WHOLE_SHAPES: Final = frozenset({"pairs", "columns", "aligned", "csv", "tokens", "exposition"})


class SectionRead(NamedTuple):
    """A section and what it states, in the order of its lines."""

    piece: Piece
    entries: list[Entry]

    def of_formats(self) -> Iterator[tuple[Entry, tuple[str, ...]]]:
        """Each entry with the ids of the formats that judge it: its own, and the family of what it
        names, for words that mean one thing in any tool.
        """
        form = self.piece.form
        if form is None:
            return
        if len(self.entries) > layouts.MAX_ENTRIES:
            yield from ((entry, (form.id,)) for entry in self.entries)
            return
        family = form if form.id.startswith(LAYOUT) else layouts.no_family()
        for entry in self.entries:
            own = layouts.family_of_part(entry, family).id
            yield entry, (own, layouts.TEXT) if family is form else (form.id, own)


def read_sections(piece: Piece, path: str) -> list[SectionRead]:
    """The sections of a piece: its report, and the blocks of other tools within it. O(text)."""
    if piece.is_log:
        return [SectionRead(piece, [])]
    if piece.form is None:
        return [_by_layout(piece, path)]
    if piece.form.shape == series_of_places.SHAPE:
        values = series_of_places.entries(without_title(piece.text), path)
        return [SectionRead(piece, list(islice(values, MAX_FACTS)))]
    found = entries(piece.form.shape, without_title(piece.text), piece.form)
    by_layout = _by_layout(piece, path) if not found else None
    if by_layout is not None and by_layout.entries:
        return [by_layout]
    others = _others(piece, piece.form, found)
    read = (_by_layout(other, path) for other in others)
    return [SectionRead(piece, found), *(one for one in read if one.entries)]


def _by_layout(piece: Piece, path: str) -> SectionRead:
    text = without_title(piece.text)
    found = layouts.entries(text)
    form = layouts.family_of(text, path) if found else None
    return SectionRead(piece._replace(form=form), found)


def _others(piece: Piece, form: Format, found: Sequence[Entry]) -> Iterator[Piece]:
    """The blocks of a report from which its format read nothing."""
    stated = {entry.line for entry in found}
    blocks = blocks_of(piece.text) if form.shape in _WHOLE_SHAPES else ()
    for first, block in blocks:
        is_read = not stated.isdisjoint(range(first, first + len(block)))
        if len(block) >= THRESHOLDS.table_lines and not is_read:
            text = "\n".join([*block, ""])
            yield Piece(piece.first_line + first - 1, text, None, is_log=False)
