"""What the stacks of a job show, as far as other evidence is joined with it (all of it:
``docs/stacks.md``).
"""

from __future__ import annotations

from typing import Final

import msgspec

from diagnosis.evidence.accused import Suspect

#: The rule of stacks of which none has a rank.
_NOTHING_COMPARED: Final = "none"


class StackGroup(msgspec.Struct, frozen=True):
    """Ranks with equal stacks. ``activity``: the kind of what they do (comm, host, device, …),
    ``what`` in words; ``is_dominant``: one of the largest groups.
    """

    ranks: tuple[int, ...] = ()
    activity: str = ""
    what: str = ""
    is_dominant: bool = msgspec.field(name="dominant", default=False)


class DumpedRank(msgspec.Struct, frozen=True):
    """One dump: its rank and node if they are known, its file and line (1-based)."""

    rank: int | None = None
    node: str | None = None
    path: str = ""
    line: int = 0


class ComparedCollectives(msgspec.Struct, frozen=True):
    """What the Flight Recorder shows. ``mismatched``: ranks that entered another collective than
    their peers; ``host_stuck``: ranks that did not come to one.
    """

    mismatched: tuple[int, ...] = ()
    host_stuck: tuple[int, ...] = ()


class TiedGroups(msgspec.Struct, frozen=True):
    """Parallel groups of one kind that explain the outliers as well as others do."""

    kind: str = ""


class StackFinding(msgspec.Struct, frozen=True):
    """The ranks that others wait for, and whom an eviction would remove.

    ``reason``: the finding in sentences, ``headline`` its first clause; ``rule``: which rule of
    blame decided. ``is_moving``: ranks changed their place between rounds, so the job is slow and
    not hung. ``tie``: parallel groups that explain the outliers equally well. ``category`` with
    ``category_p``: what the activity of the accused shows, empty if nothing.
    """

    suspect_ranks: tuple[int, ...] = ()
    suspect_nodes: tuple[str, ...] = ()
    evict_nodes: tuple[str, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    groups: tuple[StackGroup, ...] = ()
    headline: str = ""
    reason: str = ""
    rule: str = ""
    is_moving: bool = False
    tie: tuple[TiedGroups, ...] = ()
    collectives: ComparedCollectives = ComparedCollectives()
    ranks: tuple[DumpedRank, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    category: str = ""
    category_p: float = 0.0
    #: what every process does, if all wait for their peers
    common_wait: str = ""

    @property
    def has_evidence(self) -> bool:
        """Whether there are stacks at all."""
        return bool(self.ranks or self.suspect_ranks or self.reason)

    @property
    def shows_course(self) -> bool:
        """Whether a dump has a rank, or waits for peers: others show a moment of a sound job."""
        return bool(self.suspects or self.common_wait) or self.rule != _NOTHING_COMPARED

    @property
    def is_stuck(self) -> bool:
        """Whether the others wait for some ranks, and none of them moves."""
        return bool(self.suspect_ranks) and not self.is_moving

    @property
    def nodes(self) -> set[str]:
        """The known nodes of all dumps."""
        return {row.node for row in self.ranks if row.node}

    @property
    def suspect_groups(self) -> list[StackGroup]:
        """The groups with a rank that others wait for."""
        suspects = set(self.suspect_ranks)
        return [group for group in self.groups if suspects.intersection(group.ranks)]
