"""Actions without success: the advice continues with the next rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

ACTIONS = {
    "none": "No action",
    "evict": "Evict",
    "over_evict": "Evict the whole group",
    "stop_time_check": "Stop-time checks",
    "reattempt": "Reattempt",
    "rollback": "Roll back code",
    "replay": "Dual-phase replay",
    "fix_input": "Correct the input",
    "free_space": "Free space",
    "use_less_memory": "Use less memory",
    "fix_code": "Correct the code",
    "fix_setup": "Make the set-ups equal",
    "resubmit": "Resubmit",
    "collect": "Collect more evidence",
    "ask_human": "A person decides",
}
#: Actions that an engineer can carry out; the others change nothing.
EXECUTABLE_ACTIONS = tuple(action for action in ACTIONS if action not in {"none", "collect", "ask_human"})
EVICTING_ACTIONS = frozenset({"evict", "over_evict"})


class TriedAction(msgspec.Struct, frozen=True):
    """An action that was carried out in this episode and after which the job failed again."""

    action: str
    targets: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """``Evict (node-3)``."""
        some = sorted(self.targets)
        shown = ", ".join(some[:4]) + (f" and {len(some) - 4} more" if len(some) > 4 else "")
        return f"{ACTIONS.get(self.action, self.action)}{f' ({shown})' if some else ''}"


def tried_actions(rows: Iterable[Any]) -> list[TriedAction]:
    """Names of actions, or ``{"action": …, "targets": […]}``."""
    return [
        TriedAction(str(row["action"]), frozenset(map(str, row.get("targets") or ())))
        if isinstance(row, Mapping)
        else TriedAction(str(row))
        for row in rows
    ]


def removed_machines(tried: Iterable[TriedAction]) -> frozenset[str]:
    """Machines that were removed."""
    return frozenset[str]().union(*(t.targets for t in tried if t.action in EVICTING_ACTIONS))


def was_tried(action: str, targets: Iterable[Any], tried: Sequence[TriedAction]) -> bool:
    """Whether an advice was followed before: for machines, whether all that it would remove were removed already."""
    if action not in EXECUTABLE_ACTIONS:
        return False
    if action not in EVICTING_ACTIONS or any(t.action == action and not t.targets for t in tried):
        return any(t.action == action for t in tried)
    named = set(map(str, targets))
    return bool(named) and named <= removed_machines(tried)
