"""Sums over incidents, from which statistics are made. One query of passes over the index incident_statistics.

Sums of groups can be added, so that the same cells give weeks, costs and verdicts. The machine's category differs from
the standing one in few incidents: grouping those separately keeps the number of cells small. All sums are per week, so
that an act on one incident needs only the sums of its week.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from operator import add
from typing import Any, NamedTuple

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    FloatField,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast

from diagnosis import taxonomy
from triage.models import Activity, Incident
from triage.selectors.memory import acts_since, newest_acts

#: maximum days of one period
MAX_DAYS = 366 * 5
#: far enough from the ends of the calendar for the period before, and for the day after
_FIRST_DAY, _LAST_DAY = date(1000, 1, 1), date(9000, 1, 1)
#: lower edges of the bins of confidence; the last one holds 1
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.8, 0.9)
INVALID_DATES = "The dates cannot be used: give since and until as 2026-11-01, since first, five years at most."


@dataclass(frozen=True, slots=True)
class Period:
    """Days from ``start`` to ``end``, both included, in UTC; the period before ends at ``start``.
    It has the same length; that before a calendar month is the month before.
    """

    start: date
    end: date

    @classmethod
    def between(cls, start: date, end: date) -> Period:
        """Raises ValueError for days in the wrong order, too many of them, or outside the range of databases."""
        if not _FIRST_DAY <= start <= end <= _LAST_DAY or (end - start).days >= MAX_DAYS:
            raise ValueError(INVALID_DATES)
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
    def is_month(self) -> bool:
        is_last_day = (self.end + timedelta(days=1)).day == 1
        return self.start.day == 1 and is_last_day and self.days <= 31

    @property
    def before_at(self) -> datetime:
        """The start of the period before."""
        if self.is_month:
            return (self.starts_at - timedelta(days=1)).replace(day=1)
        return self.starts_at - timedelta(days=self.days)

    @property
    def before_words(self) -> str:
        return "the month before" if self.is_month else f"the {self.days} days before"

    @property
    def term(self) -> str:
        """The period as a search term, for links to lists."""
        return f"happened:{self.start}..{self.end}"


def in_period(
    incidents: QuerySet[Incident], low: datetime, high: datetime, weeks: Collection[date] | None = None
) -> QuerySet[Incident]:
    """Incidents from ``low`` on and before ``high``, unordered; only of these ``weeks`` if given.
    The same evidence twice counts once.
    """
    happened = incidents.filter(happened_at__gte=low, happened_at__lt=high, duplicate_of=None).order_by()
    # stated twice, because the index with all summed columns begins with the week
    if weeks is None:
        return happened.filter(week__gte=low.date() - timedelta(days=low.weekday()), week__lte=high.date())
    return happened.filter(week__in=weeks)


class Sums(NamedTuple):
    """Sums over some incidents; 0 for no incidents, and for sums that were not requested."""

    incidents: float = 0.0
    gpu_hours: float = 0.0
    node_hours: float = 0.0
    #: those that Faultline diagnosed; verdicts and times are only of these, because an imported fault has no verdict of
    #: the machine and no run time
    diagnosed: float = 0.0
    #: those that a person judged, those of them with a category of the machine, and the right ones
    judged: float = 0.0
    judged_alike: float = 0.0
    right: float = 0.0
    #: those that nobody judged, or that were judged inconclusive
    open: float = 0.0
    lost_s: float = 0.0
    losses: float = 0.0
    detected_s: float = 0.0
    detections: float = 0.0
    repaired_s: float = 0.0
    repairs: float = 0.0
    #: how complete the costs are: those with a known cost, those with a rejected verdict
    priced: float = 0.0
    rejected: float = 0.0
    #: parts of the GPU-hours, and how many costs are of an assumed number of GPUs
    waited_gpu_hours: float = 0.0
    repeated_gpu_hours: float = 0.0
    assumed: float = 0.0
    #: the confidences that the machine stated for the judged ones
    claimed: float = 0.0

    @property
    def lost_gpu_hours(self) -> float:
        """The part that was lost until the attempts ended."""
        return max(0.0, self.gpu_hours - self.waited_gpu_hours - self.repeated_gpu_hours)


_COSTS = ("n", "gpu", "machines", "priced", "waited", "repeated", "assumed")
_VERDICTS = ("diagnosed", "judged", "judged_alike", "right", "open")
_TIMES = ("lost", "losses", "detected", "detections", "repaired", "repairs")


def is_judged() -> Q:
    """Verdicts that people judged. An unnamed category can be corrected or left open; there was no verdict to judge."""
    return Q(is_imported=False) & ~Q(state__in=Incident.OPEN) & ~Q(category=taxonomy.UNKNOWN)


def _aggregates(*names: str) -> dict[str, Any]:
    """Aggregates in the order of Sums; those that are not in ``names`` are 0 without a sum."""
    is_diagnosed = Q(is_imported=False)
    judged = is_judged()
    is_alike = Q(category=F("standing_category"))
    aggregates = {
        "n": Count("pk"),
        "gpu": Sum("gpu_hours"),
        "machines": Sum("node_hours"),
        "diagnosed": Count("pk", filter=is_diagnosed),
        "judged": Count("pk", filter=judged),
        "judged_alike": Count("pk", filter=judged & is_alike),
        "right": Count("pk", filter=judged & Q(state__in=Incident.STOOD) & is_alike),
        "open": Count("pk", filter=is_diagnosed & Q(state__in=Incident.OPEN)),
        "lost": Sum("lost_s", filter=is_diagnosed),
        "losses": Count("lost_s", filter=is_diagnosed),
        "detected": Sum("detected_s", filter=is_diagnosed),
        "detections": Count("detected_s", filter=is_diagnosed),
        "repaired": Sum("repaired_s", filter=is_diagnosed),
        "repairs": Count("repaired_s", filter=is_diagnosed),
        "priced": Count("gpu_hours"),
        "rejected": Count("pk", filter=Q(state=Incident.State.REJECTED)),
        "waited": Sum("waited_gpu_hours"),
        "repeated": Sum("repeated_gpu_hours"),
        "assumed": Count("pk", filter=Q(is_cost_assumed=True)),
        "claimed": Sum("confidence", filter=judged),
    }
    nothing = Value(0.0, FloatField())
    return {name: aggregate if name in names else nothing for name, aggregate in aggregates.items()}


#: in the order of Sums; plain tuples, because thousands of them are stored and read
type Values = tuple[float, ...]


class Piece(NamedTuple):
    """The sums of the part of a week within the period."""

    #: all sums, by the standing category
    cells: dict[str, Values]
    #: verdicts by the machine's category, if another one stands
    otherwise: dict[str, Values]
    #: costs by a dimension
    dimension: dict[str, Values]
    #: judged verdicts by the number of their bin of confidence
    bins: dict[str, Values]


@dataclass(slots=True)
class Pieces:
    """A period by weeks, and the period before it; without empty weeks."""

    now: dict[date, Piece] = field(default_factory=dict)
    before: dict[date, Values] = field(default_factory=dict)
    #: ids of the counted acts, as far back as a late one may still commit
    acts: set[int] = field(default_factory=set)


def pieces_of(incidents: QuerySet[Incident], period: Period, by: str, former: Pieces | None = None) -> Pieces:
    """All pieces, ``by`` the dimension's field; with ``former`` only pieces with acts since then are summed again.

    Two queries; three if something happened, and one if nothing: then it returns ``former`` itself. Only for what
    depends on the incidents that acts name, not on their jobs.
    """
    acts = Activity.objects.all()
    if former is None:
        pieces = Pieces(acts=newest_acts(acts))
        _add_up(pieces, incidents, period, by)
        return pieces
    columns = ("kind", "job", "incident__week", "data__weeks")
    fresh, known = acts_since(acts, former.acts, columns)
    if not fresh:
        return former
    if any(may_change_many(kind, job, week) for kind, job, week, _ in fresh):
        pieces = Pieces(acts=known)
        _add_up(pieces, incidents, period, by)
        return pieces
    more = chain.from_iterable(weeks for *_, weeks in fresh if weeks)
    stale = {week for _, _, week, _ in fresh if week} | set(map(date.fromisoformat, more))
    stale = {week for week in stale if period.before_at.date() - timedelta(days=7) < week <= period.end}
    pieces = Pieces(
        {week: piece for week, piece in former.now.items() if week not in stale},
        {week: values for week, values in former.before.items() if week not in stale},
        known,
    )
    if stale:
        _add_up(pieces, incidents, period, by, stale)
    return pieces


def _bin() -> Case:
    """The number of the bin of an incident's confidence, as text."""
    low_to_high = enumerate(CONFIDENCE_EDGES[1:])
    cases = [When(confidence__lt=high, then=Value(str(n))) for n, high in low_to_high]
    return Case(*cases, default=Value(str(len(CONFIDENCE_EDGES) - 1)), output_field=CharField())


def may_change_many(kind: str, job: int | None, week: date | None) -> bool:
    """Whether an act on a whole job may have changed many incidents; a diagnosis without an
    incident changes none. ``week``: that of the act's incident.
    """
    return kind in {"job_deleted", "demonstration_removed"} or (
        job is not None and week is None and kind not in {"diagnosed", "run_cancelled"}
    )


def _add_up(
    pieces: Pieces, incidents: QuerySet[Incident], period: Period, by: str, weeks: Collection[date] | None = None
) -> None:
    """Add the sums of these incidents to the pieces: one query of five parts."""
    current = in_period(incidents, period.starts_at, period.ends_at, weeks)
    before = in_period(incidents, period.before_at, period.starts_at, weeks)
    otherwise = current.exclude(category=F("standing_category"))
    parts: tuple[tuple[str, QuerySet[Incident], Any, tuple[str, ...]], ...] = (
        ("cells", current, F("standing_category"), (*_COSTS, *_VERDICTS, *_TIMES, "rejected")),
        ("otherwise", otherwise, F("category"), ("judged",)),
        ("dimension", current, Cast(by, CharField()), _COSTS),
        ("bins", current.filter(is_judged()), _bin(), ("judged", "right", "claimed")),
        ("before", before, Value("", CharField()), (*_COSTS, "diagnosed", "judged", "right", *_TIMES)),
    )
    first, *more_queries = (
        rows.values(kind=Value(kind, CharField()), of=F("week"), key=key)
        .annotate(**(adding := _aggregates(*names)))
        .values_list("kind", "of", "key", *adding)
        for kind, rows, key, names in parts
    )
    for kind, week, key, *sums in first.union(*more_queries, all=True).order_by():
        values = tuple(value or 0.0 for value in sums)
        if kind == "before":
            pieces.before[week] = values
            continue
        piece = pieces.now.get(week) or pieces.now.setdefault(week, Piece({}, {}, {}, {}))
        part: dict[str, Values] = getattr(piece, kind)
        group = key or ""  # no team and a team without a name are the same
        part[group] = add_values(part[group], values) if group in part else values


def add_values(left: Values, right: Values) -> Values:
    return tuple(map(add, left, right))


def sum_weeks(parts: Iterable[dict[str, Values]]) -> dict[str, Sums]:
    """The sums of all weeks together."""
    sums: dict[str, Values] = {}
    for part in parts:
        for key, values in part.items():
            sums[key] = add_values(sums[key], values) if key in sums else values
    return {key: Sums(*values) for key, values in sums.items()}


def total(parts: Iterable[Values]) -> Sums:
    return Sums(*map(sum, zip(*parts, strict=True)))
