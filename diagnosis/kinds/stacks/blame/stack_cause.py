"""The category of a hang from the activity of the accused ranks (labels of ``stacks.waits``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.kinds.stacks.ranks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL, NOTHING

THRESHOLDS: Final = thresholds.of("stack_cause")

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


def cause(stacks: Mapping[str, Any]) -> tuple[str, float] | None:
    """The leaf and its probability; None if nobody is accused or all the accused only wait for others."""
    accused = set(stacks.get("suspect_ranks") or ())
    if not accused:
        return None
    score = max((float(row.get("score") or 0.0) for row in stacks.get("suspects") or ()), default=THRESHOLDS.unscored)
    groups = [g for g in stacks.get("groups") or () if accused & set(g.get("ranks") or ())]
    for group in groups:
        if group.get("what") in CAUSE_OF_WORDS:
            return CAUSE_OF_WORDS[str(group["what"])], round(THRESHOLDS.words * score, 4)
    if stacks.get("is_moving"):
        return "performance.straggler", round(THRESHOLDS.words * score, 4)
    if accused & set(stacks.get("missing_ranks") or ()):
        return "hardware.host.killed", round(THRESHOLDS.activity * score, 4)
    if (stacks.get("collectives") or {}).get("mismatched") or stacks.get("rule") == "mismatch":
        return "framework.collective.mismatch", round(THRESHOLDS.activity * score, 4)
    for group in groups:
        if group.get("activity") in CAUSE_OF_ACTIVITY:
            return CAUSE_OF_ACTIVITY[str(group["activity"])], round(THRESHOLDS.activity * score, 4)
    # a rank in the same call as its peers that still blocks them was stopped in it
    communicating = [g for g in groups if g.get("activity") == COMM]
    return (
        ("hardware.host.stuck", round(THRESHOLDS.stopped * THRESHOLDS.activity * score, 4)) if communicating else None
    )
