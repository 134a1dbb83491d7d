"""Unequal work that moves: in each step another place is the last, and the others wait for it.

Batches of sequences differ in their work (long documents, images beside text). A slow place is last
in step after step; with unequal work each is last in some. The lost time of a step is the wait for
its last place beyond that for the mean of all: with equal shares each would need the mean. What a
place is always later by is not counted, because that stays. Source: *Understanding Stragglers in
Large Model Training Using What-if Analysis* (arXiv 2505.05713). One function judges it for flows,
logs, traces and metrics. O(places · steps).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

type _Floats = npt.NDArray[np.float64]


def lost_to_moving_work(moments: _Floats, usual: float, least: float, places: int = 0) -> _Floats | None:
    """Seconds that each step lost because its work was shared unequally, if that is at least a share
    ``least`` of the ``usual`` step; None if it is less, or if one place is mostly the last.
    ``moments``: places by steps, when each did something, or how long it took; NaN is unknown.
    ``places``: how many share the work, if not each of these rows does.
    """
    waits = _moving_waits(moments)
    lost = np.asarray(waits.max(axis=0))
    if usual <= 0 or float(lost.mean()) / usual < least:
        return None
    share_of_one_by_turns = 1 / (places or len(waits))
    share_of_one_always = 1.0
    halfway = (share_of_one_by_turns + share_of_one_always) / 2
    return None if _strongest_share(waits, lost) > halfway else lost


def _moving_waits(moments: _Floats) -> _Floats:
    """Seconds by which each was later than the mean, less what is usual: [places, steps]."""
    is_known = ~np.isnan(moments)
    mean = np.nansum(moments, axis=0) / np.maximum(is_known.sum(axis=0), 1)
    waits = np.nan_to_num(moments - mean)
    moving = waits - np.median(waits, axis=1, keepdims=True)
    return np.asarray(np.maximum(moving - moving.mean(axis=0), 0.0))


def _strongest_share(waits: _Floats, lost: _Floats) -> float:
    """The share of the lost time in the strongest pattern of late places (those that are late
    together), by the first singular value. Each step counts with the time that it ``lost``, not
    with its square: by chance, a few long steps belong to one place. Only that value is computed:
    all of them need places² · steps.
    """
    from scipy.sparse.linalg import svds  # noqa: PLC0415  # heavy

    size = np.linalg.norm(waits, axis=0)
    if lost.sum() <= 0:
        return 1.0
    parts = waits * (np.sqrt(lost) / np.maximum(size, np.finfo(float).tiny))
    first = svds(parts, k=1, v0=np.ones(min(parts.shape)), return_singular_vectors=False)[0]
    return float(first**2 / lost.sum())
