"""What the network flows of a job show, as far as other evidence is joined with it (``docs/flows.md`` has the whole
object). Times are seconds since the epoch (UTC) on the job's common clock.
"""

from __future__ import annotations

import msgspec

from diagnosis.evidence.accused import Suspect

#: ``measure`` of a finding about a pause that the job planned: an evaluation or a checkpoint.
PLANNED = "planned"


class Interval(msgspec.Struct, frozen=True):
    """A stretch of time, such as one step."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


class SlowFinding(msgspec.Struct, frozen=True):
    """What is slow: ``kind`` slow_step, slow_group or slow_switch.

    ``factor`` against the usual time, 0 if it is not known; ``confidence`` in [0, 1]. ``culprits`` of the group's
    ``members``; ``switch``, or ``candidates`` of which one is slow, or a ``link``. ``measure``: late, uneven, planned
    or another word; ``shares``: the share of the delay of each culprit; ``step`` counts from 1.
    """

    kind: str = ""
    start: float = msgspec.field(name="t0", default=0.0)
    end: float = msgspec.field(name="t1", default=0.0)
    reason: str = ""
    factor: float = 0.0
    confidence: float = 0.0
    switch: str = ""
    candidates: tuple[str, ...] = ()
    link: str = ""
    members: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    measure: str = ""
    shares: dict[str, float] = {}
    step: int | None = None

    @property
    def is_planned(self) -> bool:
        return self.measure == PLANNED

    @property
    def switches(self) -> tuple[str, ...]:
        """The slow switch, or those of which one is slow."""
        return self.candidates or ((self.switch,) if self.switch else ())


class SilentMember(msgspec.Struct, frozen=True):
    """When a node of a job that stopped sent its last training message. ``owes``: what ``by`` sent to it afterwards,
    for ``unanswered_s``, was not answered. Without ``by``: it did not send what was due for so long;
    ``lives``: other messages of it came later.
    """

    name: str
    last_at: float | None = None
    unanswered_s: float = 0.0
    by: str = ""
    owes: bool = False
    lives: bool = False

    @property
    def left_unanswered(self) -> bool:
        return self.owes and bool(self.by)

    @property
    def stop_words(self) -> str:
        """How it stopped, in words, where nothing but flows shows it."""
        if self.by:
            return "stopped in the middle of an exchange, and nothing shows how the job ended"
        return "fell silent first, in the middle of a step; flows do not show why"


class Contradiction(msgspec.Struct, frozen=True):
    """What a job states of its layout, and what its flows show instead."""

    stated: str = ""
    shown: str = ""


class FlowJob(msgspec.Struct, frozen=True):
    """One job of a capture: its members (addresses), their nodes, its steps and what is slow in it."""

    id: str = ""
    members: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    steps: tuple[Interval, ...] = ()
    slow: tuple[SlowFinding, ...] = msgspec.field(name="diagnoses", default=())
    ceased: tuple[SilentMember, ...] = ()
    apart: Contradiction | None = None


class PortCapture(msgspec.Struct, frozen=True):
    """Counters of switch ports: how many ports they are of."""

    ports_total: int = 0


class FlowFinding(msgspec.Struct, frozen=True):
    """The jobs of a capture, and what is slow in the ``fabric`` that they share. ``why_not``: why there is no timeline
    of steps; ``cannot_tell``: why no finding in them does not mean that all was well; ``is_late_unknown``: flows cannot
    show which member is late.
    """

    jobs: tuple[FlowJob, ...] = ()
    fabric: tuple[SlowFinding, ...] = msgspec.field(name="diagnoses", default=())
    has_timeline: bool = msgspec.field(name="usable_for_timeline", default=False)
    why_not: str = ""
    cannot_tell: str = ""
    is_late_unknown: bool = msgspec.field(name="late_unknown", default=False)
    ports: tuple[PortCapture, ...] = ()
    suspects: tuple[Suspect, ...] = ()

    @property
    def has_evidence(self) -> bool:
        """Whether there are flows at all."""
        return bool(self.jobs or self.fabric or self.ports or self.why_not)

    @property
    def slow(self) -> list[SlowFinding]:
        """What is slow, of the fabric and of all jobs."""
        return [*self.fabric, *(row for job in self.jobs for row in job.slow)]
