"""Links flows and logs: the recognised job that is this job, and the iteration of each step."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from diagnosis import thresholds
from diagnosis.evidence import FlowJob, decode
from diagnosis.evidence.decoding import ReportPart
from diagnosis.kinds.flows.capture.capture import Floats
from diagnosis.kinds.flows.capture.sharing import host_of
from diagnosis.values.stats import median_and_spread

THRESHOLDS: Final = thresholds.of("link")

#: Number of steps by which clocks may differ, and of iterations that are compared.
MAX_STEPS_APART = 300
MAX_ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class KnownJob:
    """What is known of a job: names and addresses of its machines; epoch seconds of its begin and
    end, if known.
    """

    machines: Sequence[str]
    t0: float | None = None
    t1: float | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """One proposal: ``common`` machines of ``larger``, the larger side's; both ran from ``t0`` to
    ``t1`` (None if the job's times are not known).
    """

    flow_job: str
    job: str
    common: int
    larger: int
    t0: float | None
    t1: float | None

    @property
    def score(self) -> float:
        """The share of the larger side's machines in common, in [0, 1]."""
        return self.common / self.larger


class CaptureTimes(msgspec.Struct, frozen=True):
    """When the records of one capture begin and end."""

    begin: float | None = msgspec.field(name="t0", default=None)
    end: float | None = msgspec.field(name="t1", default=None)


class LinkedFlows(msgspec.Struct, frozen=True):
    """What is read of a report's ``flows``."""

    jobs: tuple[FlowJob, ...] = ()
    captures: tuple[CaptureTimes, ...] = ()


class Alignment(msgspec.Struct, frozen=True):
    """Log iterations on the axis of flow steps. ``offset_s``: add it to the times of the logs;
    ``matched`` iterations lie within ``spread_s`` of the end of their step.
    """

    offset_s: float
    iteration_of_first_step: int
    matched: int
    spread_s: float


def match_jobs(flows: ReportPart, jobs: Mapping[str, KnownJob]) -> list[Match]:
    """Proposes the job for each recognised flow job, best first; a job at most once.

    Machines are compared with machines and addresses with addresses, by the share of the larger
    side: two common addresses of two hundred prove nothing. Names recur in other clusters and
    years, so jobs at other times are left out. Linear in machines for each pair of jobs.
    """
    best: dict[str, tuple[tuple[float, ...], Match]] = {}
    sides = {job: _sides(known.machines) for job, known in jobs.items()}
    linked = decode(flows, LinkedFlows)
    for row in linked.jobs:
        seen = _sides([*row.nodes, *(host_of(member) or member for member in row.members)])
        begin, end = _time(row, linked.captures)
        for job, known in jobs.items():
            common, larger = max(
                ((len(own & other), max(len(own), len(other))) for own, other in zip(sides[job], seen, strict=True)),
                key=lambda pair: pair[0] / max(1, pair[1]),
            )
            if not common or common < THRESHOLDS.machines * larger:
                continue
            t0, t1 = None, None
            if begin is not None and end is not None and (known.t0 is not None or known.t1 is not None):
                first = begin if known.t0 is None else known.t0
                last = end if known.t1 is None else known.t1
                t0, t1 = max(begin, first), min(end, last)
                if t1 < t0 or t1 - t0 < THRESHOLDS.time * min(end - begin, last - first):
                    continue
            rank = (common / larger, (t1 or 0.0) - (t0 or 0.0))
            if job not in best or rank > best[job][0]:
                best[job] = rank, Match(row.id, job, common, larger, t0, t1)
    ranked = sorted(best.values(), key=lambda one: one[1].job)
    ranked.sort(key=lambda one: one[0], reverse=True)
    return [match for _, match in ranked]


def _sides(names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Machine names (without their domain, which not every source gives) and addresses."""
    machines: set[str] = set()
    addresses: set[str] = set()
    for name in names:
        try:
            addresses.add(str(ipaddress.ip_address(name)))
        except ValueError:
            machines.add(name.lower())
    short = {name.partition(".")[0] for name in machines} - {""}
    return short if len(short) == len(machines) else machines, addresses


def _time(row: FlowJob, captures: Sequence[CaptureTimes]) -> tuple[float | None, float | None]:
    """The time of a flow job: from its first step to its last, else the whole capture."""
    if row.steps:
        return row.steps[0].start, row.steps[-1].end
    spans = [(one.begin, one.end) for one in captures if one.begin is not None and one.end is not None]
    begins, ends = [begin for begin, _ in spans], [end for _, end in spans]
    return min(begins, default=None), max(ends, default=None)


def align_iterations(
    steps: Sequence[Mapping[str, float]], iterations: Sequence[Mapping[str, float]]
) -> Alignment | None:
    """Log iterations on the axis of flow steps, or None if they do not fit.

    ``iterations`` rows hold ``n`` and ``t`` (when the line was printed). Shifts of the numbering
    are tried up to ``MAX_STEPS_APART`` steps away from where the clocks agree, on
    ``MAX_ITERATIONS`` iterations; the right one has the most constant difference between printed
    times and step ends, because both clocks run at the same rate.
    """
    ends = np.array([float(s["end"]) for s in steps])
    order = sorted(iterations, key=lambda row: row["n"])
    number = np.array([int(row["n"]) for row in order])
    printed = np.array([float(row["t"]) for row in order])
    if min(len(ends), len(number)) < THRESHOLDS.steps:
        return None
    usual = float(np.median(np.diff(ends)))
    best: tuple[float, int, float, int] | None = None
    guess, reach = _first_guess(ends, number, printed, usual), min(len(ends), MAX_STEPS_APART)
    near = np.flatnonzero((number >= guess - reach) & (number < guess + len(ends) + reach))[:MAX_ITERATIONS]
    number, printed = number[near], printed[near]
    for first in range(guess - reach, guess + reach + 1):
        at = number - first
        inside = (at >= 0) & (at < len(ends))
        if inside.sum() < max(THRESHOLDS.steps, THRESHOLDS.matched * min(len(ends), len(number))):
            continue
        differences = ends[at[inside]] - printed[inside]
        middle, spread = median_and_spread(differences)
        # Of shifts that fit equally (constant steps), the one with the least clock offset.
        cost = spread / usual + THRESHOLDS.clock_cost * abs(middle) / usual
        if best is None or cost < best[0]:
            best = (cost, first, middle, int(inside.sum()))
            best_spread = spread
    if best is None or best_spread > THRESHOLDS.scatter * usual:
        return None
    return Alignment(round(best[2], 6), best[1], best[3], round(best_spread, 6))


def _first_guess(ends: Floats, number: np.ndarray[Any, Any], printed: Floats, usual: float) -> int:
    """The iteration that ends with the first step if the clocks agree."""
    nearest = int(np.argmin(np.abs(printed - ends[0])))
    return int(number[nearest] - round((printed[nearest] - ends[0]) / usual))
