"""The types of the conclusion. Times are seconds since the epoch (UTC) on the job's common clock, p in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from diagnosis.evidence import Finding, Place

#: The possible conditions of a job.
CONDITIONS: Final = ("failed", "hung", "degraded", "recovered", "cancelled", "healthy", "running", "unknown")
#: Conditions that need attention.
PROBLEM_CONDITIONS: Final = ("failed", "hung", "degraded", "cancelled")


@dataclass(frozen=True, slots=True)
class Fault:
    """Who is at fault, with the probability and the reasons, strongest first."""

    place: Place
    p: float
    reasons: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A stretch of slow steps as one row. ``steps`` first and last (1-based, as the source counts them), ``factor``
    mean time against the usual, ``lost_s`` time beyond the usual, ``lost_gpu_s`` the same times the job's GPUs (None if
    their number is not known), ``is_named``: flows show who caused it."""

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


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer from all evidence. ``fault`` empty: nobody. ``alternatives`` begin with the category itself and
    sum to at most 1. ``outcome``: how the job ended (succeeded, failed, cancelled, running, unknown)."""

    condition: str
    id: str
    category: str
    subcategory: str
    confidence: float
    sentence: str
    alternatives: tuple[tuple[str, float], ...] = ()
    seen: tuple[tuple[Place, str], ...] = ()
    fault: tuple[Fault, ...] = ()
    moment: dict[str, Any] | None = None
    chain: tuple[Finding, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    advice: dict[str, Any] | None = None
    disagreements: tuple[dict[str, Any], ...] = ()
    slowdowns: tuple[Slowdown, ...] = field(default=())
    outcome: str = "unknown"


def symptom_of(conclusion: Mapping[str, Any], otherwise: str) -> str:
    """The symptom that a conclusion (as in the report) implies; ``otherwise`` if it implies none.

    A degraded job is slow, unless only alarms of other kinds say that it is degraded: a full disk slows no step yet.
    """
    if conclusion.get("condition") == "hung":
        return "hang"
    if conclusion.get("condition") != "degraded":
        return otherwise
    chain = conclusion.get("chain") or ()
    is_slow = conclusion.get("slowdowns") or any(finding.get("what") == "slow" for finding in chain)
    is_watched = any(finding.get("source") == "watch" for finding in chain)
    return "slow" if is_slow or not is_watched else otherwise or "none"
