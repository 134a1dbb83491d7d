"""A node that wrote regularly writes nothing, while the others go on."""

from __future__ import annotations

from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.live.alarms import Alarm
from diagnosis.live.job_state import TRAINING, JobState
from diagnosis.live.observation import Count
from diagnosis.live.range_effect import RangeEffect
from diagnosis.live.site_absence import is_catching_up
from diagnosis.live.site_time import Moment
from diagnosis.values.plain import listed

THRESHOLDS: Final = thresholds.of("silent")

id: Final = "silent"
why: Final = "a machine that is lost writes nothing, and its own gaps say how long it is usually quiet"
category: Final = "hardware.host.lost"

#: Nodes that are kept.
MAX_NODES: Final = 4_096
MAX_NAMED: Final = 4


class NodeLines(msgspec.Struct, frozen=True, array_like=True):
    """When a node wrote: the job's count at that time, and the moment; its longest gap in counts of
    the job, and the number of ranges with lines of it.
    """

    last_count: Count
    last_at: Moment
    longest_gap: Count
    ranges: Count


class SilentState(msgspec.Struct):
    """``count``: the job's counts but after announced pauses; ``nodes``: node -> its lines."""

    count: Count = 0
    nodes: dict[str, NodeLines] = {}


record: Final = SilentState


def learn(state: SilentState, job: JobState, effect: RangeEffect) -> None:
    """Remember when each node wrote last, and its longest gap. Gaps are counted in counts of the
    job, so that evaluations and restarts, where all are quiet, do not lengthen them.
    """
    state.count += sum(pause.stage == TRAINING for pause in effect.pauses)
    for name in effect.observation.writers:
        known = state.nodes.get(name)
        if known is not None:
            gap = max(known.longest_gap, state.count - known.last_count)
            state.nodes[name] = NodeLines(state.count, effect.now, gap, known.ranges + 1)
        elif len(state.nodes) < MAX_NODES:
            state.nodes[name] = NodeLines(state.count, effect.now, 0, 1)


def find_alarm(state: SilentState, job: JobState, now: float) -> Alarm | None:
    """Nodes that have been silent for long while the job goes on and most others write."""
    if is_catching_up(job, now):
        return job.open_alarm(id)
    known = {name: node for name, node in state.nodes.items() if node.ranges >= THRESHOLDS.ranges}
    if len(known) < THRESHOLDS.nodes or job.stage_now != TRAINING:
        return None
    silent_nodes = {name for name, node in known.items() if _is_silent(state, node, now)}
    if not silent_nodes or len(silent_nodes) > THRESHOLDS.share * len(known):
        return None
    since = min(known[name].last_at for name in silent_nodes)
    others = [node for name, node in known.items() if name not in silent_nodes]
    writing = sum(node.last_at > since for node in others)
    if writing < len(others) / 2:
        return None
    names = listed(sorted(silent_nodes), MAX_NAMED)
    text = f"{names} stopped writing; {writing:,} of {len(known):,} nodes continue."
    return Alarm(id, text, since, category)


def _is_silent(state: SilentState, node: NodeLines, now: float) -> bool:
    """Whether a node has been silent for longer than it usually is."""
    usual_counts = THRESHOLDS.counts + THRESHOLDS.gaps * node.longest_gap
    is_gap_long = state.count - node.last_count > usual_counts
    return bool(is_gap_long and now - node.last_at > THRESHOLDS.silence_s)
