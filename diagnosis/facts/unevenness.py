"""Places compared in the same step: a rank or node that takes longer, or does less, than the
others. One detector for every stated time and rate, from lines of logs, records of profilers or
metrics.

Hypotheses compete. A slow place stays slow for a stretch of steps that chance does not explain;
uneven work changes hands from step to step, or follows the stated size of the work; a stage of a
pipeline is a share of the work, too; a place that is slow only at the start warms up.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from diagnosis import thresholds
from diagnosis.evidence import Check, Measure, Outcome, Result
from diagnosis.facts.measure_tables import Table, aligned, in_words, table_of
from diagnosis.facts.uneven_work import lost_to_moving_work
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("unevenness")

LIMITS: Final = thresholds.limits("unevenness")

STRAGGLER: Final = "performance.straggler"
IMBALANCE: Final = "performance.imbalance"
_SAYS: Final = {
    "work": "takes longer than the others in the same steps",
    "wait": "takes longer with the others than they do in the same steps",
    "late": "comes later than the others, who wait for it in the same steps",
    "rate": "does less than the others in the same steps",
}
#: Senses in the order in which they decide: where one place works longer, the others' waits follow.
_ORDER: Final = ("work", "rate", "wait")
#: What each rank does alike, the first one too.
_COMPUTES: Final = re.compile(r"fwd|bwd|forward|backward|comput|gemm|matmul|kernel|step|iter")
_TITLE: Final = "Ranks compared in the same step"
_CHECK: Final = Check("unevenness", _TITLE, "", "", 0.0, "node", (), (), (), finding="slow_place")

type _Floats = npt.NDArray[np.float64]
type _Flags = npt.NDArray[np.bool_]
type _Groups = Mapping[tuple[str, str, str], list[Measure]]


class Stretch(NamedTuple):
    """Steps in which a place is slow: first and last column, the share of them that is slow, its
    value in them and that of the others; ``surprise``: how little chance explains it.
    """

    first: int
    last: int
    slow: int
    own: float
    usual: float
    surprise: float


def compare_places(measures: Iterable[Measure]) -> list[Result]:
    """The slow places, one result for a node or nameless rank; then uneven work. O(values)."""
    groups = _grouped(measures)
    found: dict[tuple[str, str], Result] = {}
    remarks: dict[str, Result] = {}
    for sense in _ORDER:
        for key in sorted(key for key in groups if key[1] == sense):
            for result in _compared(groups[key], groups):
                if result.outcome.adds:
                    found.setdefault((result.kind, result.target), result)
                else:
                    remarks.setdefault(f"{result.outcome.id} {result.target}", result)
        if found and sense != "work":
            break
    return [*list(found.values())[: LIMITS.results], *list(remarks.values())[: LIMITS.results]]


def _grouped(measures: Iterable[Measure]) -> _Groups:
    """The measures of one quantity, one for each place."""
    places: dict[tuple[str, str, str], dict[tuple[str, str], Measure]] = defaultdict(dict)
    for measure in measures:
        places[measure.name, measure.sense, measure.unit][measure.place.name, measure.part] = measure
    return {key: list(own.values()) for key, own in places.items()}


def _compared(rows: Sequence[Measure], groups: _Groups) -> Iterator[Result]:
    """What one quantity shows: slow places, or else remarks on uneven work."""
    if len(rows) < THRESHOLDS.places:
        return
    table = table_of(rows)
    if table is None or table.values.shape[1] * table.least < THRESHOLDS.steps:
        return
    explained = _explained(table, groups)
    if explained is not None:
        name, table = explained
        yield _remark("work-size", f"the times follow the work, nobody is at fault: {rows[0].name} grows with {name}")
    sense = rows[0].sense
    slow = slow_places(table.values, sense)
    if sense == "wait" and not slow:
        # who comes last to a collective is the only one that does not wait in it
        sense = "late"
        slow = slow_places(table.values, sense)
    step = _usual_step(groups, rows[0].unit)
    if rows[0].sense == "wait":
        slow = {row: stretch for row, stretch in slow.items() if _costs(stretch, table, step)}
    slow = {row: stretch for row, stretch in slow.items() if not _is_duty(table.rows[row], sense, len(slow))}
    if stage := _stage_of(slow, table, groups):
        yield _uneven("stage", f"one stage of the pipeline ({stage}) has more work than the others, nobody is at fault")
        return
    if slow:
        yield from _results(slow, table, sense)
    elif explained is None and _moves_on(table.values, sense, step):
        yield _uneven("turns", f"the work is uneven, another place takes longest in each step: {rows[0].name}")


def slow_places(values: _Floats, sense: str) -> dict[int, Stretch]:
    """The places that are slow in a stretch of steps, by their row. ``values``: places by steps."""
    usual = np.median(values, axis=0)
    ratio = _ratios(values, usual, is_low=sense in ("rate", "late"))
    spread = max(THRESHOLDS.noise, stats.MAD_TO_SIGMA * float(np.median(np.abs(ratio - 1.0))))
    far = 1.0 + THRESHOLDS.sigmas * spread
    found: dict[int, Stretch] = {}
    for least, is_always in ((THRESHOLDS.ratio, False), (THRESHOLDS.always_ratio, True)):
        is_slow = ratio > max(least, far)
        # of a step in which many differ none is the slow one
        is_slow[:, is_slow.sum(axis=0) > stats.largest_minority(len(values))] = False
        is_often = is_slow.sum(axis=1) >= min(THRESHOLDS.steps, is_slow.shape[1])
        for row in np.flatnonzero(is_often).tolist():  # of thousands of places few are
            stretch = _stretch(is_slow, row, values[row], usual, is_always=is_always)
            if stretch is not None:
                found.setdefault(row, stretch)
    return found


def _ratios(values: _Floats, usual: _Floats, *, is_low: bool) -> _Floats:
    """How many times as bad as the usual value each is; 1 where nothing is usual."""
    top, below = (np.broadcast_to(usual, values.shape), values) if is_low else (values, usual)
    known = (usual > 0) & (values >= 0)
    least = THRESHOLDS.zero * usual + np.finfo(float).tiny
    with np.errstate(over="ignore"):  # stated values may be as large as a float can be
        ratio = np.where(known, top / np.maximum(below, least), 1.0)
    return np.minimum(ratio, np.finfo(np.float64).max)


def _stretch(is_slow: _Flags, row: int, own: _Floats, usual: _Floats, *, is_always: bool) -> Stretch | None:
    """The stretch of steps in which a place is most surely slow; None if chance explains each."""
    flags = is_slow[row]
    steps = len(flags)
    # how often a sound place is slow: most places are sound
    chance = max(THRESHOLDS.chance, float(np.quantile(is_slow.mean(axis=1), THRESHOLDS.sound)))
    first, last, surprise = 0, 0, 0.0
    for share in (THRESHOLDS.mostly, THRESHOLDS.share):
        if share > chance:
            gain, loss = math.log(share / chance), math.log((1 - share) / (1 - chance))
            best = _best_run(np.where(flags, gain, loss))
            first, last, surprise = max(best, (first, last, surprise), key=lambda run: run[2])
    slow = flags[first : last + 1]
    needed = math.log(is_slow.size) + (THRESHOLDS.surprise if steps > 1 else 0.0)
    is_enough = slow.sum() >= min(THRESHOLDS.steps, steps) and surprise >= min(needed, steps * THRESHOLDS.each)
    if is_always:
        is_enough = is_enough and slow.mean() >= THRESHOLDS.always and len(slow) >= steps / 2
    if not is_enough or slow.mean() < THRESHOLDS.share:
        return None
    when = np.flatnonzero(slow) + first
    return Stretch(
        first, last, int(slow.sum()), float(np.median(own[when])), float(np.median(usual[when])), float(surprise)
    )


def _best_run(gains: _Floats) -> tuple[int, int, float]:
    """First and last place of the run with the largest sum, and that sum."""
    best, start, total = (0, 0, 0.0), 0, 0.0
    for place, gain in enumerate(gains.tolist()):
        if total <= 0.0:
            start, total = place, 0.0
        total += gain
        if total > best[2]:
            best = (start, place, total)
    return best


def _explained(table: Table, groups: _Groups) -> tuple[str, Table] | None:
    """The stated size that a table's times follow, with what remains; else None."""
    for (name, sense, _), rows in sorted(groups.items()):
        sizes = aligned(rows, table) if sense == "size" else None
        if sizes is None:
            continue
        of_work, of_time = _log_ratios(sizes), _log_ratios(table.values)
        if of_work.std() < THRESHOLDS.noise or of_time.std() < THRESHOLDS.noise:
            continue
        if float(np.corrcoef(of_work.ravel(), of_time.ravel())[0, 1]) >= THRESHOLDS.explained:
            slope = float((of_work * of_time).sum() / (of_work**2).sum())
            return name, table._replace(values=table.values / np.exp(slope * of_work))
    return None


def _log_ratios(values: _Floats) -> _Floats:
    """The logarithm of each value's ratio to the median of its step."""
    least = np.maximum(values, np.finfo(float).tiny)
    return np.asarray(np.log(least / np.median(least, axis=0)), dtype=np.float64)


def _stage_of(slow: Mapping[int, Stretch], table: Table, groups: _Groups) -> str:
    """The stage of a pipeline whose places are just the slow ones; empty if they are no stage's."""
    stages = next((aligned(rows, table) for key, rows in sorted(groups.items()) if key[1] == "stage"), None)
    if stages is None or not slow:
        return ""
    of_place = np.median(stages, axis=1)
    first = of_place[next(iter(slow))]
    members = set(np.flatnonzero(of_place == first).tolist())
    return f"{first:.0f}" if members == set(slow) and len(members) < len(of_place) else ""


def _is_duty(row: Measure, sense: str, slow: int) -> bool:
    """Whether a slow place is the first rank, which alone logs, evaluates and saves."""
    return sense == "work" and slow == 1 and row.part == "rank 0" and not _COMPUTES.search(row.name.lower())


def _costs(stretch: Stretch, table: Table, step: float) -> bool:
    """Whether a difference of waits costs a part of the time of all steps. ``step``: how long one
    takes without its waits, 0 if that is not known.
    """
    lost = stretch.slow * abs(stretch.own - stretch.usual)
    whole = table.values.shape[1] * (step + max(stretch.own, stretch.usual))
    return bool(lost >= THRESHOLDS.cost * whole)


def _moves_on(values: _Floats, sense: str, step: float) -> bool:
    """Whether steps last longer because another place has the most work in each. ``step``: how long
    one takes at least: a part of it may change hands at no cost.
    """
    if sense != "work" or values.shape[1] < THRESHOLDS.turns:
        return False
    usual = max(step, float(np.median(values)))
    return lost_to_moving_work(values, usual, THRESHOLDS.turns_lost) is not None


def _usual_step(groups: _Groups, unit: str) -> float:
    """The longest time of a step that is stated in this unit, in the median."""
    usual = 0.0
    for (_, sense, its_unit), rows in groups.items():
        if sense == "work" and its_unit == unit:
            values = np.concatenate([row.values for row in rows])
            usual = max(usual, float(np.median(values)))
    return usual


def _results(slow: Mapping[int, Stretch], table: Table, sense: str) -> Iterator[Result]:
    by_target: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in sorted(slow):
        row = table.rows[number]
        target = ("node", row.place.name) if row.place.name else ("rank", row.part)
        by_target[target].append(number)
    spans = []
    for (kind, name), numbers in by_target.items():
        stretch = max((slow[number] for number in numbers), key=lambda one: one.surprise)
        parts = [table.rows[number].part for number in numbers]
        is_start = stretch.first == 0 and stretch.last < THRESHOLDS.start * table.values.shape[1]
        if is_start:
            words = _words(table, numbers[0], stretch, parts)
            says = f"warms up and is slow in its first steps only: {words}"
            yield _remark("warm-up", says, (kind, name))
            continue
        spans.append((stretch.first, stretch.last, name))
        yield _result(table, numbers[0], sense, stretch, (kind, name), parts)
    if moves := _moves(sorted(spans), table):
        yield _remark("moves", f"what makes them slow moves from place to place: {moves}")


def _moves(spans: Sequence[tuple[int, int, str]], table: Table) -> str:
    """The places in turn, if they are slow one after another."""
    pairs = list(pairwise(spans))
    if not pairs or any(later[0] < before[1] for before, later in pairs):
        return ""
    return ", then ".join(f"{name} {table.span(first, last)}" for first, last, name in spans[: LIMITS.parts])


def _remark(id: str, says: str, target: tuple[str, str] = ("node", "")) -> Result:
    outcome = Outcome(id, says, 1.0)
    return Result(_CHECK, outcome, "", 0, "", target[1], target[0])


def _uneven(id: str, says: str) -> Result:
    """Work that is split unevenly, which makes steps longer and is no place's fault."""
    outcome = Outcome(id, says, THRESHOLDS.odds, categories={IMBALANCE: THRESHOLDS.odds}, adds=IMBALANCE)
    return Result(_CHECK, outcome, "", 0, "")


def _result(
    table: Table, number: int, sense: str, stretch: Stretch, target: tuple[str, str], parts: Sequence[str]
) -> Result:
    row = table.rows[number]
    category = "performance.network" if sense == "wait" else STRAGGLER
    odds = THRESHOLDS.odds
    outcome = Outcome("slow-place", _SAYS[sense], odds, categories={category: odds}, adds=category)
    words = _words(table, number, stretch, parts)
    since = table.steps[stretch.first] if table.steps else None
    return Result(_CHECK, outcome, row.path, row.line, words, target[1], target[0], iteration=since)


def _words(table: Table, number: int, stretch: Stretch, parts: Sequence[str]) -> str:
    """What a slow place states, beside the others: ``rank 5 compute_ms: 346 ms, the others 173 ms``."""
    row = table.rows[number]
    who = ", ".join(filter(None, parts[: LIMITS.parts]))
    share = stretch.slow / table.values.shape[1]
    when = "" if share >= 1 else f" in {share:.0%} of the steps"
    if when and table.steps and stretch.slow >= THRESHOLDS.mostly * (stretch.last - stretch.first + 1):
        when = f" {table.span(stretch.first, stretch.last)}"
    own, usual = in_words(stretch.own, row.unit), in_words(stretch.usual, row.unit)
    return f"{who} {row.name}: {own}, the others {usual}{when}".strip()
