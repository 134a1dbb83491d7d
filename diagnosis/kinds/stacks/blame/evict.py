"""Over-eviction: the parallel group that explains the outliers best (ByteRobust, section 5.1, figure 7).

One faulty rank stalls its whole group, so the machines of the group that the outliers share are evicted together: this
costs a few healthy machines and saves hours of searching.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from diagnosis.kinds.stacks.ranks.layout import Layout


class Candidate(msgspec.Struct, frozen=True):
    """``groups`` of one kind, together ``ranks``. ``coverage`` = |O∩g|/|O|, ``precision`` = |O∩g|/|g|."""

    kind: str
    groups: tuple[tuple[int, ...], ...]
    ranks: frozenset[int]
    coverage: float
    precision: float

    @property
    def order(self) -> tuple[float, float, int]:
        """Better first: coverage, precision (of equal coverage the smaller group has more), fewer groups."""
        return (-self.coverage, -self.precision, len(self.groups))

    @property
    def score(self) -> float:
        """In [0, 1]: coverage reduced by low precision, for display; the choice is made by :attr:`order`."""
        return round(self.coverage * (1 + self.precision) / 2, 4)


def candidates(outliers: Iterable[int], layout: Layout, *, limit: int | None = 24) -> list[Candidate]:
    """Single groups that touch an outlier, and per kind the union that covers all; best first, at most ``limit``.
    O(kinds × world size).
    """
    odd = frozenset(outliers)
    if not odd or not layout.is_known:
        return []
    found: list[Candidate] = []
    for kind in layout.kinds():
        touched = [group for group in layout.groups(kind) if not odd.isdisjoint(group)]
        found += [_candidate(kind, (group,), odd) for group in touched]
        if len(touched) > 1:
            found.append(_candidate(kind, tuple(touched), odd))
    return sorted(found, key=lambda c: (c.order, c.kind))[:limit]


def _candidate(kind: str, groups: tuple[tuple[int, ...], ...], outliers: frozenset[int]) -> Candidate:
    ranks = frozenset(chain.from_iterable(groups))
    common = len(outliers & ranks)
    return Candidate(kind, groups, ranks, common / len(outliers), common / len(ranks))


def tied_candidates(found: list[Candidate]) -> list[Candidate]:
    """Candidates as good as the best that would evict other ranks: a human decides between them."""
    if not found:
        return []
    best = found[0]
    return [c for c in found[1:] if c.order == best.order and c.ranks != best.ranks]
