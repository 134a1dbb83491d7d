"""Corrects collectors whose clocks differ by seconds or hours (one in local time, one never set): the same job seems to
run twice, once on each clock. Their windows of activity have the same length and rhythm, and common addresses or
machines. The lag at which the rhythms agree is the offset; ``clocks`` corrects the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from diagnosis import thresholds
from diagnosis.kinds.flows.capture import pieces
from diagnosis.kinds.flows.capture.capture import Capture, Floats, Flows, Ints, Ints32, Offset
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.layout.clock_offsets import (
    FINE_GRID_S,
    SeenTransfers,
    collector_of,
    most_frequent_difference,
)

THRESHOLDS: Final = thresholds.of("windows")

#: Windows differ in their begin if it is by more than this, in seconds.
MIN_APART_S = 1.0
#: The most collectors and groups of them, records compared in full.
MAX_COLLECTORS = 4096
MAX_GROUPS = 16
MAX_RECORDS = 4000


@dataclass(frozen=True, slots=True)
class _Window:
    """Collectors that began together: ``rows`` of the capture, from ``begin``, for ``lasting`` seconds."""

    collectors: Ints
    rows: Ints
    begin: float
    lasting: float


def align_windows(capture: Capture) -> Capture:
    """The capture with such clocks corrected, and listed in ``Capture.clocks``; the unchanged capture if there are
    none.

    O(n log n), and nothing more than one pass where all windows begin together.
    """
    collector, names = collector_of(capture.flows, capture)
    of = capture.flows.column(np.int32, collector)
    windows = _windows(capture, of, len(names))
    if not 1 < len(windows) <= MAX_GROUPS:
        return capture
    first, *others = sorted(windows, key=lambda w: -len(w.rows))
    shift = np.zeros(len(names))
    for other in others:
        seconds = _clock_difference(capture, first, other) if _are_of_one_job(capture, first, other) else None
        if seconds is not None and abs(seconds) > MIN_APART_S:
            shift[other.collectors] = seconds
    if not shift.any():
        return capture
    flows = capture.flows
    start, end = flows.start - shift[of], flows.end - shift[of]
    origin = float(start.min())
    order = np.argsort(start, kind="stable")
    moved = replace(flows, start=start - origin, end=end - origin).take(order)
    found = [Offset(names[i], float(shift[i]), exact=False) for i in np.flatnonzero(shift)]
    return replace(capture, flows=moved, t0=capture.t0 + origin, clocks=[*capture.clocks, *found])


def _windows(capture: Capture, of: Ints32, count: int) -> list[_Window]:
    """Groups of collectors whose activity begins together, in order of time."""
    if not 1 < count <= MAX_COLLECTORS:
        return []
    counts = np.zeros(count, np.int64)
    for piece in pieces.pieces_of(len(of)):
        counts += np.bincount(of[piece], minlength=count)
    begin, last = _at_ranks(of, capture.flows, np.stack([counts // 100, counts - 1 - counts // 100]))
    usual = float(np.nanmedian(last - begin))
    ordered = [int(i) for i in np.argsort(begin) if counts[i]]
    groups: list[list[int]] = []
    for i in ordered:
        if groups and begin[i] - begin[groups[-1][-1]] <= max(MIN_APART_S, THRESHOLDS.min_apart_share * usual):
            groups[-1].append(i)
        else:
            groups.append([i])
    if len(groups) < 2:
        return []
    return [_window(np.array(g), np.flatnonzero(np.isin(of, g)), capture) for g in groups]


def _at_ranks(of: Ints32, flows: Flows, ranks: Ints) -> Floats:
    """The start of each collector's record of some ranks (from 0 on) in order of time, one row a rank; NaN without
    records.
    """
    found = np.full(ranks.shape, np.nan)
    before = np.zeros(ranks.shape[1], np.int64)
    for starts, cuts in flows.each(_by_collector, ranks.shape[1], beside=[of]):
        counts = np.diff(cuts)
        for at, rank in zip(found, ranks, strict=True):
            here = (rank >= before) & (rank < before + counts)
            at[here] = starts[(cuts[:-1] + rank - before)[here]]
        before += counts
    return found


@partition
def _by_collector(part: Flows, of: Ints32, count: int) -> tuple[Floats, Ints]:
    """The starts of the records, each collector's in order of time, and where each collector's begin."""
    order = pieces.order_of(of, count)  # records stay sorted by start within a collector
    return part.start[order], np.searchsorted(of[order], np.arange(count + 1))


def _window(who: Ints, rows: Ints, capture: Capture) -> _Window:
    """From the first to the last of most records: monitoring traffic before and after does not count."""
    first, last = (float(capture.flows.start[rows[at]]) for at in (len(rows) // 100, len(rows) - 1 - len(rows) // 100))
    return _Window(who, rows, first, last - first)


def _are_of_one_job(capture: Capture, a: _Window, b: _Window) -> bool:
    """True if both windows are equally long and an address that sends in one receives in the other, or most machines of
    the smaller are machines of the other.
    """
    if not a.lasting or abs(b.lasting / a.lasting - 1) > THRESHOLDS.max_length_difference:
        return False
    flows = capture.flows
    ends = [(np.unique(flows.src[w.rows]), np.unique(flows.dst[w.rows])) for w in (a, b)]
    for (sends, _), (_, hears) in (ends, ends[::-1]):
        if len(np.intersect1d(sends, hears)) >= max(1, 0.1 * min(len(sends), len(hears))):
            return True
    nodes = [capture.nodes_of(sends) for sends, _ in ends]
    return len(nodes[0] & nodes[1]) >= max(2, 0.5 * min(len(nodes[0]), len(nodes[1])))


def _clock_difference(capture: Capture, a: _Window, b: _Window) -> float | None:
    """How far b's clock is ahead, if the two rhythms agree at some lag; else None."""
    width = max(1.2 * a.lasting / THRESHOLDS.window_bins, 2 * capture.resolution_s)
    beats = [_rhythm(capture.flows.end[w.rows] - w.begin, width) for w in (a, b)]
    size = 4 * THRESHOLDS.window_bins
    x, y = (np.fft.rfft(beat, size) for beat in beats)
    likeness = np.fft.irfft(np.conj(x) * y, size)
    lag = int(likeness.argmax())
    if likeness[lag] < THRESHOLDS.min_correlation:
        return None
    rough: float = b.begin - a.begin + (lag if lag < size // 2 else lag - size) * width
    return rough + _refine_offset(capture, a, b, rough, width)


def _rhythm(moment: Floats, width: float) -> Floats:
    """Activity in bins, without its mean, as a unit vector; neighbouring bins blended."""
    bins = (moment / width).astype(np.int64)
    beat = np.sqrt(np.bincount(bins[(bins >= 0) & (bins < THRESHOLDS.window_bins)], minlength=THRESHOLDS.window_bins))
    beat = beat + 0.5 * (np.roll(beat, 1) + np.roll(beat, -1))
    beat -= beat.mean()
    return np.asarray(beat / max(float(np.linalg.norm(beat)), 1e-12))


def _refine_offset(capture: Capture, a: _Window, b: _Window, rough: float, width: float) -> float:
    """The correction of the offset found on bins, from the ends of equal transfers."""
    transfers = []
    for w, moved in ((a, 0.0), (b, rough)):
        rows = w.rows[max(0, (len(w.rows) - MAX_RECORDS) // 2) :][:MAX_RECORDS]
        order = np.argsort(capture.flows.end[rows])
        transfers.append(
            SeenTransfers(capture.flows.end[rows][order] - moved, np.nan_to_num(capture.flows.size[rows][order]))
        )
    fine = most_frequent_difference(transfers[0], transfers[1], max(FINE_GRID_S, 2 * capture.resolution_s), sharp=False)
    return fine if fine is not None and abs(fine) <= 2 * width else 0.0
