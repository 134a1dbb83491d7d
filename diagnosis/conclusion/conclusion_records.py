"""The report's ``conclusion`` as records (``docs/conclusion.md``), and how they are made of a :class:`Conclusion`.

Times are seconds since the epoch (UTC) on the job's common clock, ``p`` in [0, 1].
"""

from __future__ import annotations

import msgspec

from diagnosis.conclusion.model import Conclusion, Disagreement, Fault, Moment, OfferedCheck, Slowdown
from diagnosis.evidence import Finding, Place, Reference
from diagnosis.records.advice_records import Advice


class AlternativeRow(msgspec.Struct, frozen=True):
    """One category with its probability."""

    id: str
    p: float


class SeenRow(Place, frozen=True, kw_only=True):
    """A place where the failure was seen, and what shows it."""

    why: str


class FaultRow(Place, frozen=True, kw_only=True):
    """Who is at fault. ``why``: the strongest of the ``reasons``."""

    p: float
    reasons: list[str]
    why: str
    sources: list[str] = msgspec.field(name="from")


class FindingRow(msgspec.Struct, frozen=True):
    """One finding of the chain; the fields have the meaning of :class:`Finding`."""

    source: str
    what: str
    text: str
    at: float | None = msgspec.field(name="t")
    until: float | None
    is_stamped: bool
    places: list[Place]
    first_hand: bool
    category: str | None
    amount: float | None
    steps: tuple[int, int] | None
    evidence: list[Reference]


class SlowdownRow(msgspec.Struct, frozen=True):
    """One stretch of slow steps; the fields have the meaning of :class:`Slowdown`, in three digits."""

    source: str
    first: int
    last: int
    count: int
    factor: float
    lost_s: float
    lost_gpu_s: float | None
    at: float | None = msgspec.field(name="t")
    until: float | None
    is_over: bool


class ConclusionReport(msgspec.Struct, frozen=True):
    """The whole object; the fields have the meaning of :class:`Conclusion`."""

    condition: str
    outcome: str
    id: str
    category: str
    subcategory: str
    confidence: float
    sentence: str
    alternatives: list[AlternativeRow]
    seen: list[SeenRow]
    fault: list[FaultRow]
    moment: Moment | None
    chain: list[FindingRow]
    slowdowns: list[SlowdownRow]
    checks: list[OfferedCheck]
    advice: Advice | None
    disagreements: list[Disagreement]


def report_of(c: Conclusion) -> ConclusionReport:
    """The report's ``conclusion`` of a conclusion."""
    return ConclusionReport(
        condition=c.condition,
        outcome=c.outcome,
        id=c.id,
        category=c.category,
        subcategory=c.subcategory,
        confidence=round(c.confidence, 4),
        sentence=c.sentence,
        alternatives=[AlternativeRow(name, p) for name, p in c.alternatives],
        seen=[SeenRow(place.kind, place.name, place.rank, why=why) for place, why in c.seen],
        fault=[_fault(one) for one in c.fault],
        moment=c.moment,
        chain=[_finding(one) for one in c.chain],
        slowdowns=[_slowdown(one) for one in c.slowdowns],
        checks=list(c.checks),
        advice=c.advice,
        disagreements=list(c.disagreements),
    )


def _fault(f: Fault) -> FaultRow:
    return FaultRow(
        f.place.kind,
        f.place.name,
        f.place.rank,
        p=f.p,
        reasons=list(f.reasons),
        why=next(iter(f.reasons), ""),
        sources=list(f.sources),
    )


def _finding(f: Finding) -> FindingRow:
    return FindingRow(
        source=f.source,
        what=f.what,
        text=f.text,
        at=f.at,
        until=f.until,
        is_stamped=f.is_stamped,
        places=list(f.places),
        first_hand=f.first_hand,
        category=f.category or None,
        amount=f.amount,
        steps=f.steps,
        evidence=list(f.evidence),
    )


def _slowdown(s: Slowdown) -> SlowdownRow:
    cost = s.lost_gpu_s
    return SlowdownRow(
        source=s.source,
        first=s.steps[0],
        last=s.steps[1],
        count=s.count,
        factor=round(s.factor, 3),
        lost_s=round(s.lost_s, 3),
        lost_gpu_s=None if cost is None else round(cost, 3),
        at=s.at,
        until=s.until,
        is_over=s.is_over,
    )
