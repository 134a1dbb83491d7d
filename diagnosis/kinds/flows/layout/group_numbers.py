"""In which of several groups a member is."""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis.kinds.flows.capture.capture import Ints


def group_numbers(groups: Iterable[Ints]) -> dict[int, int]:
    """The number of the group of each member, from 0. A member is in one group; of several the last counts."""
    found: dict[int, int] = {}
    for number, group in enumerate(groups):
        found.update(dict.fromkeys(group.tolist(), number))
    return found
