"""Ranks with a suspicious state in the messages of collective watchdogs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis.logs import protocol
from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue

id: Final = "watchdogs"
why: Final = "who is behind in the order of collectives, or called another, is who the others wait for"
needs: Final = "lines of watchdogs with sequence numbers"


def look(case: Case) -> Iterator[Clue]:
    """The nodes of suspicious ranks. Only ranks that wrote lines, or that an inventory states, can be missed."""
    known = {*case.inventory.node_of_rank, *case.table.sources["rank"].drop_nulls().to_list()}
    return protocol.suspicions(protocol.states(case), {rank: case.homes.get(rank) for rank in sorted(known)})
