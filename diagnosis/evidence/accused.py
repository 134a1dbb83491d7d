"""Suspects: whom one or all kinds of evidence accuse, or only rank."""

from __future__ import annotations

import msgspec


class Suspect(msgspec.Struct, frozen=True):
    """One entry of a ranking. In a report ``sources`` is ``from`` and ``is_suspect`` is ``suspect``.

    ``kind``: node, rank, group, link, switch, code or data. ``score`` in [0, 1]. ``is_suspect`` False: ranked, not
    accused. ``how``: "ceased" for a member that fell silent first when its job stopped,
    "overdue" for one that did so in the middle of a step, else empty.
    """

    entity: str
    kind: str = "node"
    score: float = 0.0
    sources: tuple[str, ...] = msgspec.field(name="from", default=())
    reasons: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    is_suspect: bool = msgspec.field(name="suspect", default=True)
    how: str = ""
