"""Flows beside logs: which recognised job is the job at hand, and which step is which iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diagnosis.flows.arrays import robust
from diagnosis.flows.capture import Floats

#: A flow job belongs to a job when this share of the smaller's nodes are common.
COMMON = 0.5


def match_jobs(flows: Mapping[str, Any], nodes: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Proposals which of several jobs each recognised flow job is: [{flow_job, job, score, common}], best first.

    ``nodes`` maps a job's id to its node names and addresses. The score is the share of nodes in common (Jaccard
    index); proposals below ``COMMON`` of the smaller side are not made.
    """
    found = []
    for row in flows.get("jobs", []):
        seen = {str(x) for x in [*row.get("members", []), *row.get("nodes", [])]}
        for job, names in nodes.items():
            own = {str(n) for n in names}
            common = seen & own
            smaller = min(
                len(own), max(len(row.get("nodes", [])), 1) if common & set(row.get("nodes", [])) else len(seen)
            )
            if own and len(common) >= COMMON * smaller and common:
                found.append(
                    {
                        "flow_job": row["id"],
                        "job": job,
                        "score": round(len(common) / len(own | common), 4),
                        "common": sorted(common),
                    }
                )
    return sorted(found, key=lambda f: (-float(f["score"]), f["flow_job"], f["job"]))


def align(steps: Sequence[Mapping[str, float]], iterations: Sequence[Mapping[str, float]]) -> dict[str, Any] | None:
    """Log iterations on the axis of flow steps: {offset_s, iteration_of_first_step, matched, spread_s}, or None when
    they do not fit.

    ``iterations`` rows hold ``n`` and ``t`` (when the line was printed). Every shift of the numbering is tried; the
    right one leaves the steadiest difference between printed times and step ends, since both clocks run alike.
    ``offset_s`` is what to add to log times.
    """
    ends = np.array([float(s["end"]) for s in steps])
    order = sorted(iterations, key=lambda row: row["n"])
    number = np.array([int(row["n"]) for row in order])
    printed = np.array([float(row["t"]) for row in order])
    if len(ends) < 3 or len(number) < 3:
        return None
    usual = float(np.median(np.diff(ends)))
    best: tuple[float, int, float, int] | None = None
    guess = _first_guess(ends, number, printed, usual)
    for first in range(guess - len(ends), guess + len(ends) + 1):
        at = number - first
        inside = (at >= 0) & (at < len(ends))
        if inside.sum() < max(3, 0.5 * min(len(ends), len(number))):
            continue
        apart = ends[at[inside]] - printed[inside]
        middle, spread = robust(apart)
        # Of shifts that fit alike (steady steps), the one that needs the least clock offset.
        cost = spread / usual + 0.02 * abs(middle) / usual
        if best is None or cost < best[0]:
            best = (cost, first, middle, int(inside.sum()))
            best_spread = spread
    if best is None or best_spread > 0.5 * usual:
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
