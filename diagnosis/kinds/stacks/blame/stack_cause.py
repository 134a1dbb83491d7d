"""The category of a hang from the activity of the accused ranks (labels of ``stacks.waits``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence import StackFinding
from diagnosis.kinds.stacks.ranks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL, NOTHING

THRESHOLDS: Final = thresholds.of("stack_cause")

#: A wait for peers of which nothing says why.
_WAIT: Final = "framework.collective.timeout"
#: Words in the activity of the accused, and the cause that they show.
CAUSE_OF_WORDS: Final = {
    "waiting for its data loader": "framework.dataloader",
    "reading or writing a checkpoint": "platform.storage.outage",
    "waiting for storage or the network": "platform.storage.outage",
}
#: Without such words: the kind of the activity. A rank in communication waits for others itself.
CAUSE_OF_ACTIVITY: Final = {
    DEVICE: "hardware.gpu.kernel",
    COMPUTE: "hardware.host.stuck",
    HOST: "hardware.host.stuck",
    LOCAL: "hardware.host.stuck",
    NOTHING: "hardware.host.stuck",
}


def cause(stacks: StackFinding) -> tuple[str, float]:
    """The leaf and its probability; an empty leaf if nobody is accused and not all do the same."""
    if not (stacks.suspect_ranks or stacks.suspect_nodes):
        return _of_nobody(stacks)
    score = max((suspect.score for suspect in stacks.suspects), default=THRESHOLDS.unscored)
    leaf, share = _leaf_and_share(stacks)
    return leaf, round(share * score, 4)


def _of_nobody(stacks: StackFinding) -> tuple[str, float]:
    """The cause where nobody is accused: all wait for others, or all do what names one."""
    if stacks.common_wait:
        return _WAIT, THRESHOLDS.stopped * THRESHOLDS.activity
    done = {group.what for group in stacks.groups}
    leaf = CAUSE_OF_WORDS.get(done.pop(), "") if len(done) == 1 else ""
    return leaf, THRESHOLDS.stopped * THRESHOLDS.words if leaf else 0.0


def _leaf_and_share(stacks: StackFinding) -> tuple[str, float]:
    groups = stacks.suspect_groups
    worded = [CAUSE_OF_WORDS[group.what] for group in groups if group.what in CAUSE_OF_WORDS]
    if worded:
        return worded[0], THRESHOLDS.words
    if stacks.is_moving:
        return "performance.straggler", THRESHOLDS.words
    if set(stacks.suspect_ranks).intersection(stacks.missing_ranks):
        return "hardware.host.killed", THRESHOLDS.activity
    if stacks.collectives.mismatched or stacks.rule == "mismatch":
        return "framework.collective.mismatch", THRESHOLDS.activity
    return _of_activity(stacks, [group.activity for group in groups])


def _of_activity(stacks: StackFinding, activities: Sequence[str]) -> tuple[str, float]:
    active = [CAUSE_OF_ACTIVITY[kind] for kind in activities if kind in CAUSE_OF_ACTIVITY]
    if active:
        return active[0], THRESHOLDS.activity
    # a rank in the same call as its peers that still blocks them was stopped in it
    if COMM in activities:
        return "hardware.host.stuck", THRESHOLDS.stopped * THRESHOLDS.activity
    if stacks.collectives.host_stuck or not stacks.suspect_ranks:
        return _WAIT, THRESHOLDS.activity  # who it was is known, and not why
    return "", 0.0
