"""The layout that a job's own words state (its description, command line, printed configuration or groups), against the
layout that its flows show. Statements decide what the flows leave open; if flows show something else, one of the two is
wrong, and the report says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Dimensions that a statement can be compared in.
_COMPARED_DIMENSIONS: Final = ("tp", "pp", "dp")


@dataclass(frozen=True, slots=True)
class StatedLayout:
    """``sizes``: tp, pp, dp, cp, ep as far as stated; ``ranks``: the number of ranks, if known; ``groups``: of pp or
    dp, the machines of each group, if the job states who is in them; ``places``: names and addresses of the job's
    machines, empty for the only job.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    ranks: int | None = None
    groups: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    places: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, int]:
        """The row ``stated`` of a report's job."""
        return dict(self.sizes) | ({"ranks": self.ranks} if self.ranks and self.sizes else {})


def machines_of(groups: Iterable[Sequence[int]], home: Mapping[int, str]) -> list[frozenset[str]]:
    """The machines of groups of ranks, each set once; none if a rank's machine is unknown. Groups inside one machine
    are left out: they have no flows.
    """
    found: set[frozenset[str]] = set()
    for group in groups:
        if not all(rank in home for rank in group):
            return []
        found.add(frozenset(home[rank] for rank in group))
    return sorted((g for g in found if len(g) > 1), key=sorted)


def statement_of(
    statements: Sequence[StatedLayout], names: Collection[str], *, is_largest: bool
) -> StatedLayout | None:
    """Which statement is about a job with these machines (names and addresses): one with most of them among its places;
    one without places is about the capture's largest job.
    """
    for one in statements:
        if one.places and 2 * sum(name in one.places for name in names) > len(names):
            return one
    return next((one for one in statements if not one.places), None) if is_largest else None


def may_be_stated(stated: Mapping[str, int], kind: str, seen: int, members: int) -> bool:
    """Whether a size that flows show can be the stated one. Ranks behind one address are hidden: then a size may be
    smaller by a divisor of their number. Gradients may be summed over data and context parallel ranks together.
    """
    wanted = {stated[kind]} | ({stated[kind] * stated["cp"]} if kind == "dp" and "cp" in stated else set())
    if seen in wanted:
        return True
    hidden, rest = divmod(stated.get("ranks", 0), max(1, members))
    return hidden > 1 and not rest and any(size % seen == 0 and hidden % (size // seen) == 0 for size in wanted)


def differing_sizes(stated: Mapping[str, int], seen: Mapping[str, int | None], members: int = 0) -> list[str]:
    """The sizes that the flows show differently than stated. ``dp`` is compared if the number of ranks is stated and
    all of them are in the capture: a part of them shows smaller groups.
    """
    found = []
    for kind in _COMPARED_DIMENSIONS:
        size = seen.get(kind)
        is_whole = kind != "dp" or (members > 0 and stated.get("ranks", 0) % members == 0 < stated.get("ranks", 0))
        if kind in stated and size is not None and is_whole and not may_be_stated(stated, kind, size, members):
            found.append(kind)
    return found
