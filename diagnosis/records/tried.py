"""Actions without success: the advice continues with the next rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from diagnosis.knowledge.knowledge_files import table
from diagnosis.values.plain import listed

#: The actions that a rule of advice may name, with their titles.
ACTIONS: Final[Mapping[str, str]] = table("advice", "diagnosis")["actions"]
#: Actions that an engineer can carry out; the others change nothing.
EXECUTABLE_ACTIONS = tuple(action for action in ACTIONS if action not in {"none", "collect", "ask_human"})
EVICTING_ACTIONS = frozenset({"evict", "over_evict"})
_MAX_SHOWN: Final = 4


class TriedAction(msgspec.Struct, frozen=True):
    """An action that was carried out in this episode and after which the job failed again."""

    action: str
    targets: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """``Evict (node-3)``."""
        some = sorted(self.targets)
        title = ACTIONS.get(self.action, self.action)
        return f"{title} ({listed(some, _MAX_SHOWN)})" if some else title


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
