"""Phase 3a: the boundaries between training steps, from the traffic that paces the job.

Two laws hold for every framework: every step moves the same bytes, and steps follow each other without holes. They
judge each possible cut of the traffic. Cuts are tried at idle gaps of growing length (``cut_by_gaps``). If
communication fills the step (ZeRO-3, context parallelism), no gap is long enough, and the repeating pattern of bursts
is followed instead (``pattern.cut_by_pattern``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.ndimage import median_filter

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Flows, Ints, distinct_sizes
from diagnosis.values.stats import median_and_spread

THRESHOLDS: Final = thresholds.of("segment")

#: Cuts with fewer boundaries are doubted.
MIN_BOUNDARIES = 6
#: Parts this even leave no doubt about which records count.
CERTAIN_UNEVEN = 0.002
#: Records from which the usual length is taken, evenly spread.
SAMPLE_LENGTHS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Cut:
    """Step boundaries: ``stop[i]`` the last activity before boundary i, ``begin[i]`` the first after it; seconds of
    the capture.

    ``odd_share``: the share of parts whose bytes differ by more than the parts' usual scatter; ``outside`` the share of
    all bytes that lies before the first or after the last boundary, beyond a whole step on either side.
    """

    stop: Floats
    begin: Floats
    uneven_bytes: float
    uneven_time: float
    odd_share: float
    outside: float
    how: str

    @property
    def is_believable(self) -> bool:
        """True if the parts obey both laws."""
        even = self.uneven_bytes <= THRESHOLDS.max_uneven_bytes and self.uneven_time <= THRESHOLDS.max_uneven_time
        return len(self.stop) >= 3 and even and self.outside <= THRESHOLDS.max_outside_share


def volumes(flows: Flows, has_bytes: bool) -> Floats:
    """The quantity that is equal in each step: bytes, or the number of records if bytes are unknown."""
    return np.nan_to_num(flows.size) if has_bytes else np.ones(len(flows))


def moved_before(flows: Flows, moments: Floats, has_bytes: bool) -> Floats:
    """The volume of the records that begin before each moment."""
    rows = np.searchsorted(flows.start, moments)
    moved, total = np.zeros(len(rows)), 0.0
    for piece, part in flows.parts():
        running = total + np.append(0.0, np.cumsum(volumes(part, has_bytes)))
        here = (rows >= piece.start) & ((rows < piece.stop) | (piece.stop == len(flows)))
        moved[here] = running[rows[here] - piece.start]
        total = float(running[-1])
    return moved


def is_plain(flows: Flows) -> Callable[[Flows], Bools]:
    """Which records pace the steps: not those so long that they must be several transfers merged by the exporter (they
    would bridge every gap), and not the smallest ones that together move very little (a loss that is sent every tenth
    step).
    """
    if len(flows) < 20:
        return all_records
    some = (
        flows.take(np.arange(0, len(flows), -(-len(flows) // SAMPLE_LENGTHS))) if len(flows) > SAMPLE_LENGTHS else flows
    )
    most = max(4.0 * float(np.quantile(some.end - some.start, 0.9)), 1e-9)
    sizes, times = pieces.add_counts(flows.each(distinct_sizes, None))
    if not np.isfinite(sizes).all():
        return lambda part: np.asarray(part.end - part.start <= most)
    # A long record of a usual size is one transfer that waited, not several.
    is_usual = times >= max(5, int(0.002 * len(flows)))
    moved = np.cumsum(sizes * times)
    least = sizes[np.searchsorted(moved, THRESHOLDS.max_ignored_share * moved[-1])]

    def plain(part: Flows) -> Bools:
        keep = part.end - part.start <= most
        long = np.flatnonzero(~keep)
        keep[long] = is_usual[np.searchsorted(sizes, part.size[long])]
        return np.asarray(keep & (part.size >= least))

    return plain


@dataclass(frozen=True, slots=True)
class Bursts:
    """The busy times of plain records, and what they move: ``start`` and ``stop`` of each; ``total``: the volume before
    each burst, and at last all of it; ``records``: how many they are.
    """

    start: Floats
    stop: Floats
    total: Floats
    records: int

    @property
    def gaps(self) -> tuple[Floats, Floats]:
        """The idle times between them: (end of activity, next start)."""
        return self.stop[:-1], self.start[1:]

    def before(self, begin: Floats) -> Floats:
        """The volume before bursts that begin at these times."""
        return self.total[np.searchsorted(self.start, begin)]


def all_records(part: Flows) -> Bools:
    """All records, for where long ones are transfers that waited."""
    return np.ones(len(part), dtype=bool)


def bursts_of(flows: Flows, has_bytes: bool, since: float = -np.inf, *, is_every: bool = False) -> Bursts:
    """The bursts of the plain records (or of all, if ``is_every``) that begin ``since`` then. O(n log n); a few numbers
    a burst in memory.
    """
    plain = all_records if is_every else is_plain(flows)
    records = 0
    starts, stops, moved = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    until, first = -np.inf, int(np.searchsorted(flows.start, since))
    for piece in pieces.pieces_of(len(flows) - first):
        part = flows.take(slice(first + piece.start, first + piece.stop))
        part = part.take(plain(part))
        records += len(part)
        if not len(part):
            continue
        busy = np.maximum.accumulate(np.append(until, part.end))
        fresh = np.flatnonzero(part.start > busy[:-1])
        volume = volumes(part, has_bytes)
        if len(fresh) == 0 or fresh[0] > 0:  # the last burst of the piece before goes on
            moved[-1][-1:] += volume[: fresh[0] if len(fresh) else None].sum()
        if len(fresh):
            starts.append(part.start[fresh])
            moved.append(np.add.reduceat(volume, fresh))
            stops.append(busy[:-1][fresh[1:] if until == -np.inf else fresh])
        until = float(busy[-1])
    if until > -np.inf:
        stops.append(np.array([until]))
    return Bursts(
        np.concatenate(starts), np.concatenate(stops), np.append(0.0, np.cumsum(np.concatenate(moved))), records
    )


def judge(bursts: Bursts, stop: Floats, begin: Floats, how: str) -> Cut:
    """Applies both laws to the parts between boundaries, without the first and the last."""
    running = bursts.total
    total = bursts.before(begin)
    moved = np.diff(total)
    lasting = np.diff(stop)
    if len(moved) < 2 or np.median(moved) <= 0 or np.median(lasting) <= 0:
        return Cut(stop, begin, np.inf, np.inf, 1.0, 1.0, how)
    low, middle, high = np.quantile(moved, [0.1, 0.5, 0.9])
    usual = median_and_spread(moved)[1] / middle
    odd_share = float((np.abs(moved / middle - 1.0) > max(0.08, 4.0 * min(usual, 0.1))).mean())
    outside = (max(0.0, total[0] - middle) + max(0.0, running[-1] - total[-1] - middle)) / running[-1]
    uneven = float((high - low) / (2.56 * middle))
    # Parts that differ strongly from the next one: a slow stretch has two such places, alternating short and long parts
    # have them everywhere.
    leaps = np.abs(np.diff(np.log(np.maximum(lasting, 1e-9)))) > THRESHOLDS.leap_log
    return Cut(stop, begin, uneven, float(leaps.mean()) if len(leaps) else 0.0, odd_share, float(outside), how)


def cut_by_gaps(flows: Flows, has_bytes: bool) -> Cut | None:
    """Cuts at all idle gaps longer than some length; the length is tried wherever the sorted gaps make a jump.

    Of the plausible cuts the one with the fewest odd parts wins, and of equals the finest, because a coarser one only
    joins whole steps. Odd parts of the winner are repaired. O(n log n).

    A long record may be several merged ones, or one transfer that waited: the second reading is tried where the first
    one shows odd parts, few parts or none. It is right as well where its bytes are much more even in as many parts.
    """
    plain = bursts_of(flows, has_bytes)
    cut = _cut_by_gaps(plain)
    is_good = (
        has_bytes and cut is not None and cut.odd_share <= THRESHOLDS.max_sure_odd and len(cut.stop) >= MIN_BOUNDARIES
    )
    if plain.records == len(flows) or (is_good and cut is not None and cut.uneven_bytes <= CERTAIN_UNEVEN):
        return cut
    every = _cut_by_gaps(bursts_of(flows, has_bytes, is_every=True))
    if is_good and cut is not None:
        is_finer = every is not None and len(every.stop) >= len(cut.stop)
        return every if every is not None and is_finer and is_much_more_even(every, cut) else cut
    found = [c for c in (every, cut) if c is not None]
    return min(found, key=lambda c: (round(c.odd_share, 2), -len(c.stop)), default=None)


def is_much_more_even(every: Cut, plain: Cut) -> bool:
    """Whether all records divide the bytes much more evenly than those without the longest do: then these are transfers
    that waited.
    """
    return every.odd_share <= plain.odd_share and every.uneven_bytes <= 0.5 * plain.uneven_bytes


def _cut_by_gaps(used: Bursts) -> Cut | None:
    stops, begins = used.gaps
    gaps = begins - stops
    if len(gaps) < 3:
        return None
    falling = np.sort(gaps)[::-1][:200_000]
    jump = np.log(np.maximum(falling[:-1], 1e-9) / np.maximum(falling[1:], 1e-9))
    tried = [k for k in np.argsort(-jump)[:24] + 1 if k >= 3] + [len(gaps)]
    best: Cut | None = None
    for k in sorted({int(k) for k in tried}):
        long = gaps >= falling[min(k, len(falling)) - 1]
        cut = judge(used, stops[long], begins[long], "gaps")
        if cut.is_believable and (
            best is None or (round(cut.odd_share, 2), -len(cut.stop)) < (round(best.odd_share, 2), -len(best.stop))
        ):
            best = cut
    return _join_alternating(used, _repair(used, best)) if best is not None else None


def _join_alternating(used: Bursts, cut: Cut) -> Cut:
    """The cut of whole steps, if the parts of ``cut`` take turns: one moves more, the next less, and two together
    always the same (an exchange of experts, then of gradients). They are cut at the longer pauses.
    """
    if len(cut.stop) < THRESHOLDS.min_alternating or cut.uneven_bytes < THRESHOLDS.min_turn_uneven:
        return cut
    pause = cut.begin - cut.stop
    first = int(np.median(pause[1::2]) > np.median(pause[::2]))
    joined = judge(used, cut.stop[first::2], cut.begin[first::2], cut.how)
    is_whole = joined.is_believable and joined.odd_share <= cut.odd_share
    return joined if is_whole and joined.uneven_bytes <= THRESHOLDS.turn_ratio * cut.uneven_bytes else cut


def _repair(used: Bursts, cut: Cut) -> Cut:
    """Removes boundaries inside a step (two neighbours that together move one step's bytes) and adds one if a part, or
    what follows the last boundary, moves two.
    """
    stops, begins = used.gaps
    chosen = np.searchsorted(begins, cut.begin)
    middle = float(np.median(np.diff(used.before(cut.begin))))
    edge = used.total[1:] / middle
    kept = [int(chosen[0])]
    for index in chosen[1:]:
        part = edge[index] - edge[kept[-1]]
        if part < 0.75 and len(kept) > 1 and edge[index] - edge[kept[-2]] < 1.25:
            kept[-1] = int(index)
            continue
        if part > 1.7:
            kept.extend(_missing_gaps(edge, stops, begins, kept[-1], int(index)))
        kept.append(int(index))
    if len(kept) > 2 and edge[kept[1]] - edge[kept[0]] < 0.75 and edge[kept[2]] - edge[kept[0]] < 1.25:
        del kept[1]  # inside the first step: nothing before it that it could be joined with
    if edge[-1] - edge[kept[-1]] > 1.7:
        kept.extend(_missing_gaps(edge, stops, begins, kept[-1], len(begins)))
    at = _move_back(edge, begins - stops, np.array(kept))
    return judge(used, stops[at], begins[at], cut.how)


def _move_back(edge: Floats, gap: Floats, kept: Ints) -> Ints:
    """The boundaries, each at a gap where whole steps' bytes have moved: inside a step, a wait for a slow member may be
    longer than the pause between two steps. Unchanged if steps do not move equal bytes.

    ``edge``: the bytes moved before each gap, in steps; ``gap``: its length; ``kept``: the chosen gaps.
    """
    over = edge[kept] - np.arange(len(kept))
    usual = median_filter(over, size=min(THRESHOLDS.max_neighbours, len(over)), mode="nearest")
    middle, spread = median_and_spread(over - usual)
    if len(kept) < THRESHOLDS.min_neighbours or spread > THRESHOLDS.min_bucket_share:
        return kept
    beyond = max(THRESHOLDS.min_bucket_share / 2, min(3.0 * spread, THRESHOLDS.min_bucket_share))
    out = kept.copy()
    for k in np.flatnonzero(np.abs(over - usual - middle) > beyond):
        before, after = out[k - 1] if k else -1, kept[k + 1] if k + 1 < len(kept) else len(gap)
        inside = np.arange(before + 1, after)
        fits = inside[np.abs(edge[inside] - k - usual[k]) <= beyond]
        if len(fits):
            out[k] = fits[np.argmax(gap[fits])]
    return out


def _missing_gaps(edge: Floats, stops: Floats, begins: Floats, first: int, last: int) -> list[int]:
    """The longest gaps close to where whole steps' bytes have moved, strictly between two boundaries."""
    inside = np.arange(first + 1, last)
    moved = edge[inside] - edge[first]
    steps = np.rint(moved)
    # only steps near gaps are checked, not all that the byte counts imply: one record may state 10^15 bytes
    close = (np.abs(moved - steps) < 0.12) & (steps >= 1) & (steps < np.rint(edge[last] - edge[first]))
    gap = begins[inside] - stops[inside]
    found: list[int] = []
    for multiple in np.unique(steps[close]):
        at = np.flatnonzero(close & (steps == multiple))
        found.append(int(inside[at[np.argmax(gap[at])]]))
    return found
