"""What several places measure of one quantity, as a table of places by steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from diagnosis import thresholds
from diagnosis.evidence import Measure
from diagnosis.values.plain import amount, duration

THRESHOLDS: Final = thresholds.of("unevenness")


class Table(NamedTuple):
    """``values`` of places by steps; ``steps``: their numbers, empty where the places state none;
    ``least``: values of which each column is made at least (medians of all steps have one column).
    """

    rows: tuple[Measure, ...]
    values: npt.NDArray[np.float64]
    steps: tuple[int, ...] = ()
    least: int = 1

    def span(self, first: int, last: int) -> str:
        """The steps of some columns in words."""
        if not self.steps:
            return f"in {(last - first + 1) / self.values.shape[1]:.0%} of the steps"
        if last + 1 == len(self.steps):
            return f"from step {self.steps[first]:,} on"
        return f"in steps {self.steps[first]:,} to {self.steps[last]:,}"


def table_of(rows: Sequence[Measure]) -> Table | None:
    """The table of one quantity: by the steps that all places state, else by position where all
    state as many values, else of their medians. None without values. O(values).
    """
    ordered = tuple(rows)
    if min(len(row.values) for row in ordered) == 0:
        return None
    steps = _common_steps(ordered)
    if len(steps) >= THRESHOLDS.steps:
        return Table(ordered, _by_step(ordered, steps), steps)
    if len({len(row.values) for row in ordered}) == 1:
        return Table(ordered, np.array([row.values for row in ordered], dtype=float))
    medians = np.array([[np.median(row.values)] for row in ordered])
    return Table(ordered, medians, least=min(len(row.values) for row in ordered))


def aligned(rows: Sequence[Measure], table: Table) -> npt.NDArray[np.float64] | None:
    """Another quantity of the same places in the same columns; None where it does not fit."""
    own = {(row.place.name, row.part): row for row in rows}
    chosen = [own.get((row.place.name, row.part)) for row in table.rows]
    if any(row is None for row in chosen):
        return None
    known = [row for row in chosen if row is not None]
    if table.steps:
        fits = all(set(table.steps) <= set(row.steps) for row in known)
        return _by_step(known, table.steps) if fits else None
    columns = table.values.shape[1]
    if any(len(row.values) != columns for row in known):
        return None
    return np.array([row.values for row in known], dtype=float)


def in_words(value: float, unit: str) -> str:
    """A value with its unit."""
    return duration(value) if unit == "s" else f"{amount(value)} {unit}".strip()


def _common_steps(rows: Sequence[Measure]) -> tuple[int, ...]:
    """The steps that all places state, in order; none where a place states no steps."""
    common = set(rows[0].steps)
    for row in rows[1:]:
        common &= set(row.steps)
    return tuple(sorted(common))


def _by_step(rows: Sequence[Measure], steps: Sequence[int]) -> npt.NDArray[np.float64]:
    """The value of each place in each step, the last one that it states."""
    of_step = [dict(zip(row.steps, row.values, strict=True)) for row in rows]
    return np.array([[own[step] for step in steps] for own in of_step], dtype=float)
