"""Bayesian online change-point detection (Adams & MacKay 2007) for many sequences at once.

Normal observations with unknown mean and variance (normal-inverse-gamma prior), constant hazard, run length capped:
the tail beyond the cap is merged into its last cell, so that the cost a point is O(cap) for any length. All sequences
advance together as one array.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from diagnosis import thresholds
from diagnosis.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("changepoint")
LIMITS: Final = thresholds.limits("changepoint")

Array = npt.NDArray[np.float64]


def run_length_posterior(
    series: Array, *, hazard: float = THRESHOLDS.hazard, cap: int = LIMITS.cap, recent: int = 1
) -> tuple[Array, Array]:
    """P(run length ≤ ``recent``) and the predictive mean before each point, for ``series`` of shape [sequences,
    points].

    Values should be scaled to about unit scatter. NaN points are skipped (the state waits). P(run length = 0) alone
    is constantly the hazard in this recursion, hence ``recent`` ≥ 1. O(sequences · points · cap).
    """
    count, length = series.shape
    belief = np.zeros((count, cap))
    belief[:, 0] = 1.0
    mean0, kappa0, alpha0, beta0 = THRESHOLDS.prior
    mean = np.full((count, cap), mean0)
    kappa = np.full((count, cap), kappa0)
    alpha = np.full((count, cap), alpha0)
    beta = np.full((count, cap), beta0)
    recently = np.zeros((count, length))
    expected = np.full((count, length), np.nan)
    for t in range(length):
        x = series[:, t]
        seen = np.isfinite(x)
        value = np.where(seen, x, 0.0)[:, None]
        expected[:, t] = (belief * mean).sum(axis=1)
        likely = _student(value, mean, alpha, beta * (kappa + 1) / (kappa * alpha))
        grown = belief * likely * (1 - hazard)
        fresh = (belief * likely).sum(axis=1) * hazard
        moved = np.empty_like(belief)
        moved[:, 0] = fresh
        moved[:, 1:] = grown[:, :-1]
        moved[:, -1] += grown[:, -1]
        moved /= np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
        updated = (
            (kappa * mean + value) / (kappa + 1),
            kappa + 1,
            alpha + 1 / 2,
            beta + kappa * (value - mean) ** 2 / (2 * (kappa + 1)),
        )
        belief = np.where(seen[:, None], moved, belief)
        mean, kappa, alpha, beta = (
            np.where(seen[:, None], _shift_runs(new, first), old)
            for new, first, old in zip(updated, (mean0, kappa0, alpha0, beta0), (mean, kappa, alpha, beta), strict=True)
        )
        recently[:, t] = belief[:, : recent + 1].sum(axis=1)
    return recently, expected


def _student(x: Array, mean: Array, alpha: Array, scale: Array) -> Array:
    """Density of Student's t with 2α degrees of freedom."""
    free = 2 * alpha
    log = gammaln((free + 1) / 2) - gammaln(free / 2) - np.log(np.pi * free * scale) / 2
    return np.asarray(np.exp(log - (free + 1) / 2 * np.log1p((x - mean) ** 2 / (free * scale))))


def _shift_runs(updated: Array, first: float) -> Array:
    """Every run one longer; a new run begins from the prior; the last cell keeps the longest run's statistics."""
    out = np.empty_like(updated)
    out[:, 0] = first
    out[:, 1:] = updated[:, :-1]
    return out


def onsets(
    values: Array, *, sure: float = THRESHOLDS.sure, rise: float = THRESHOLDS.rise, recent: int = 2
) -> list[int]:
    """The points where a sequence rises and stays high: upward shifts of at least ``rise`` (share of the level before),
    in order. A change counts if P(run length ≤ ``recent``) > ``sure`` after a warm-up and the next points stay above
    the level before.
    """
    finite = values[np.isfinite(values)]
    if len(finite) < THRESHOLDS.points:
        return []
    middle = float(np.median(finite))
    scatter = max(MAD_TO_SIGMA * float(np.median(np.abs(finite - middle))), THRESHOLDS.noise * abs(middle), 1e-12)
    likely, _ = run_length_posterior(((values - middle) / scatter)[None, :], recent=recent)
    found: list[int] = []
    for t in np.flatnonzero(likely[0] > sure):
        if t < recent + THRESHOLDS.apart:
            continue
        first = int(t) - recent
        at = first + int(np.argmax(np.diff(values[first - 1 : int(t) + 1])))
        if at < recent + THRESHOLDS.apart or (found and at - found[-1] < recent + THRESHOLDS.apart):
            continue
        before, after = values[max(0, at - THRESHOLDS.before) : at], values[at : at + THRESHOLDS.after]
        if len(after) >= THRESHOLDS.shown and np.nanmedian(after) >= (1 + rise) * np.nanmedian(before):
            found.append(at)
    return found
