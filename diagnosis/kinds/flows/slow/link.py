"""Links flows and logs: the recognised job that is this job, and the iteration of each step."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Floats
from diagnosis.kinds.flows.capture.sharing import host_of
from diagnosis.stats import median_and_spread

THRESHOLDS: Final = thresholds.of("link")

#: Number of steps by which clocks may differ, and of iterations that are compared.
MAX_STEPS_APART = 300
MAX_ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class KnownJob:
    """What is known of a job: names and addresses of its machines; epoch seconds of its begin and end, if known."""

    machines: Sequence[str]
    t0: float | None = None
    t1: float | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """One proposal: ``common`` machines of ``larger``, the larger side's; both ran from ``t0`` to ``t1`` (None if the
    job's times are not known).
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


def match_jobs(flows: Mapping[str, Any], jobs: Mapping[str, KnownJob]) -> list[Match]:
    """Proposes the job for each recognised flow job, best first; a job at most once.

    Machines are compared with machines and addresses with addresses, by the share of the larger side: two common
    addresses of two hundred prove nothing. Names recur in other clusters and years, so jobs at other times are left
    out. Linear in machines for each pair of jobs.
    """
    best: dict[str, tuple[tuple[float, ...], Match]] = {}
    sides = {job: _sides(known.machines) for job, known in jobs.items()}
    for row in flows.get("jobs", []):
        seen = _sides([*row.get("nodes", []), *(host_of(str(m)) or str(m) for m in row.get("members", []))])
        begin, end = _time(row, flows)
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
                best[job] = rank, Match(row["id"], job, common, larger, t0, t1)
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


def _time(row: Mapping[str, Any], flows: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The time of a flow job: from its first step to its last, else the whole capture."""
    steps = row.get("steps") or []
    if steps:
        return float(steps[0]["start"]), float(steps[-1]["end"])
    captures = [c for c in flows.get("captures", []) if c.get("t0") is not None and c.get("t1") is not None]
    return min((float(c["t0"]) for c in captures), default=None), max((float(c["t1"]) for c in captures), default=None)


def align_iterations(
    steps: Sequence[Mapping[str, float]], iterations: Sequence[Mapping[str, float]]
) -> dict[str, Any] | None:
    """Log iterations on the axis of flow steps: {offset_s, iteration_of_first_step, matched, spread_s}, or None if they
    do not fit.

    ``iterations`` rows hold ``n`` and ``t`` (when the line was printed). Shifts of the numbering are tried up to
    ``MAX_STEPS_APART`` steps away from where the clocks agree, on ``MAX_ITERATIONS`` iterations; the right one has the
    most constant difference between printed times and step ends, because both clocks run at the same rate.
    ``offset_s``: add it to log times.
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
    return {
        "offset_s": round(best[2], 6),
        "iteration_of_first_step": best[1],
        "matched": best[3],
        "spread_s": round(best_spread, 6),
    }


def _first_guess(ends: Floats, number: np.ndarray[Any, Any], printed: Floats, usual: float) -> int:
    """The iteration that ends with the first step if the clocks agree."""
    nearest = int(np.argmin(np.abs(printed - ends[0])))
    return int(number[nearest] - round((printed[nearest] - ends[0]) / usual))
