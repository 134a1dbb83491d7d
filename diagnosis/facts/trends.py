"""Quantities over time: a warm-up at the start, steps that are long in turn, and levels that grow.

They are remarks. A job that warms up, saves every hundred steps or fills a cache is sound; a person
who looks for a cause wants to know. Only work that falls and stays low shows that a job is slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from diagnosis import thresholds
from diagnosis.evidence import Check, Measure, Outcome, Result
from diagnosis.facts.measure_tables import Table, table_of
from diagnosis.knowledge.knowledge_files import table
from diagnosis.values.plain import amount

THRESHOLDS: Final = thresholds.of("trends")

LIMITS: Final = thresholds.limits("trends")

_CHECK: Final = Check("trends", "The job over time", "", "", 0.0, "node", (), (), ())
_SLOW: Final = "performance.step"

type _Floats = npt.NDArray[np.float64]


class _Run(NamedTuple):
    """The value of each step, in the middle of all places; ``name``: of what."""

    name: str
    steps: Sequence[int]
    values: _Floats


def find_trends(measures: Iterable[Measure]) -> list[Result]:
    """What changes over the steps of a job, each once. O(values)."""
    groups: dict[tuple[str, str, str], list[Measure]] = defaultdict(list)
    for measure in measures:
        groups[measure.sense, measure.name, measure.unit].append(measure)
    found: dict[str, Result] = {}
    for (sense, name, _), rows in sorted(groups.items()):
        for result in _growing(name, rows) if sense == "level" else _of_times(name, sense, rows):
            found.setdefault(result.outcome.id, result)
    return list(found.values())[: LIMITS.results]


def find_drops(measures: Iterable[Measure]) -> list[Result]:
    """What a dashboard shows of work that falls and stays low, each quantity once. O(values)."""
    found: dict[str, Result] = {}
    for measure in measures:
        drop = drop_of(np.array(measure.values)) if _counts_work(measure) else None
        if drop is not None:
            before, after = map(amount, drop)
            says = f"{measure.name} falls from {before} to {after} and stays there"
            outcome = Outcome("drop", says, 1.0, categories={_SLOW: THRESHOLDS.odds}, adds=_SLOW)
            found.setdefault(says, Result(_CHECK, outcome, measure.path, 1, "", measure.place.name))
    return list(found.values())[: LIMITS.results]


def _counts_work(measure: Measure) -> bool:
    """Whether a rate is that of the job's work, and not of a device, which rests when a job ends."""
    words = set(measure.name.lower().replace("_", " ").split())
    work = table("quantities")["work_rate_name"]
    return measure.sense == "rate" and not words.isdisjoint(work)


def drop_of(values: _Floats) -> tuple[float, float] | None:
    """The usual value before and after a fall that lasts to the end; else None. O(values)."""
    count = len(values)
    if count < THRESHOLDS.steps:
        return None
    sums = np.cumsum(values)
    sizes = np.arange(1, count)
    gaps = sums[:-1] / sizes - (sums[-1] - sums[:-1]) / (count - sizes)
    at = 1 + int(np.argmax(gaps * np.sqrt(sizes * (count - sizes))))
    before, after = values[:at], values[at:]
    usual, low = float(np.median(before)), float(np.median(after))
    noise = max(_spread(before), _spread(after))
    is_long = min(len(before), len(after)) >= THRESHOLDS.lasting
    is_far = THRESHOLDS.stopped * usual < low * THRESHOLDS.drop < usual
    return (usual, low) if is_long and is_far and usual - low > THRESHOLDS.noise * noise else None


def _spread(values: _Floats) -> float:
    low, high = np.quantile(values, THRESHOLDS.usual)
    return float(high - low)


def _of_times(name: str, sense: str, rows: Sequence[Measure]) -> Iterator[Result]:
    table = table_of(rows) if sense == "work" else None
    if table is None or table.values.shape[1] < THRESHOLDS.steps:
        return
    run = _Run(name, _numbers(table), np.median(table.values, axis=0))
    if text := warm_up(run.values, run.steps):
        yield _remark("warm-up", f"the job warms up, {text}: {name}")
    if text := period(run.values, run.steps):
        yield _remark("period", f"{text}: {name}")


def _numbers(table: Table) -> Sequence[int]:
    """The numbers of a table's columns, from 1 where the places state none."""
    return table.steps or range(1, table.values.shape[1] + 1)


def warm_up(values: _Floats, steps: Sequence[int]) -> str:
    """The first steps that took longer and became shorter, in words; empty without any."""
    count = warm_up_steps(values)
    if not count:
        return ""
    times = amount(float(values[:count].mean()) / float(np.median(values[count:])))
    return f"steps {steps[0]:,} to {steps[count - 1]:,} took {times} times as long as the later ones"


def warm_up_steps(values: _Floats) -> int:
    """How many of the first steps warmed up: they took longer than nearly all later ones, from the
    beginning on, and became no longer; 0 if none did. The very first may be cut short.
    """
    if len(values) < THRESHOLDS.steps:
        return 0
    usual = float(np.median(values[len(values) // 2 :]))
    is_long = values > THRESHOLDS.longer * usual
    calm = np.convolve(~is_long[1:], np.ones(THRESHOLDS.calm), mode="valid") == THRESHOLDS.calm
    first = 1 + int(calm.argmax()) if calm.any() else len(values)
    if usual <= 0 or not THRESHOLDS.warm_steps <= first <= THRESHOLDS.warm_share * len(values):
        return 0
    half = (first + 1) // 2
    is_rising = float(np.median(values[1:half] if half > 1 else values[:1])) < float(np.median(values[half:first]))
    return 0 if is_rising or is_long[first:].mean() > THRESHOLDS.rare else first


def period(values: _Floats, steps: Sequence[int]) -> str:
    """The long steps that come at even distances, in words; empty without any."""
    usual = float(np.median(values))
    long = np.flatnonzero(values > THRESHOLDS.long * usual)
    if usual <= 0 or len(long) < THRESHOLDS.turns or len(long) > THRESHOLDS.rare * len(values):
        return ""
    gaps = np.diff(np.array(steps)[long])
    each = int(np.median(gaps))
    if each <= 1 or (gaps % each == 0).mean() < THRESHOLDS.even:
        return ""
    times = amount(float(np.median(values[long])) / usual)
    return f"every {each}{_ordinal(each)} step takes {times} times as long as the others"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _growing(name: str, rows: Sequence[Measure]) -> Iterator[Result]:
    """The places at which a level grows through the whole run."""
    growing = [row for row in rows if grows(np.array(row.values))]
    if not growing:
        return
    first = growing[0]
    unit = f" {first.unit}" if first.unit else ""
    span = f"{name} grows from {amount(first.values[0])} to {amount(first.values[-1])}{unit}"
    if len(growing) == len(rows):
        yield _remark("growth", f"{span}, at all places alike")
        return
    nodes = list(dict.fromkeys(row.place.name or row.part for row in growing))
    shown = ", ".join(nodes[: LIMITS.places])
    yield _remark("growth", f"{span} at {shown}, not at the others")


def grows(values: _Floats) -> bool:
    """Whether nearly each value is as large as the one before, and the last far above the first."""
    if len(values) < THRESHOLDS.steps:
        return False
    begin, end = float(values[0]), float(values[-1])
    is_rising = float(np.corrcoef(values, np.arange(len(values)))[0, 1]) if values.std() > 0 else 0.0
    return is_rising >= THRESHOLDS.rising and end > THRESHOLDS.growth * max(begin, 0.0) and end - begin >= 1


def _remark(id: str, says: str) -> Result:
    return Result(_CHECK, Outcome(id, says, 1.0), "", 0, "")
