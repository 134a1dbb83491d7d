"""Pauses that come every so many iterations, as saves and evaluations do, and became longer.

Iterations between them take as long as before, so that no slowdown of the iterations shows them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.facts.measure_tables import in_words
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("pauses")
LIMITS: Final = thresholds.limits("pauses")

CATEGORY: Final = "performance.step"
_TITLE: Final = "Pauses between iterations"
_CHECK: Final = Check("pauses", _TITLE, "", "", 0.0, "node", (), (), (), finding="slow_place")

type _Floats = npt.NDArray[np.float64]


class Growth(NamedTuple):
    """Pauses after every ``each`` iterations, in seconds: usually ``before``, and ``after`` from
    iteration ``since`` on. ``share``: of the time since then.
    """

    each: int
    before: float
    after: float
    since: int
    share: float


def longer_pauses(facts: FailureFacts) -> tuple[Result, ...]:
    """That the pauses of a job became longer, and from where on; empty if they did not. O(points)."""
    points = facts.pace.points.drop_nulls("at").select("n", "at").tail(LIMITS.points)
    found = find_growth(points["n"].to_numpy(), points["at"].to_numpy() / SECOND)
    if found is None:
        return ()
    before, after = in_words(found.before, "s"), in_words(found.after, "s")
    says = (
        f"the pauses after every {found.each:,} iterations became longer: {after} since iteration"
        f" {found.since:,}, {before} before; {found.share:.0%} of the time since then"
    )
    odds = THRESHOLDS.odds
    outcome = Outcome("longer-pauses", says, odds, categories={CATEGORY: odds}, adds=CATEGORY)
    file, line = _place(facts, found.since)
    return (Result(_CHECK, outcome, file, line, "", iteration=found.since),)


def find_growth(steps: npt.NDArray[np.int64], times: _Floats) -> Growth | None:
    """The growth of the pauses between steps printed at these times (s); None without one. Evenly
    spaced pauses alone count: others are accidents. O(points + pauses²).
    """
    gaps = np.diff(times)
    if len(gaps) < THRESHOLDS.steps:
        return None
    passed = gaps[gaps > 0]  # several lines share a stamp of whole seconds
    usual = float(np.median(passed)) if len(passed) else 0.0
    long = np.flatnonzero(gaps > THRESHOLDS.longer * usual)
    each = _even_distance(steps[long])
    if each is None:
        return None
    # pauses that were shorter at first are found by the schedule of the long ones
    due = np.flatnonzero((steps[:-1] - steps[long[-1]]) % each == 0)[-LIMITS.pauses :]
    lengths = np.maximum(gaps[due] - usual, 0.0)
    cut = stats.change_point(lengths, THRESHOLDS.pauses)
    if cut is None:
        return None
    before, after = float(np.median(lengths[:cut])), float(np.median(lengths[cut:]))
    since = due[cut]
    passed_since = float(times[-1] - times[since])
    share = float(lengths[cut:].sum()) / passed_since if passed_since > 0 else 0.0
    is_much = after >= THRESHOLDS.grown * before and share >= THRESHOLDS.share
    return Growth(each, before, after, int(steps[since]), share) if is_much else None


def _even_distance(steps: npt.NDArray[np.int64]) -> int | None:
    """The distance between most of these steps; None if there is none."""
    if len(steps) < THRESHOLDS.pauses:
        return None
    distances = np.diff(steps)
    each = int(np.median(distances))
    is_even = each > 1 and float((distances == each).mean()) >= THRESHOLDS.even
    return each if is_even else None


def _place(facts: FailureFacts, step: int) -> tuple[str, int]:
    """A line of progress of this step."""
    points = facts.progress.points.filter(pl.col("n") == step).sort("file", "line")
    file, line = points.select("file", "line").row(0)
    return facts.table.files[file], line
