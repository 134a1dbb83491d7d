"""The tables of the statistics page from sums of weeks: plain rows, then a frame of pandas each.

Rows are added up and sorted before a frame is made: a frame of ten rows costs more than its sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from diagnosis import taxonomy
from triage.selectors.calibration import COLUMNS, calibration_of
from triage.selectors.sums import Sums, Values, add_values, total

if TYPE_CHECKING:
    import pandas as pd

#: decimals of each column, equal on the page, in charts, files and the API
DECIMALS = {"gpu_hours": 2, "node_hours": 2}
DECIMALS |= dict.fromkeys(("share", "cumulative", "precision", "claimed", "least", "most"), 3)
_COUNTS = ("incidents", "imported", "awaiting", "right", "wrong", "unnamed", "reviewed")
#: rows of the breakdown
_MAX_VALUES = 25

type WeekCells = Mapping[date, Mapping[str, Values]]
type Row = tuple[Any, ...]


def frame_of(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A frame with the decimals of each column; counts are whole numbers, and an unknown number
    is not a number.
    """
    import pandas as pd  # noqa: PLC0415  # heavy, and no other page needs it

    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    named = zip(columns, values, strict=True)
    return pd.DataFrame({name: _column(name, cells) for name, cells in named})


def _column(name: str, cells: Sequence[Any]) -> Any:
    import numpy as np  # noqa: PLC0415  # as pandas

    if name in _COUNTS:
        return np.array([int(cell) for cell in cells], dtype="int64")
    if name in DECIMALS:
        known = [math.nan if cell is None else round(cell, DECIMALS[name]) for cell in cells]
        return np.array(known, dtype="float64")
    return list(cells)


def weeks(cells: WeekCells) -> pd.DataFrame:
    """Incidents and costs by week and highest category."""
    sums: dict[tuple[date, str], Values] = {}
    for week, by_category in cells.items():
        for category, values in by_category.items():
            key = week, category.partition(".")[0]
            sums[key] = add_values(sums[key], values) if key in sums else values
    rows = [(*key, *_incidents_and_costs(Sums(*values))[:2]) for key, values in sorted(sums.items())]
    return frame_of(rows, ["week", "category", "incidents", "gpu_hours"])


def _incidents_and_costs(sums: Sums) -> tuple[float, float | None, float | None]:
    """Costs are None where no incident has a known one: that is not the same as no cost."""
    if sums.priced:
        return sums.incidents, sums.gpu_hours, sums.node_hours
    return sums.incidents, None, None


def pareto(categories: Mapping[str, Sums]) -> pd.DataFrame:
    """Categories by cost, most expensive first; by number if no cost is known."""
    rows = [(category, *_incidents_and_costs(sums)) for category, sums in categories.items()]
    is_costed = any(gpu_hours for _, _, gpu_hours, _ in rows)

    def weight(row: Row) -> float:
        _, incidents, gpu_hours, _ = row
        return (gpu_hours or 0.0) if is_costed else incidents

    def rank(row: Row) -> tuple[bool, float, float, str]:
        category, incidents, gpu_hours, _ = row
        is_unknown = is_costed and gpu_hours is None
        return is_unknown, -weight(row), -incidents, category

    whole = sum(map(weight, rows)) or 1
    ranked, cumulative = [], 0.0
    for row in sorted(rows, key=rank):
        share = weight(row) / whole
        cumulative += share
        category, *figures = row
        ranked.append((category, _title(category), *figures, share, cumulative))
    columns = ["category", "title", "incidents", "gpu_hours", "node_hours", "share", "cumulative"]
    return frame_of(ranked, columns)


def _title(category: str) -> str:
    tree = taxonomy.load()
    return " › ".join(tree.path(tree.get(category).id))


def verdicts(cells: WeekCells) -> pd.DataFrame:
    """The verdicts on diagnosed incidents; ``unnamed``: people named what the machine had left open."""
    by_week = ((week, total(by_category.values())) for week, by_category in cells.items())
    rows = [
        (week, sums.open, sums.right, sums.judged - sums.right, sums.diagnosed - sums.open - sums.judged)
        for week, sums in by_week
        if sums.diagnosed
    ]
    return frame_of(rows, ["week", "awaiting", "right", "wrong", "unnamed"])


def precision(categories: Mapping[str, Sums], otherwise: Mapping[str, Sums]) -> pd.DataFrame:
    """By the category that the *machine* named: how often reviewers confirmed it. ``otherwise``:
    those that people gave another category.
    """
    nothing = Sums()
    rows = []
    for category in categories.keys() | otherwise.keys():
        alike, other = categories.get(category, nothing), otherwise.get(category, nothing)
        reviewed = alike.judged_alike + other.judged
        if reviewed:
            rows.append((category, _title(category), reviewed, alike.right, alike.right / reviewed))
    rows.sort(key=lambda row: (-row[2], row[0]))
    return frame_of(rows, ["category", "title", "reviewed", "right", "precision"])


def calibration(bins: Mapping[str, Sums]) -> pd.DataFrame:
    return frame_of(calibration_of(bins), COLUMNS)


def dimension(groups: Mapping[str, Sums], clusters: Mapping[int, str]) -> pd.DataFrame:
    """Incidents and costs by the values of the breakdown; ``clusters``: their names, if the values
    are their numbers. The index has the number, so names are given afterwards.
    """
    ranked = sorted(groups.items(), key=lambda group: (-group[1].incidents, group[0]))
    rows = []
    for value, sums in ranked[:_MAX_VALUES]:
        name = clusters[int(value)] if clusters else value
        rows.append((name, *_incidents_and_costs(sums)))
    return frame_of(rows, ["value", "incidents", "gpu_hours", "node_hours"])
