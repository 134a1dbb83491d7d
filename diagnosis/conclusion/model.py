"""The types of the conclusion. Times are seconds since the epoch (UTC) on the job's common clock, p
in [0, 1].
"""

from __future__ import annotations

from typing import Final

import msgspec

from diagnosis.evidence import Finding, Place
from diagnosis.records.advice_records import Advice

#: The possible conditions of a job.
CONDITIONS: Final = ("failed", "hung", "degraded", "recovered", "cancelled", "healthy", "running", "unknown")
#: Probabilities that differ by less than this are equal.
EPSILON: Final = 1e-6
#: What people say of a job that has ended.
STATED_ENDS: Final = ("succeeded", "failed", "cancelled")
#: Symptoms of a job that ended by itself.
ENDS: Final = ("crash", "launch_failure")
#: Conditions that need attention.
PROBLEM_CONDITIONS: Final = ("failed", "hung", "degraded", "cancelled")


class Fault(msgspec.Struct, frozen=True):
    """Who is at fault, with the probability and the reasons, strongest first."""

    place: Place
    p: float
    reasons: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Slowdown(msgspec.Struct, frozen=True):
    """A stretch of slow steps as one row. ``steps`` first and last (1-based, as the source counts
    them), ``factor`` mean time against the usual, ``lost_s`` time beyond the usual, ``lost_gpu_s``
    the same times the job's GPUs (None if their number is not known), ``is_named``: flows show who
    caused it.
    """

    source: str
    steps: tuple[int, int]
    count: int
    factor: float
    lost_s: float
    lost_gpu_s: float | None
    at: float | None = None
    until: float | None = None
    is_over: bool = True
    is_standstill: bool = False
    is_named: bool = False


class Moment(msgspec.Struct, frozen=True):
    """When the failure began and how that is known, with the stage and the iteration. ``until``:
    the end of a slow stretch that is over; ``why``: what the condition was decided by.
    """

    at: float | None = msgspec.field(name="t")
    until: float | None
    stage: str | None
    iteration: int | None
    how: str
    why: str


class Side(msgspec.Struct, frozen=True):
    """One kind of evidence, and what it says."""

    source: str
    says: str


class Disagreement(msgspec.Struct, frozen=True):
    """A contradiction ``about`` outcome, layout or fault: two sides, and both in one sentence."""

    about: str
    sides: tuple[Side, Side]
    text: str


class PossibleOutcome(msgspec.Struct, frozen=True):
    """An outcome of a check, and the probability that its target is at fault after it."""

    id: str
    says: str
    p: float


class OfferedCheck(msgspec.Struct, frozen=True):
    """A check of one place, with its command to copy. ``is_recognised``: its uploaded output is
    recognised.
    """

    id: str
    title: str
    command: str
    cost: str
    cost_s: float
    target: Place
    is_recognised: bool
    outcomes: tuple[PossibleOutcome, ...]


class Conclusion(msgspec.Struct, frozen=True):
    """The answer from all evidence. ``fault`` empty: nobody. ``alternatives`` begin with the
    category itself and sum to at most 1. ``outcome``: how the job ended (succeeded, failed,
    cancelled, running, unknown).
    """

    condition: str
    id: str
    category: str
    subcategory: str
    confidence: float
    sentence: str
    alternatives: tuple[tuple[str, float], ...] = ()
    seen: tuple[tuple[Place, str], ...] = ()
    fault: tuple[Fault, ...] = ()
    moment: Moment | None = None
    chain: tuple[Finding, ...] = ()
    checks: tuple[OfferedCheck, ...] = ()
    advice: Advice | None = None
    disagreements: tuple[Disagreement, ...] = ()
    slowdowns: tuple[Slowdown, ...] = msgspec.field(default=())
    outcome: str = "unknown"


class NamedFault(msgspec.Struct, frozen=True):
    """Who is at fault, with the probability."""

    kind: str
    name: str
    p: float = 0.0


class ChainLink(msgspec.Struct, frozen=True):
    """What advice reads of one finding of the chain."""

    source: str = ""
    what: str = ""
    category: str | None = None
    text: str = ""


class SlowStretch(msgspec.Struct, frozen=True):
    """A stretch of slow steps, by its mean time against the usual."""

    factor: float = 0.0


class MomentPart(msgspec.Struct, frozen=True):
    """Stage and iteration at which the failure began."""

    stage: str | None = None
    iteration: int | None = None


class Answer(msgspec.Struct, frozen=True):
    """What is read again of a report's ``conclusion``; its default is that of a report without one."""

    condition: str = ""
    id: str = ""
    category: str = ""
    subcategory: str = ""
    confidence: float = 0.0
    fault: tuple[NamedFault, ...] = ()
    chain: tuple[ChainLink, ...] = ()
    slowdowns: tuple[SlowStretch, ...] = ()
    moment: MomentPart = MomentPart()


#: Findings that say that something is slow.
_SLOW: Final = frozenset({"slow", "slow_place"})


def symptom_of(answer: Answer, otherwise: str) -> str:
    """The symptom that a conclusion implies; ``otherwise`` if it implies none.

    A degraded job is slow, unless only alarms of other kinds or checks say that it is degraded: a
    full disk slows no step yet. A job that was ended did not crash.
    """
    if answer.condition == "hung":
        return "hang"
    if answer.condition == "cancelled" and otherwise in ENDS:
        return "none"
    if answer.condition != "degraded":
        return otherwise
    sources = {link.source for link in answer.chain}
    is_slow = bool(answer.slowdowns) or not _SLOW.isdisjoint(link.what for link in answer.chain)
    if is_slow or sources.isdisjoint(("watch", "check")):
        return "slow"
    return otherwise or "none"
