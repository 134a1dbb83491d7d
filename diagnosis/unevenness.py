"""Places compared in the same step: a rank or node that takes longer, or does less, than the
others. One detector for every stated time and rate, from lines of logs, records of profilers or
metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from diagnosis import stats, thresholds
from diagnosis.evidence import Check, Measure, Outcome, Result
from diagnosis.plain import amount

THRESHOLDS: Final = thresholds.of("unevenness")

LIMITS: Final = thresholds.limits("unevenness")

STRAGGLER: Final = "performance.straggler"
_SAYS: Final = {
    "work": "takes longer than the others in the same steps",
    "wait": "takes longer with the others than they do in the same steps",
    "late": "comes later than the others, who wait for it in the same steps",
    "rate": "does less than the others in the same steps",
}
_CHECK: Final = Check("unevenness", "Ranks compared in the same step", "", "", 0.0, "node", (), (), ())


class Slow(NamedTuple):
    """A slow place: the share of its steps that are slow, its value in them and that of the others."""

    share: float
    own: float
    usual: float


def compare_places(measures: Iterable[Measure]) -> list[Result]:
    """The slow places, one result for a node or, without its name, for a rank. O(values)."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], Measure]] = defaultdict(dict)
    for measure in measures:
        groups[measure.name, measure.sense, measure.unit][measure.place.name, measure.part] = measure
    found: dict[tuple[str, str], Result] = {}
    for _, of_place in sorted(groups.items()):
        for result in _slow_ones(of_place):
            found.setdefault((result.kind, result.target), result)
    return list(found.values())[: LIMITS.results]


def _slow_ones(of_place: Mapping[tuple[str, str], Measure]) -> Iterator[Result]:
    rows = list(of_place.values())
    sense = rows[0].sense
    slow = slow_places([row.values for row in rows], sense)
    if sense == "wait" and not slow:
        # who comes last to a collective is the only one that does not wait in it
        sense = "late"
        slow = slow_places([row.values for row in rows], sense)
    by_target: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in slow:
        row = rows[number]
        target = ("node", row.place.name) if row.place.name else ("rank", row.part)
        by_target[target].append(number)
    for (kind, name), numbers in by_target.items():
        row = rows[numbers[0]]
        yield _result(row, sense, slow[numbers[0]], (kind, name), [rows[number].part for number in numbers])


def slow_places(values: Sequence[Sequence[float]], sense: str) -> dict[int, Slow]:
    """The few slow ones of many places, by their position. Where all state the same number of
    values they are compared step by step, else by their medians.
    """
    if len(values) < THRESHOLDS.places or min(map(len, values)) < THRESHOLDS.steps:
        return {}
    is_aligned = len({len(own) for own in values}) == 1
    table = np.array(values, dtype=float) if is_aligned else np.array([[np.median(own)] for own in values])
    usual = np.median(table, axis=0)
    is_slow = _is_slow(table, usual, sense)
    enough = max(THRESHOLDS.share * table.shape[1], min(THRESHOLDS.steps, table.shape[1]))
    slow = np.flatnonzero(is_slow.sum(axis=1) >= enough)
    if not stats.is_minority(len(slow), len(values)):
        return {}
    return {int(place): _slow(table[place], usual, is_slow[place]) for place in slow}


def _is_slow(table: npt.NDArray[np.float64], usual: npt.NDArray[np.float64], sense: str) -> npt.NDArray[np.bool_]:
    """Which value of which place is far from the usual one of its step, in the bad direction."""
    spread = np.maximum(stats.MAD_TO_SIGMA * np.median(np.abs(table - usual), axis=0), THRESHOLDS.noise * usual)
    is_far = (usual > 0) & (np.abs(table - usual) > THRESHOLDS.sigmas * spread)
    is_bad = table * THRESHOLDS.ratio < usual if sense in ("rate", "late") else table > THRESHOLDS.ratio * usual
    return np.asarray(is_far & is_bad, dtype=np.bool_)


def _slow(own: npt.NDArray[np.float64], usual: npt.NDArray[np.float64], when: npt.NDArray[np.bool_]) -> Slow:
    return Slow(float(when.mean()), float(np.median(own[when])), float(np.median(usual[when])))


def _result(row: Measure, sense: str, slow: Slow, target: tuple[str, str], parts: Sequence[str]) -> Result:
    category = "performance.network" if sense == "wait" else STRAGGLER
    odds = THRESHOLDS.odds
    outcome = Outcome("slow-place", _SAYS[sense], odds, categories={category: odds}, adds=category)
    who = ", ".join(filter(None, parts[: LIMITS.parts]))
    unit = f" {row.unit}" if row.unit else ""
    share = "" if slow.share >= 1 else f" in {slow.share:.0%} of the steps"
    words = f"{who} {row.name}: {amount(slow.own)}{unit}, the others {amount(slow.usual)}{unit}{share}".strip()
    kind, name = target
    return Result(_CHECK, outcome, row.path, row.line, words, name, kind)
