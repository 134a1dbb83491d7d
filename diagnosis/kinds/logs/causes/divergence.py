"""A training whose loss rose by much and stayed there, though it is a number to the end.

A training that learns brings its loss down. Where it did, and the loss then lies far above its
lowest level until the last line, the steps since then trained nothing. A spike that comes down
again is none of this, and neither is a loss that only ever rose: of such a program, a higher loss
need not be worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.logs.causes import not_finite
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.knowledge import words
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("divergence")
LIMITS: Final = thresholds.limits("divergence")

_LOSS: Final = words.regex("watched", "loss")
_CHECK: Final = Check("divergence", "Lines of progress", "", "", 0.0, "node", (), (), ())


class Rise(NamedTuple):
    """A loss that rose and stayed: ``at`` which value, its levels ``before`` and ``after``."""

    at: int
    before: float
    after: float


def risen_loss(facts: Facts) -> tuple[Result, ...]:
    """That the loss rose by much and stayed, and from where on; empty if it did not. Reads at most
    ``LIMITS.lines`` lines of the writer with most progress.
    O(messages + lines read).
    """
    points, losses = _stated_losses(facts)
    found = find_rise(losses)
    if found is None:
        return ()
    row = points.row(found.at, named=True)
    levels = f"from about {found.before:.3g} to {found.after:.3g}"
    begun = f"the loss rose {levels} at iteration {row['n']:,}"
    says = f"{begun} and stayed there to the last iteration shown"
    odds = THRESHOLDS.odds
    category = not_finite.CATEGORY
    outcome = Outcome("diverged", says, odds, categories={category: odds}, adds=category)
    file = facts.table.files[row["file"]]
    return (Result(_CHECK, outcome, file, row["line"], "", iteration=int(row["n"])),)


def find_rise(losses: Sequence[float]) -> Rise | None:
    """The rise of these losses by step; None where they fell again or are few. O(losses)."""
    values = np.asarray(losses, dtype=float)
    if len(values) < THRESHOLDS.steps or values.min() <= 0:
        return None
    width = max(THRESHOLDS.window, int(THRESHOLDS.share * len(values)))
    levels = _levels(values, width)
    lowest = int(levels.argmin())
    low, spread = stats.median_and_spread(values[lowest * width : (lowest + 1) * width])
    limit = max(THRESHOLDS.risen * low, low + THRESHOLDS.spreads * spread)
    after = levels[lowest + 1 :]
    has_learnt = lowest > 0 and levels[0] > THRESHOLDS.learnt * low
    is_high = len(after) > 0 and float(np.quantile(values[-width:], THRESHOLDS.nearly_all)) > limit
    if not (has_learnt and is_high):
        return None
    at = 1 + int(np.flatnonzero(values <= limit)[-1])
    return Rise(at, low, float(np.median(values[at:]))) if len(values) - at >= width else None


def _levels(values: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    """The median of each stretch of ``width`` values."""
    whole = len(values) // width * width
    return np.asarray(np.median(values[:whole].reshape(-1, width), axis=1))


def _stated_losses(facts: Facts) -> tuple[pl.DataFrame, list[float]]:
    """The lines of progress that state a finite loss, since the last fall of the counter, of the
    writer and the wording with most of them.
    """
    points = facts.progress.points
    writer = ["file", "source", "masked"]
    most = points.group_by(writer).len().sort("len", *writer).tail(1)
    written = points.join(most, on=writer, how="semi").sort("line")
    fallen = (written["n"].diff() < 0).arg_true()
    written = written[int(fallen[-1]) :] if len(fallen) else written
    if written.height < THRESHOLDS.steps:
        return written, []
    masked, file = most["masked"].to_list(), int(most["file"][0])
    rows = facts.table.sampled(masked, file, LIMITS.lines)
    rows = rows.join(written.select("line", "n"), on="line", how="inner").sort("line")
    stated = [_loss(text) for text in raw_lines.read_lines(rows, facts.table.files, facts.read)]
    known = rows.with_columns(loss=pl.Series(stated, dtype=pl.Float64)).drop_nulls("loss")
    return known.select("file", "line", "n"), known["loss"].to_list()


def _loss(text: str) -> float | None:
    """The finite loss that a line states."""
    found = _LOSS.search(text)
    value = float(found[1]) if found else math.nan
    return value if math.isfinite(value) else None
