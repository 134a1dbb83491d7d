"""Stores lanes of a timeline compactly: equal segments of thousands of nodes are stored once.

A node's segments are nearly always the job's stages, cut to the time in which the node wrote lines.
Folding stores only that time; unfolding restores the engine's lanes. Both are linear in lanes and
stages.
"""

from __future__ import annotations

from typing import Any

Timeline = dict[str, Any]
Segment = dict[str, Any]


def fold(timeline: Timeline) -> Timeline:
    """The timeline with ``window`` (from, to) instead of ``segments`` on each lane whose segments
    follow from it.
    """
    stages = timeline.get("stages") or []
    lanes = timeline.get("lanes") or []
    return {**timeline, "lanes": [_fold_lane(lane, stages) for lane in lanes]} if lanes else timeline


def unfold(timeline: Timeline) -> Timeline:
    """The timeline as the engine wrote it."""
    stages = timeline.get("stages") or []
    lanes = timeline.get("lanes") or []
    return {**timeline, "lanes": [_unfold_lane(lane, stages) for lane in lanes]} if lanes else timeline


def cut_stages(stages: list[Segment], window: tuple[float, float]) -> list[Segment]:
    """The stages, cut to this time window."""
    low, high = window
    return [
        stage
        if low <= stage["t0"] and stage["t1"] <= high
        else {**stage, "t0": max(stage["t0"], low), "t1": min(stage["t1"], high)}
        for stage in stages
        if max(stage["t0"], low) < min(stage["t1"], high)
    ]


def _fold_lane(lane: dict[str, Any], stages: list[Segment]) -> dict[str, Any]:
    segments = lane.get("segments")
    try:
        window = (segments[0]["t0"], segments[-1]["t1"])  # type: ignore[index]
        if segments != cut_stages(stages, window):
            return lane
    except (TypeError, KeyError, IndexError):  # no segments, or unknown times
        return lane
    return {**{name: value for name, value in lane.items() if name != "segments"}, "window": list(window)}


def _unfold_lane(lane: dict[str, Any], stages: list[Segment]) -> dict[str, Any]:
    if "window" not in lane:
        return lane
    low, high = lane["window"]
    return {**{k: v for k, v in lane.items() if k != "window"}, "segments": cut_stages(stages, (low, high))}
