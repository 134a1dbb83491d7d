"""Separates jobs that follow each other on the same machines: one component of addresses, but other pairs or other
sizes.

A restarted job keeps its pairs; a job that loses a machine keeps most of them. Another job on the same machines uses
other pairs, or moves other sizes on the same pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.arrays import idle_gaps
from diagnosis.kinds.flows.capture.capture import Capture, Ints
from diagnosis.kinds.flows.jobs.jobs import JobFlows, recognise

THRESHOLDS: Final = thresholds.of("successive_jobs")

#: Number of longest pauses that are tried, and the maximum number of jobs in sequence.
MAX_PAUSES = 6
MAX_JOBS = 8
#: Records that are compared, evenly spread.
SAMPLE_RECORDS = 150_000


def split_successive(job: JobFlows, capture: Capture) -> list[JobFlows]:
    """The jobs that one component of addresses ran one after another, mostly one. O(n log n) in records."""
    parts = [job]
    for _ in range(MAX_JOBS):
        cut = [(i, at) for i, part in enumerate(parts) if (at := _turning_row(part, capture)) is not None]
        if not cut:
            break
        i, at = cut[0]
        turn = float(parts[i].flows.start[at])
        parts[i : i + 1] = [
            *_jobs_within(job, capture, -np.inf, turn, parts[i]),
            *_jobs_within(job, capture, turn, np.inf, parts[i]),
        ]
    return parts


def _jobs_within(job: JobFlows, capture: Capture, t0: float, t1: float, part: JobFlows) -> list[JobFlows]:
    """The jobs of addresses in a part of the time, recognised again: pairs may change jobs."""
    flows = capture.flows
    own = np.zeros(len(capture.names), dtype=bool)
    own[job.members] = True
    first, last = max(t0, float(part.flows.start[0])), min(t1, float(part.flows.start[-1]))
    rows = own[flows.src] & own[flows.dst] & (flows.start >= first) & (flows.start <= last) & (flows.start < t1)
    return recognise(replace(capture, flows=flows.take(rows))).jobs


def _turning_row(job: JobFlows, capture: Capture) -> int | None:
    """The row after the pause with the most different sides; None if all rows belong to one job."""
    flows = job.flows
    stops, begins = idle_gaps(flows.start, flows.end)
    longest = np.argsort(stops - begins)[:MAX_PAUSES]
    at = np.searchsorted(flows.start, begins[longest])
    # Pauses of training are similar; between two jobs there is a start-up.
    usual = float(np.median((begins - stops)[longest])) if len(longest) else 0.0
    best: tuple[float, int] | None = None
    for row, gap in zip(at.tolist(), (begins - stops)[longest].tolist(), strict=True):
        if (
            not THRESHOLDS.min_side_share * len(flows) <= row <= (1 - THRESHOLDS.min_side_share) * len(flows)
            or gap < usual
        ):
            continue
        similarity = _similarity(job, row, capture)
        if similarity < 1.0 and (best is None or similarity < best[0]):
            best = similarity, row
    return None if best is None else best[1]


def _similarity(job: JobFlows, row: int, capture: Capture) -> float:
    """The common part of both sides of a row, relative to that of one job with itself; 1 and more: one job."""
    every = max(1, len(job.flows) // SAMPLE_RECORDS)
    flows, row = job.flows.take(np.arange(0, len(job.flows), every)), -(-row // every)
    count = len(capture.names)
    volume = np.nan_to_num(flows.size) if capture.has_bytes else np.ones(len(flows))
    key = np.minimum(flows.src, flows.dst).astype(np.int64) * count + np.maximum(flows.src, flows.dst)
    pairs: float = _overlap(key, volume, row) / THRESHOLDS.min_common_pairs
    before, after = (np.union1d(flows.src[part], flows.dst[part]) for part in (slice(row), slice(row, None)))
    if pairs < 1 or not capture.has_bytes or not np.array_equal(before, after):
        return pairs
    steady = (
        _has_steady_size(flows.start[:row], flows.size[:row]),
        _has_steady_size(flows.start[row:], flows.size[row:]),
    )
    sides = (slice(row), slice(row, None))
    if any(volume[side][kept].sum() <= 0.5 * volume[side].sum() for side, kept in zip(sides, steady, strict=True)):
        return 1.0
    sizes = np.round(np.log(np.maximum(np.nan_to_num(flows.size), 1.0)) / 0.01).astype(np.int64)
    return float(_overlap(sizes, volume, row) / THRESHOLDS.min_common_sizes)


def _overlap(key: Ints, volume: np.ndarray, row: int) -> float:
    """The overlap of two distributions of bytes over keys, before and after a row: 0 to 1."""
    _, code = np.unique(key, return_inverse=True)
    total = int(code.max()) + 1
    first, second = (np.bincount(code[part], volume[part], total) for part in (slice(row), slice(row, None)))
    return float(np.minimum(first / max(first.sum(), 1.0), second / max(second.sum(), 1.0)).sum())


def _has_steady_size(start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Records of a size that is seen in several slices of the time: lengths of sequences that vary are not."""
    span = max(float(start[-1] - start[0]), 1e-9)
    table = pl.DataFrame({"size": size, "slice": ((start - start[0]) / span * THRESHOLDS.time_slices).astype(np.int64)})
    return table.select(pl.col("slice").n_unique().over("size") >= THRESHOLDS.time_slices // 3)["slice"].to_numpy()
