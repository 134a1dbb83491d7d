"""All figures of the statistics page, its CSV files and the digest: kinds, costs and verdicts of failures.

Eight queries for any number of incidents. Sums of incidents are cached per week: after an act only its week is read
again. Definitions and units: docs/metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, Q, QuerySet, Sum, Value

from ingest.models import Attempt, Job
from triage.metrics import LEMON_DAYS
from triage.models import Incident, Suspect
from triage.search import Query, parse
from triage.selectors import statistics_tables as tables
from triage.selectors.access import visible_cluster_ids, visible_clusters
from triage.selectors.fleet_runs import fleet_runs
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.memory import cached_evidence, updated_result
from triage.selectors.period_figures import Exposure, Figure, figures_of
from triage.selectors.sums import Period, Pieces, Sums, in_period, pieces_of, sum_weeks, total

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DIMENSIONS", "TABLES", "Period", "Statistics", "exposure_of", "statistics_of"]

#: dimensions of the breakdown
DIMENSIONS = {
    "cluster": "cluster",
    "team": "team__slug",
    "framework": "job__framework",
    "model": "job__model",
    "symptom": "symptom",
    "stage": "stage",
}


#: the figures of the head row; the others are details
_HEAD = ("incidents", "gpu_hours", "ettr")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Tables to show, draw and export; every frame has one row per mark."""

    period: Period
    query: Query
    by: str
    total: int
    #: all costs: their parts, and how many are known
    sums: Sums
    #: those with a known cost, those with a rejected verdict, and imported faults
    priced: int
    rejected: int
    imported: int
    figures: tuple[Figure, ...]
    weeks: pd.DataFrame  # week, category, incidents, gpu_hours
    pareto: pd.DataFrame  # category, title, incidents, gpu_hours, node_hours, share, cumulative
    verdicts: pd.DataFrame  # week, awaiting, right, wrong, unnamed
    precision: pd.DataFrame  # category, title, reviewed, right, precision
    calibration: pd.DataFrame  # low, high, claimed, judged, right, share, least, most
    dimension: pd.DataFrame  # value, incidents, gpu_hours, node_hours
    offenders: pd.DataFrame  # node, incidents, imported, gpu_hours
    backlog: pd.DataFrame  # age, incidents, term

    @property
    def head(self) -> tuple[Figure, ...]:
        """The three figures that answer how much, what it cost, and what of the time was
        effective.
        """
        return tuple(figure for figure in self.figures if figure.key in _HEAD)

    @property
    def details(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.key not in _HEAD)

    @property
    def most_frequent(self) -> dict[str, Any] | None:
        """The row of ``pareto`` with most incidents, the costliest of equals; None without
        incidents.
        """
        rows = self.pareto.to_dict("records")
        return max(rows, key=lambda row: row["incidents"], default=None)

    def table(self, name: str) -> pd.DataFrame:
        """The table of this name, ``figures`` included; KeyError for other names."""
        if name == "figures":
            columns = ["key", "title", "value", "before", "unit", "basis"]
            rows = [[getattr(figure, column) for column in columns] for figure in self.figures]
            return tables.frame_of(rows, columns)
        if name not in TABLES:
            raise KeyError(name)
        frame: pd.DataFrame = getattr(self, name)
        return frame


type Spans = list[tuple[datetime, datetime]]
TABLES = ("weeks", "pareto", "verdicts", "precision", "calibration", "dimension", "offenders", "backlog")


def statistics_of(*, user: Any, query: Query, period: Period, by: str = "cluster", now: datetime) -> Statistics:
    """The statistics of incidents that ``user`` may see, ``query`` matches, and that happened in ``period``.

    Complexity: eight queries, each of few passes over an index (two small ones instead of the
    longest if the weeks are cached), then linear in weeks x categories.
    """
    incidents = query.apply(incidents_visible_to(user), user=user, now=now)
    pieces = _pieces(user, query, period, by, now)
    weeks = {week: piece.cells for week, piece in sorted(pieces.now.items())}
    categories = sum_weeks(weeks.values())
    otherwise = sum_weeks(piece.otherwise for piece in pieces.now.values())
    dimension = sum_weeks(piece.dimension for piece in pieces.now.values())
    bins = sum_weeks(piece.bins for piece in pieces.now.values())
    now_sums, former_sums = total(categories.values()), total(pieces.before.values())
    return Statistics(
        period=period,
        query=query,
        by=by,
        total=int(now_sums.incidents),
        sums=now_sums,
        priced=int(now_sums.priced),
        rejected=int(now_sums.rejected),
        imported=int(now_sums.incidents - now_sums.diagnosed),
        figures=figures_of((now_sums, former_sums), _exposure(user, query, period, now)),
        weeks=tables.weeks(weeks),
        pareto=tables.pareto(categories),
        verdicts=tables.verdicts(weeks),
        precision=tables.precision(categories, otherwise),
        calibration=tables.calibration(bins),
        dimension=tables.dimension(dimension, visible_clusters(user) if by == "cluster" else {}),
        offenders=_offenders(incidents, period),
        backlog=_backlog(incidents, now),
    )


def _pieces(user: Any, query: Query, period: Period, by: str, now: datetime) -> Pieces:
    """The sums by week; cached between acts if they depend on nothing but the incidents."""
    incidents, key = query.apply(incidents_visible_to(user), user=user, now=now), DIMENSIONS[by]
    if query.job_condition() or key.startswith("job__"):
        return pieces_of(incidents, period, key)
    return updated_result(
        "weekly sums",
        user=user,
        parts=(query, period, by),
        now=now,
        renew=lambda cached: pieces_of(incidents, period, key, cached),
        is_personal=query.is_personal,
    )


def _exposure(user: Any, query: Query, period: Period, now: datetime) -> tuple[Exposure, ...]:
    """Run time and effective training time in this period and in the one before, of the query's
    jobs; remembered until a job or its evidence changes. One small query, and three if it does.
    """
    return cached_evidence(
        "exposure",
        user=user,
        parts=(query, period),
        now=now,
        is_personal=query.is_personal,
        compute=lambda: _exposure_now(user, query, period),
    )


def _exposure_now(user: Any, query: Query, period: Period) -> tuple[Exposure, ...]:
    spans = _spans(period)
    run_times = _run_times(user, query, spans)
    known = fleet_runs(user, query, period)
    pairs = zip(run_times, spans, strict=True)
    return tuple(Exposure(*ran, known.effective(*span)) for ran, span in pairs)


def _spans(period: Period) -> Spans:
    """The period, and the one before."""
    return [(period.starts_at, period.ends_at), (period.before_at, period.starts_at)]


def _run_times(user: Any, query: Query, spans: Spans) -> list[tuple[float, float]]:
    """Seconds that attempts ran that ended in each span, and their node-days.

    Healthy jobs count, too: terms about incidents do not filter it. One query of a sum for each
    span.
    """
    visible, condition = Q(cluster__in=visible_cluster_ids(user)), query.job_condition()
    # most people see most jobs: testing for an excluded job is faster
    other_jobs = Job.objects.exclude(visible).order_by().values("pk")
    matching_jobs = Job.objects.filter(condition, visible).order_by().values("pk")
    jobs = Q(job__in=matching_jobs) if condition else ~Q(job__in=other_jobs)
    parts = [
        Attempt.objects.filter(jobs, ended_at__gte=low, ended_at__lt=high, duplicate_of=None)
        .order_by()
        .values(which=Value(which))
        .annotate(wall_s=Sum("ran_s"), node_s=Sum(F("ran_s") * F("node_count")))
        .values_list("which", "wall_s", "node_s")
        for which, (low, high) in enumerate(spans)
    ]
    rows = parts[0].union(*parts[1:], all=True).order_by()
    sums = {which: (wall_s or 0.0, (node_s or 0.0) / 86_400) for which, wall_s, node_s in rows}
    return [sums.get(which, (0.0, 0.0)) for which in range(len(spans))]


def exposure_of(*, user: Any, query: Query, period: Period, now: datetime) -> tuple[int, float]:
    """How many diagnosed incidents happened in the period, and the node-days at risk; two queries."""
    incidents = query.apply(incidents_visible_to(user), user=user, now=now).filter(is_imported=False)
    (_, node_days), *_ = _run_times(user, query, _spans(period)[:1])
    return in_period(incidents, period.starts_at, period.ends_at).count(), node_days


def _offenders(incidents: QuerySet[Incident], period: Period) -> pd.DataFrame:
    """Nodes accused more than once in the last LEMON_DAYS of the period, without those that a person cleared."""
    recent = in_period(incidents, max(period.starts_at, period.ends_at - timedelta(days=LEMON_DAYS)), period.ends_at)
    rows = (
        Suspect.objects.filter(incident__in=recent.exclude(state=Incident.State.REJECTED), kind="node", is_accused=True)
        .exclude(word__in=Suspect.CLEARED)
        .order_by()
        .values("entity")
        .annotate(
            incidents=Count("incident", distinct=True),
            imported=Count("incident", distinct=True, filter=Q(incident__is_imported=True)),
            gpu=Sum("incident__gpu_hours"),
        )
        .filter(incidents__gt=1)
        .order_by("-incidents", "entity")
        .values_list("entity", "incidents", "imported", "gpu")[:20]
    )
    return tables.frame_of(rows, columns=["node", "incidents", "imported", "gpu_hours"])


#: (label, search term) of each age; together they cover every age once
_AGES = (
    ("under 1 d", "opened:<1d"),
    ("1–3 d", "opened:>1d opened:<3d"),
    ("3–7 d", "opened:>3d opened:<7d"),
    ("7–30 d", "opened:>7d opened:<30d"),
    ("over 30 d", "opened:>30d"),
)


def _backlog(incidents: QuerySet[Incident], now: datetime) -> pd.DataFrame:
    """How long incidents have waited for review, independent of when they happened."""
    ages = {f"age_{n}": Count("pk", filter=parse(term).condition(now=now)) for n, (_, term) in enumerate(_AGES)}
    counts = incidents.filter(state=Incident.State.AWAITING_REVIEW).order_by().aggregate(**ages)
    labels, terms = zip(*_AGES, strict=True)
    rows = zip(labels, [counts[name] for name in ages], terms, strict=True)
    return tables.frame_of(rows, columns=["age", "incidents", "term"])
