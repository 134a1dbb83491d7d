"""Sums over incidents: what statistics are folded from. Two queries, each a pass over the index incident_statistics.

Sums of groups add up, so that the same cells give weeks, costs and verdicts. A machine's category differs from the one
that stands in few incidents only: grouping those apart keeps the cells few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from operator import add
from typing import Any, NamedTuple

from django.db.models import CharField, Count, F, FloatField, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast

from triage.models import Incident

#: days of one period at most
MAX_DAYS = 366 * 5
#: far enough from the ends of the calendar for the period before, and for the day after
_FIRST_DAY, _LAST_DAY = date(1000, 1, 1), date(9000, 1, 1)
UNUSABLE_DATES = "The dates cannot be used: give since and until as 2026-11-01, since first, five years at most."


@dataclass(frozen=True, slots=True)
class Period:
    """Days from ``start`` to ``end``, both included, in UTC; the period before it is as long and ends at ``start``."""

    start: date
    end: date

    @classmethod
    def between(cls, start: date, end: date) -> Period:
        """Raises ValueError for days in the wrong order, too many of them, or such as no database reckons with."""
        if not _FIRST_DAY <= start <= end <= _LAST_DAY or (end - start).days >= MAX_DAYS:
            raise ValueError(UNUSABLE_DATES)
        return cls(start, end)

    @property
    def days(self) -> int:
        return (self.end - self.start).days + 1

    @property
    def starts_at(self) -> datetime:
        return datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(days=self.days)

    @property
    def before_at(self) -> datetime:
        return self.starts_at - timedelta(days=self.days)

    @property
    def term(self) -> str:
        """The period as a search term, for links to lists."""
        return f"happened:{self.start}..{self.end}"


def within(seen: QuerySet[Incident], low: datetime, high: datetime) -> QuerySet[Incident]:
    """Those that happened from ``low`` on and before ``high``, in no order."""
    return seen.filter(
        happened_at__gte=low,
        happened_at__lt=high,
        # said twice, because the index that holds all that is summed begins with the week
        week__gte=low.date() - timedelta(days=low.weekday()),
        week__lte=high.date(),
    ).order_by()


class Sums(NamedTuple):
    """What is added up of some incidents; sums of nothing are 0, and so is what was not asked for."""

    incidents: float = 0.0
    gpu_hours: float = 0.0
    node_hours: float = 0.0
    #: those that a human judged, those of them where the machine named the category that stands, and the right ones
    judged: float = 0.0
    judged_alike: float = 0.0
    right: float = 0.0
    lost_s: float = 0.0
    detected_s: float = 0.0
    detections: float = 0.0
    repaired_s: float = 0.0
    repairs: float = 0.0

    def plus(self, other: Sums) -> Sums:
        return Sums(*map(add, self, other))


class Cell(NamedTuple):
    """Incidents of one week whose category stands as this one."""

    week: date
    category: str
    sums: Sums


_COSTS = ("n", "gpu", "machines")
_VERDICTS = ("judged", "judged_alike", "right")
_TIMES = ("lost", "detected", "detections", "repaired", "repairs")


def _adding(*names: str) -> dict[str, Any]:
    """Aggregates in the order of Sums; those that are not among ``names`` are 0 without being added up."""
    is_judged = ~Q(state__in=[Incident.State.AWAITING_REVIEW, Incident.State.INCONCLUSIVE])
    is_alike = Q(category=F("standing_category"))
    aggregates = {
        "n": Count("pk"),
        "gpu": Sum("gpu_hours"),
        "machines": Sum("node_hours"),
        "judged": Count("pk", filter=is_judged),
        "judged_alike": Count("pk", filter=is_judged & is_alike),
        "right": Count("pk", filter=Q(state__in=Incident.STOOD) & is_alike),
        "lost": Sum("lost_s"),
        "detected": Sum("detected_s"),
        "detections": Count("detected_s"),
        "repaired": Sum("repaired_s"),
        "repairs": Count("repaired_s"),
    }
    nothing = Value(0.0, FloatField())
    return {name: aggregate if name in names else nothing for name, aggregate in aggregates.items()}


def _sums(values: Iterable[float | None]) -> Sums:
    return Sums(*(float(value or 0) for value in values))


def cells_of(seen: QuerySet[Incident], period: Period) -> list[Cell]:
    """Costs and verdicts by week and category."""
    adding = {name: one for name, one in _adding(*_COSTS, *_VERDICTS).items() if name not in _TIMES}
    keys = ("week", "standing_category")
    rows = within(seen, period.starts_at, period.ends_at).values(*keys).annotate(**adding)
    return [Cell(week, name, _sums(sums)) for week, name, *sums in rows.values_list(*keys, *adding)]


class Tallies(NamedTuple):
    """What is not by week."""

    #: times of the period; its costs and verdicts are in the cells
    now: Sums
    #: of the period before, but for what is by machine
    before: Sums
    #: verdicts by the machine's category, where another one stands
    otherwise: dict[str, Sums]
    #: costs by a dimension
    dimension: dict[str, Sums]


def tallies_of(seen: QuerySet[Incident], period: Period, by: str) -> Tallies:
    """The rest, in one query of four parts; ``by`` names the dimension's field."""
    current = within(seen, period.starts_at, period.ends_at)
    before = within(seen, period.before_at, period.starts_at)
    otherwise = current.exclude(category=F("standing_category"))
    nothing = Value("", CharField())
    asked: tuple[tuple[str, QuerySet[Incident], Any, tuple[str, ...]], ...] = (
        ("now", current, nothing, _TIMES),
        ("before", before, nothing, ("n", "gpu", "judged", "right", *_TIMES)),
        ("otherwise", otherwise, F("category"), ("judged",)),
        ("dimension", current, F(by), _COSTS),
    )
    first, *others = (
        rows.values(kind=Value(kind, CharField()), key=Cast(key, CharField()))
        .annotate(**(adding := _adding(*names)))
        .values_list("kind", "key", *adding)
        for kind, rows, key, names in asked
    )
    found: dict[str, dict[str, Sums]] = {kind: {} for kind, *_ in asked}
    for kind, key, *sums in first.union(*others, all=True).order_by():
        group = key or ""  # a team that is not there and one without a name are the same
        found[kind][group] = found[kind].get(group, Sums()).plus(_sums(sums))
    return Tallies(
        found["now"].get("", Sums()), found["before"].get("", Sums()), found["otherwise"], found["dimension"]
    )


def grouped[K](cells: Iterable[Cell], key: Callable[[Cell], K]) -> dict[K, Sums]:
    """Of the cells of each key."""
    found: dict[K, Sums] = {}
    for cell in cells:
        group = key(cell)
        found[group] = cell.sums.plus(found[group]) if group in found else cell.sums
    return found
