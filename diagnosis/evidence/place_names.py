"""Places: one vocabulary for the parts of a job and a cluster."""

from __future__ import annotations

from typing import Final

import msgspec

#: The kinds of places that a conclusion may accuse. It never accuses code or data like machines.
PLACE_KINDS: Final = ("node", "rank", "device", "link", "switch")


class Place(msgspec.Struct, frozen=True, order=True):
    """A part of the job or of the cluster. ``name`` of a rank is its number; ``rank`` is set where a place belongs to
    one rank."""

    kind: str
    name: str
    rank: int | None = None
