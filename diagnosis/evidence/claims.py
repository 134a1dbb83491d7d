"""Findings: the claims of all kinds of evidence in one type."""

from __future__ import annotations

from typing import Final

import msgspec

from diagnosis.evidence.place_names import Place

#: The kinds of findings that pages may show on the time axis, in this order if times are equal.
FINDING_KINDS: Final = (
    "slow",
    "progress",
    "root",
    "silent",
    "waited_for",
    "flows_ceased",
    "stacks",
    "check",
    "setup",
    "slow_place",
    "consequence",
    "teardown",
    "outcome",
    "restart",
)


#: Those that say how the job went, not what is wrong with it.
COURSE_KINDS: Final = frozenset({"progress", "outcome", "restart"})


class Reference(msgspec.Struct, frozen=True):
    """A line that shows a finding: its file, and its number from 1."""

    file: str
    line: int


class Finding(msgspec.Struct, frozen=True):
    """One finding of one kind of evidence. Times are seconds since the epoch (UTC) on the job's common clock.

    ``source`` logs, flows, stacks, scheduler, uploader, watch or check; ``what`` a word of :data:`FINDING_KINDS`;
    ``first_hand`` False if another source is quoted. ``p`` in [0, 1]. ``amount`` is the factor of a slowdown or the
    number of lines. ``evidence``: the first lines that show it.
    ``is_stamped`` False: its lines state no time, ``at`` is the last time before them.
    """

    source: str
    what: str
    text: str
    at: float | None = None
    until: float | None = None
    is_stamped: bool = True
    places: tuple[Place, ...] = ()
    p: float = 1.0
    category: str | None = ""
    first_hand: bool = True
    amount: float | None = None
    steps: tuple[int, int] | None = None
    evidence: tuple[Reference, ...] = ()
