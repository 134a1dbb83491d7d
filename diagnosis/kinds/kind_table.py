"""The table of all kinds of evidence. A new kind is a package of this folder and a row here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from diagnosis.kinds import binary, descriptions, documents, flows, logs, stacks, states
from diagnosis.kinds.evidence_kind import EvidenceKind
from diagnosis.model import Parsed

if TYPE_CHECKING:
    from diagnosis.evidence import Fact, Measure, Result

#: In the order in which they are asked: the last one takes every file.
TABLE: Final = (stacks.KIND, states.KIND, flows.KIND, binary.KIND, descriptions.KIND, documents.KIND, logs.KIND)


def kind_of(head: bytes, path: str) -> str:
    """The id of the kind of a file that begins with ``head``."""
    for row in TABLE:
        if (found := row.recognise(head, path)) is not None:
            return found
    raise AssertionError("the last row takes every file")


def row_of(kind: str) -> EvidenceKind:
    """The row of a kind. Raises ``KeyError``."""
    for row in TABLE:
        if kind in row.ids:
            return row
    raise KeyError(kind)


def rows_that_read(one: Parsed) -> list[EvidenceKind]:
    """The rows that read something of a file: its own, and for a log with reports between its lines
    that of the reports. Raises ``KeyError``.
    """
    own = row_of(one.kind)
    return [own, states.KIND] if states.holds_reports(one) else [own]


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """What the files of all kinds show, in the order of the table."""
    found: list[Result] = []
    for row in TABLE:
        found += row.analyse([one for one in parsed if one.skipped is None and row in rows_that_read(one)])
    return found


def facts(parsed: Sequence[Parsed]) -> Iterator[tuple[str, Fact]]:
    """Path and fact of all files, by path."""
    for one in sorted(parsed, key=lambda file: file.path):
        if one.skipped is None:
            for row in rows_that_read(one):
                yield from ((one.path, fact) for fact in row.facts(one))


def measures(parsed: Sequence[Parsed]) -> list[Measure]:
    """What the files of all kinds measure of places."""
    found: list[Measure] = []
    for one in parsed:
        for row in rows_that_read(one):
            found += row.measures(one)
    return found
