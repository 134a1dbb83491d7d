"""The kinds of evidence, one package each: how its files are recognised and parsed. What they mean stands in
:mod:`kind_analyses`, so that a change of rules needs no new parse.

A kind is a row of :data:`TABLE`. Logs, flows, stacks, inventories and layouts still have their rows in
:mod:`diagnosis.parsing` and move here one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from diagnosis.kinds import states
from diagnosis.model import Kind, Parsed


@dataclass(frozen=True, slots=True)
class EvidenceKind:
    """One kind of evidence.

    ``sniff`` says whether a file that begins with these bytes is of this kind; ``parse`` makes one ``Parsed`` of the
    whole file and never raises on content.
    """

    kind: Kind
    sniff: Callable[[bytes, str], bool]
    parse: Callable[[bytes, str], Parsed]
    #: bytes of a file that are read; further ones are left out with a sentence
    max_bytes: int


TABLE: Final = (EvidenceKind(Kind.STATE, states.sniff, states.parse, states.MAX_BYTES),)


def kind_of(head: bytes, path: str) -> Kind | None:
    """The kind of a file that begins with ``head``, if a row of the table recognises it."""
    for row in TABLE:
        if row.sniff(head, path):
            return row.kind
    return None


def row_of(kind: Kind) -> EvidenceKind | None:
    """The row of a kind; None for the kinds that have none yet."""
    return next((row for row in TABLE if row.kind is kind), None)
