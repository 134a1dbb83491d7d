"""Ranks as people read them: folded to ranges, and in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from diagnosis import thresholds

LIMITS: Final = thresholds.limits("blame")


def fold_ranks(ranks: Iterable[int]) -> str:
    """``0-2/5`` for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return "/".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3/7`` or, if the list is long, ``119 ranks``."""
    named = sorted(set(ranks))
    folded = fold_ranks(named)
    if len(named) == 1:
        return f"rank {folded}"
    return f"ranks {folded}" if folded.count("/") < LIMITS.spans else f"{len(named)} ranks"
