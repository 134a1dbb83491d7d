"""What failures were, cost and taught: everything that the statistics page, its CSV files and the digest show.

Four grouped queries are made, whatever the number of incidents; pandas folds their rows into the tables. Definitions
and units: docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, Sum, Value, When

from diagnosis import taxonomy
from ingest.models import Attempt, Job
from triage.models import Incident, Suspect
from triage.search import Query, parse
from triage.selectors.access import visible_cluster_ids, visible_clusters
from triage.selectors.incidents import incidents_visible_to

if TYPE_CHECKING:
    import pandas as pd

#: what the page can break incidents down by
DIMENSIONS = {
    "cluster": "cluster",
    "team": "job__team__slug",
    "framework": "job__framework",
    "model": "job__model",
    "symptom": "symptom",
    "stage": "stage",
}
#: a repeat offender is one within this many days
LEMON_DAYS = 28
_REVIEWED_RIGHT = [Incident.State.CONFIRMED, Incident.State.ACTIONED, Incident.State.RESOLVED, Incident.State.CORRECTED]


@dataclass(frozen=True, slots=True)
class Period:
    """Days from ``start`` to ``end``, both included, in UTC; the period before it is as long and ends at ``start``."""

    start: date
    end: date

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


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the head row, with the same of the period before. ``None`` where nothing tells."""

    key: str
    title: str
    value: float | None
    before: float | None
    unit: str
    is_more_better: bool

    @property
    def change(self) -> float | None:
        """Relative change, as a fraction."""
        if self.value is None or not self.before:
            return None
        return (self.value - self.before) / self.before

    @property
    def is_better(self) -> bool | None:
        return None if not self.change else (self.change > 0) == self.is_more_better


@dataclass(frozen=True, slots=True)
class Statistics:
    """Tables ready to be shown, drawn and exported; every frame has one row a mark."""

    period: Period
    query: Query
    by: str
    total: int
    figures: tuple[Figure, ...]
    weeks: pd.DataFrame  # week, category, incidents, gpu_hours
    pareto: pd.DataFrame  # category, title, incidents, gpu_hours, node_hours, share, cumulative
    verdicts: pd.DataFrame  # week, awaiting, right, wrong
    precision: pd.DataFrame  # category, title, reviewed, right, precision
    dimension: pd.DataFrame  # value, incidents, gpu_hours, node_hours
    offenders: pd.DataFrame  # node, incidents, gpu_hours
    backlog: pd.DataFrame  # age, incidents, term

    def table(self, name: str) -> pd.DataFrame:
        """The table of this name; KeyError names none other than TABLES."""
        if name not in TABLES:
            raise KeyError(name)
        frame: pd.DataFrame = getattr(self, name)
        return frame


TABLES = ("weeks", "pareto", "verdicts", "precision", "dimension", "offenders", "backlog")


def statistics_of(*, user: Any, query: Query, period: Period, by: str = "cluster", now: datetime) -> Statistics:
    """Everything about the incidents that ``user`` may see, ``query`` matches, and that happened in ``period``.

    Complexity: four grouped queries, then linear in their rows (weeks x categories x states).
    """
    seen = query.apply(incidents_visible_to(user), user=user, now=now)
    rows = _grouped(seen, period)
    current = rows[rows.is_current]
    return Statistics(
        period=period,
        query=query,
        by=by,
        total=int(current.incidents.sum()),
        figures=_figures(rows, _exposure(user, query, period)),
        weeks=_weeks(current),
        pareto=_pareto(current),
        verdicts=_verdicts(current),
        precision=_precision(current),
        dimension=_dimension(seen, period, by, visible_clusters(user)),
        offenders=_offenders(seen, period),
        backlog=_backlog(seen, now),
    )


def _frame(rows: Iterable[Sequence[Any]], columns: list[str]) -> pd.DataFrame:
    # A second of import that no other page of a web process should pay.
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame.from_records(list(rows), columns=columns)


def _grouped(seen: QuerySet[Incident], period: Period) -> pd.DataFrame:
    """The one pass over both periods: a row for each (period, week, standing and machine category, state)."""
    is_current = Case(
        When(happened_at__gte=period.starts_at, then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    keys = ("is_current", "week", "standing_category", "category", "state")
    rows = (
        seen.filter(happened_at__gte=period.before_at, happened_at__lt=period.ends_at)
        .order_by()
        .annotate(is_current=is_current)
        .values(*keys)
        .annotate(
            incidents=Count("pk"),
            gpu=Sum("gpu_hours"),
            machines=Sum("node_hours"),
            lost=Sum("lost_s"),
            detected=Sum("detected_s"),
            detections=Count("detected_s"),
            repaired=Sum("repaired_s"),
            repairs=Count("repaired_s"),
        )
        .values_list(*keys, "incidents", "gpu", "machines", "lost", "detected", "detections", "repaired", "repairs")
    )
    columns = [
        *keys,
        "incidents",
        "gpu_hours",
        "node_hours",
        "lost_s",
        "detected_s",
        "detections",
        "repaired_s",
        "repairs",
    ]
    frame = _frame(rows, columns=columns)
    frame["is_current"] = frame.is_current.astype(bool)
    numbers = columns[len(keys) :]
    frame[numbers] = frame[numbers].astype(float).fillna(0.0)
    judged = ~frame.state.isin([Incident.State.AWAITING_REVIEW, Incident.State.INCONCLUSIVE])
    frame["is_judged"] = judged
    frame["is_right"] = judged & frame.state.isin(_REVIEWED_RIGHT) & (frame.category == frame.standing_category)
    frame["top"] = frame.standing_category.str.partition(".")[0] if len(frame) else ""
    return frame


@dataclass(frozen=True, slots=True)
class Exposure:
    """How long jobs ran in a period, which failures are measured against."""

    wall_s: float
    node_days: float


def _jobs(user: Any, query: Query) -> Any:
    """Ids of the jobs that the query's terms about jobs leave, for a subquery."""
    jobs = Job.objects.filter(query.job_condition(), cluster__in=visible_cluster_ids(user))
    return jobs.order_by().values("pk")


def _exposure(user: Any, query: Query, period: Period) -> tuple[Exposure, Exposure]:
    """Run time of the attempts that ended in this period and in the one before, of the jobs that the query names.

    Healthy jobs count too: terms about incidents do not narrow it.
    """
    is_current = Q(ended_at__gte=period.starts_at)
    sums = Attempt.objects.filter(
        job__in=_jobs(user, query),
        ended_at__gte=period.before_at,
        ended_at__lt=period.ends_at,
    ).aggregate(
        now_s=Sum("ran_s", filter=is_current),
        before_s=Sum("ran_s", filter=~is_current),
        now_node_s=Sum(F("ran_s") * F("node_count"), filter=is_current),
        before_node_s=Sum(F("ran_s") * F("node_count"), filter=~is_current),
    )
    days = {name: (value or 0.0) for name, value in sums.items()}
    return (
        Exposure(days["now_s"], days["now_node_s"] / 86_400),
        Exposure(days["before_s"], days["before_node_s"] / 86_400),
    )


def exposure_of(*, user: Any, query: Query, period: Period, now: datetime) -> tuple[int, float]:
    """How many incidents happened in the period, and the node-days in which they could. Three queries."""
    seen = query.apply(incidents_visible_to(user), user=user, now=now)
    happened = _within(seen, period.starts_at, period.ends_at).exclude(state=Incident.State.REJECTED)
    return happened.count(), _exposure(user, query, period)[0].node_days


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _figures(rows: pd.DataFrame, exposure: tuple[Exposure, Exposure]) -> tuple[Figure, ...]:
    both = (rows[rows.is_current], rows[~rows.is_current])

    def pair(of: Any) -> tuple[float | None, float | None]:
        values = [of(part, ran) for part, ran in zip(both, exposure, strict=True)]
        now, before = (None if value is None else float(value) for value in values)
        return now, before

    def ettr(part: pd.DataFrame, ran: Exposure) -> float | None:
        share = _ratio(part.lost_s.sum(), ran.wall_s)
        return None if share is None else max(0.0, 1 - share)

    def figure(key: str, title: str, unit: str, is_more_better: bool, of: Any) -> Figure:
        return Figure(key, title, *pair(of), unit, is_more_better)

    return (
        figure("incidents", "Incidents", "", False, lambda part, ran: part.incidents.sum()),
        figure("gpu_hours", "GPU-hours lost", "h", False, lambda part, ran: part.gpu_hours.sum()),
        figure("mtbf", "MTBF", "s", True, lambda part, ran: _ratio(ran.wall_s, part.incidents.sum()) or None),
        figure("mttd", "MTTD", "s", False, lambda part, ran: _ratio(part.detected_s.sum(), part.detections.sum())),
        figure("mttr", "MTTR", "s", False, lambda part, ran: _ratio(part.repaired_s.sum(), part.repairs.sum())),
        figure("ettr", "ETTR", "%", True, ettr),
        figure(
            "right",
            "Verdicts confirmed",
            "%",
            True,
            lambda part, ran: _ratio(part.incidents[part.is_right].sum(), part.incidents[part.is_judged].sum()),
        ),
    )


def _weeks(current: pd.DataFrame) -> pd.DataFrame:
    return (
        current.groupby(["week", "top"], as_index=False)[["incidents", "gpu_hours"]]
        .sum()
        .rename(columns={"top": "category"})
    )


def _pareto(current: pd.DataFrame) -> pd.DataFrame:
    """Categories by what they cost, dearest first; by their number where nothing tells the cost."""
    tree = taxonomy.load()
    frame = current.groupby("standing_category", as_index=False)[["incidents", "gpu_hours", "node_hours"]].sum()
    frame = frame.rename(columns={"standing_category": "category"})
    weight = "gpu_hours" if frame.gpu_hours.sum() else "incidents"
    frame = frame.sort_values([weight, "incidents", "category"], ascending=[False, False, True], ignore_index=True)
    frame.insert(1, "title", [" › ".join(tree.path(tree.get(value).id)) for value in frame.category])
    frame["share"] = frame[weight] / (frame[weight].sum() or 1.0)
    frame["cumulative"] = frame.share.cumsum()
    return frame


def _verdicts(current: pd.DataFrame) -> pd.DataFrame:
    kinds = current.assign(
        awaiting=current.incidents.where(~current.is_judged, 0.0),
        right=current.incidents.where(current.is_right, 0.0),
        wrong=current.incidents.where(current.is_judged & ~current.is_right, 0.0),
    )
    return kinds.groupby("week", as_index=False)[["awaiting", "right", "wrong"]].sum()


def _precision(current: pd.DataFrame) -> pd.DataFrame:
    """By the category that the *machine* named: how often its reviewers left it standing."""
    tree = taxonomy.load()
    judged = current[current.is_judged]
    counts = judged.assign(right=judged.incidents.where(judged.is_right, 0.0))
    frame = counts.groupby("category", as_index=False)[["incidents", "right"]].sum()
    frame = frame.rename(columns={"incidents": "reviewed"}).sort_values("reviewed", ascending=False, ignore_index=True)
    frame.insert(1, "title", [" › ".join(tree.path(tree.get(value).id)) for value in frame.category])
    frame["precision"] = frame.right / frame.reviewed
    return frame


def _within(seen: QuerySet[Incident], low: datetime, high: datetime) -> QuerySet[Incident]:
    return seen.filter(happened_at__gte=low, happened_at__lt=high).order_by()


def _dimension(seen: QuerySet[Incident], period: Period, by: str, clusters: dict[int, str]) -> pd.DataFrame:
    rows = (
        _within(seen, period.starts_at, period.ends_at)
        .values(value=F(DIMENSIONS[by]))
        .annotate(incidents=Count("pk"), gpu=Sum("gpu_hours"), machines=Sum("node_hours"))
        .order_by("-incidents")
        .values_list("value", "incidents", "gpu", "machines")[:25]
    )
    frame = _frame(rows, columns=["value", "incidents", "gpu_hours", "node_hours"])
    if by == "cluster":  # grouped by number, which the index holds; named afterwards
        frame["value"] = [clusters[value] for value in frame.value]
    return frame.fillna({"value": "", "gpu_hours": 0.0, "node_hours": 0.0})


def _offenders(seen: QuerySet[Incident], period: Period) -> pd.DataFrame:
    """Nodes accused more than once in the last LEMON_DAYS of the period, without those a human cleared."""
    recent = _within(seen, max(period.starts_at, period.ends_at - timedelta(days=LEMON_DAYS)), period.ends_at)
    rows = (
        Suspect.objects.filter(incident__in=recent.exclude(state=Incident.State.REJECTED), kind="node", is_accused=True)
        .order_by()
        .values("entity")
        .annotate(incidents=Count("incident", distinct=True), gpu=Sum("incident__gpu_hours"))
        .filter(incidents__gt=1)
        .order_by("-incidents", "entity")
        .values_list("entity", "incidents", "gpu")[:20]
    )
    return _frame(rows, columns=["node", "incidents", "gpu_hours"]).fillna({"gpu_hours": 0.0})


#: (label, search term) of each age; together they cover every age once
_AGES = (
    ("under 1 d", "opened:<1d"),
    ("1–3 d", "opened:>1d opened:<3d"),
    ("3–7 d", "opened:>3d opened:<7d"),
    ("7–30 d", "opened:>7d opened:<30d"),
    ("over 30 d", "opened:>30d"),
)


def _backlog(seen: QuerySet[Incident], now: datetime) -> pd.DataFrame:
    """How long incidents have been waiting for their review, whenever they happened."""
    ages = {f"age_{n}": Count("pk", filter=parse(term).condition(now=now)) for n, (_, term) in enumerate(_AGES)}
    found = seen.filter(state=Incident.State.AWAITING_REVIEW).order_by().aggregate(**ages)
    labels, terms = zip(*_AGES, strict=True)
    rows = zip(labels, [found[name] for name in ages], terms, strict=True)
    return _frame(rows, columns=["age", "incidents", "term"])
