"""Phase 4: what was slow, when, and which member delayed the others.

* **Steps**: longer than median + 3.5·1.4826·MAD and at least 5 % over the median. The slow steps themselves would
* change mean and standard deviation. **Groups**: a member that begins its part of the collectives late, step after
* step, delays its group (slow GPU, slow input); a unit (ring or pair) whose transfers themselves take longer while its
* peers' do not has a slow link.
  Units are compared with their own past and with their peers, so that slowness in the whole capture is found too.
* **Switches**: units that are slow at the same time are explained by an address, a machine or a switch that they share
* and unaffected ones do not. If several explain the same, all are candidates.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import close_holes, runs
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Ints
from diagnosis.kinds.flows.capture.packing import packable
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.values import stats
from diagnosis.values.plain import listed
from diagnosis.values.stats import median_and_spread

THRESHOLDS: Final = thresholds.of("slowness")
LIMITS: Final = thresholds.limits("slowness")

#: Rounds until the other steps are known.
MAX_ROUNDS = 20


@packable
@dataclass(slots=True)
class SlowReport:
    """One finding: ``kind`` slow_step, slow_group or slow_switch; times in capture seconds; members
    and culprits are address ids or names. ``measure``: its evidence: ``late`` (a member computes or
    loads longer), ``transfers``, or ``uneven``: the work is split unevenly, which is nobody's
    fault. ``shares``: the probability of each candidate. ``link``: the path between the only two
    leaves, if it is a candidate; ``candidates`` are then these leaves.
    """

    kind: str
    t0: float
    t1: float
    reason: str
    members: list[int] = field(default_factory=list)
    culprits: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    switch: str = ""
    candidates: list[str] = field(default_factory=list)
    factor: float = 1.0
    confidence: float = THRESHOLDS.confidence
    step: int | None = None
    measure: str = ""
    shares: dict[str, float] = field(default_factory=dict)
    link: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """Units that were slow at the same time from t0 to t1, and the units that were not. ``peers``: of each unit, with
    whom it was compared, where that is not its own past.
    """

    t0: float
    t1: float
    slow_units: tuple[int, ...]
    other_units: tuple[int, ...]
    factor: float
    job: int
    peers: tuple[str, ...] = ()


def slow_steps(steps: Steps) -> tuple[Bools, float, float]:
    """Which steps are slow, the median and the limit in seconds.

    Steps within the noise are slow too if many in a row are longer, so that their running median is
    beyond its own noise: else a long stretch hides itself, because it widens the noise. A step is
    not slow if a neighbour is shorter by most of its excess: their common boundary was detected too
    early or too late (lost or sampled records), and nobody waited.
    """
    seconds = steps.normalised_s
    middle, scatter = median_and_spread(seconds)
    limit = max(middle + THRESHOLDS.deviations * scatter, THRESHOLDS.longer * middle)
    missing = middle - np.minimum(np.append(np.inf, seconds[:-1]), np.append(seconds[1:], np.inf))
    shifted = (missing > THRESHOLDS.shifted * (seconds - middle)) & (missing > THRESHOLDS.shifted_deviations * scatter)
    single = (seconds > limit) & ~shifted
    return single | _lasting_rise(seconds, single, middle, scatter), middle, limit


def _lasting_rise(seconds: Floats, single: Bools, middle: float, scatter: float) -> Bools:
    """The steps of stretches in which the running median stays high."""
    out = np.zeros(len(seconds), dtype=bool)
    if len(seconds) < THRESHOLDS.medians * THRESHOLDS.median_steps:
        return out
    padded = np.pad(np.where(np.isnan(seconds), middle, seconds), THRESHOLDS.median_steps // 2, mode="edge")
    running = np.median(np.lib.stride_tricks.sliding_window_view(padded, THRESHOLDS.median_steps), axis=1)
    level, noise = median_and_spread(running)
    raised = (running > max(level + THRESHOLDS.deviations * noise, THRESHOLDS.rise * middle)) | _clearly_beyond(running)
    if raised.any():
        middle, scatter = median_and_spread(seconds[~raised])
    high = raised & (seconds > middle + max(scatter, THRESHOLDS.higher * middle))
    for first, last in runs(close_holes(high)):
        inside = slice(first, last + 1)
        if (
            last - first + 1 >= THRESHOLDS.median_steps
            and (high | single)[inside].mean() >= THRESHOLDS.filled
            and last - first + 1 <= THRESHOLDS.longest * len(out)
        ):
            out[inside] = high[inside]
    return out


def _clearly_beyond(running: Floats) -> Bools:
    """Which values are clearly beyond the level and noise of the others, at most half: a long
    stretch would widen the noise that it is judged by. Begun with the upper half, which then gives
    back what the rest explains.
    """
    high = np.asarray(running > np.median(running))
    for _ in range(MAX_ROUNDS):
        level, noise = median_and_spread(running[~high])
        now = running > max(level + THRESHOLDS.deviations * noise, THRESHOLDS.clear_rise * level)
        if np.array_equal(now, high):
            break
        high = now
    return high


def is_significant(steps: Steps, first: int, last: int) -> bool:
    """Whether steps first..last took longer, significantly and by 1.5 %: else nobody waited."""
    seconds = steps.normalised_s
    inside = np.zeros(len(seconds), dtype=bool)
    inside[first : last + 1] = True
    if inside.mean() > THRESHOLDS.most:
        return True
    middle, scatter = median_and_spread(seconds[~inside])
    excess = float(np.median(seconds[inside])) - middle
    noise = max(scatter, 1e-9) / np.sqrt(inside.sum())
    return bool(excess > THRESHOLDS.waited * middle and excess > THRESHOLDS.deviations * noise)


def slow_transfers(transfers: Transfers, steps: Steps, number: int) -> list[Episode]:
    """Episodes of transfers slower than usual, or than their peers'. O(n log n)."""
    cells = transfers.cells
    episodes: list[Episode] = []
    for kind in cells["kind"].unique().sort().to_list():
        part = cells.filter(pl.col("kind") == kind)
        units = np.unique(part["unit"].to_numpy())
        table = np.full((len(units), len(steps)), np.nan)
        table[np.searchsorted(units, part["unit"].to_numpy()), part["step"].to_numpy()] = part["slow"].to_numpy()
        episodes.extend(_episodes(running_median(table), units, steps, number))
    return episodes


def running_median(table: Floats) -> Floats:
    """Running median over three steps; single long transfers are no episode."""
    padded = np.concatenate([table[:, :1], table, table[:, -1:]], axis=1)
    three = np.sort(np.stack([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]]), axis=0)  # NaN comes last
    of_two = np.where(np.isnan(three[1]), three[0], (three[0] + three[1]) / 2.0)
    return np.asarray(np.where(np.isnan(three[2]), of_two, three[1]))


def _episodes(table: Floats, units: np.ndarray, steps: Steps, number: int) -> list[Episode]:
    """Common slowness (even the faster quarter is slow) and slowness of some units against the
    others, each as runs of steps.
    """
    found: list[Episode] = []
    calm = np.nan_to_num(table, nan=1.0)
    scatter = stats.spreads(calm, 1)
    common = np.quantile(calm, THRESHOLDS.faster, axis=0) if len(units) > 1 else np.ones(len(steps))
    noise = float(np.median(scatter))
    for first, last in runs(common > max(THRESHOLDS.factor, 1 + THRESHOLDS.common_deviations * noise)):
        if last - first + 1 >= THRESHOLDS.steps and is_significant(steps, first, last):
            factor = float(np.median(common[first : last + 1]))
            found.append(Episode(steps.start[first], steps.end[last], tuple(int(u) for u in units), (), factor, number))
    relative = calm / np.maximum(common, 1.0)
    high = relative > np.maximum(THRESHOLDS.factor, 1 + THRESHOLDS.own_deviations * scatter)[:, None]
    spans: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(high.any(axis=1)).tolist():
        for first, last in runs(close_holes(high[row])):
            if last - first + 1 >= THRESHOLDS.steps and is_significant(steps, first, last):
                near = next(
                    (s for s in spans if abs(s[0] - first) <= THRESHOLDS.begin and abs(s[1] - last) <= THRESHOLDS.end),
                    (first, last),
                )
                spans[near].append(row)
    for (first, last), rows in spans.items():
        inside = relative[:, first : last + 1]
        other_units = [
            int(units[i])
            for i in range(len(units))
            if i not in set(rows) and np.median(inside[i]) < 1 + THRESHOLDS.calm * (THRESHOLDS.factor - 1)
        ]
        factor = float(np.median(inside[rows]))
        found.append(
            Episode(
                steps.start[first],
                steps.end[last],
                tuple(int(units[r]) for r in rows),
                tuple(other_units),
                factor,
                number,
            )
        )
    return found


def lateness_by_step(late: pl.DataFrame, members: Ints, column: str, steps: int) -> Floats:
    """One measure of lateness as members × steps; NaN if nothing was seen."""
    table = np.full((len(members), steps), np.nan)
    table[np.searchsorted(members, late["src"].to_numpy()), late["step"].to_numpy()] = late[column].to_numpy()
    return table


def gather_spans(spans: list[tuple[int, int, int]], replica: list[int]) -> list[tuple[int, int, list[int]]]:
    """Spans (first step, last step, member) with the same begin and end, and overlapping ones of
    one pipeline: its stages wait for the same one, although not each is late enough in every step.
    """
    out: list[tuple[int, int, list[int]]] = []
    for first, last, row in sorted(spans, key=lambda s: (s[0] - s[1], s)):
        for at, (begin, end, rows) in enumerate(out):
            if abs(begin - first) <= THRESHOLDS.begin and abs(end - last) <= THRESHOLDS.begin:
                out[at] = begin, end, [*rows, row]
                break
            mates = replica[row] >= 0 and any(replica[other] == replica[row] for other in rows)
            if mates and first <= end + THRESHOLDS.begin and last >= begin - THRESHOLDS.begin:
                out[at] = min(begin, first), max(end, last), [*rows, row]
                break
        else:
            out.append((first, last, [row]))
    return [(first, last, sorted(set(rows))) for first, last, rows in out]


def merge_findings(found: list[SlowReport]) -> list[SlowReport]:
    """Joins findings with the same machines, or addresses, that overlap or follow closely."""
    out: list[SlowReport] = []
    for slow in sorted(found, key=lambda s: (s.t0, -s.t1)):
        for other in out:
            names = (set(slow.nodes), set(other.nodes)) if slow.nodes else (set(slow.culprits), set(other.culprits))
            same = slow.kind == other.kind and bool(names[0]) and names[0] == names[1]
            if same and slow.t0 <= other.t1 + THRESHOLDS.closely * (other.t1 - other.t0):
                other.t1 = max(other.t1, slow.t1)
                other.culprits = sorted({*other.culprits, *slow.culprits})
                other.confidence = max(other.confidence, slow.confidence)
                break
        else:
            out.append(slow)
    return out


def names_of(members: list[int], capture: Capture) -> tuple[list[str], str]:
    """The machines of some members, and a short text with their names."""
    nodes = sorted({capture.places[m].node for m in members if m in capture.places} - {""})
    shown = nodes or [capture.names[m] for m in members]
    return nodes, listed(shown, LIMITS.shown)


def group_of(member: int, layout: Layout) -> list[int]:
    """The data-parallel group of a member, or its pipeline."""
    for group in [*layout.dp_groups, *layout.pp_groups]:
        if member in group:
            return [int(m) for m in group]
    return [member]
