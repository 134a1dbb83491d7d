"""What failures were, cost and taught: everything that the statistics page, its CSV files and the digest show.

Five queries are made, whatever the number of incidents; what they group is folded into the tables. What incidents add
up to is kept week by week: after an act only its week is asked for again. Definitions and units: docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, Q, QuerySet, Sum, Value

from diagnosis import taxonomy
from diagnosis.metrics import LEMON_DAYS
from ingest.models import Attempt, Job
from triage.models import Incident, Suspect
from triage.search import Query, parse
from triage.selectors.access import visible_cluster_ids, visible_clusters
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.memory import renewed
from triage.selectors.sums import Period, Pieces, Sums, Values, folded, pieces_of, total, within

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DIMENSIONS", "TABLES", "Figure", "Period", "Statistics", "exposure_of", "statistics_of"]

#: what the page can break incidents down by
DIMENSIONS = {
    "cluster": "cluster",
    "team": "team__slug",
    "framework": "job__framework",
    "model": "job__model",
    "symptom": "symptom",
    "stage": "stage",
}


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
    #: of them those whose cost the evidence tells, and those whose verdict a human rejected
    priced: int
    rejected: int
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

    Complexity: five queries, each one or a few passes over an index (two small ones instead of the longest where the
    weeks are kept), then linear in weeks x categories.
    """
    seen = query.apply(incidents_visible_to(user), user=user, now=now)
    pieces = _pieces(user, query, period, by, now)
    weeks = {week: piece.cells for week, piece in sorted(pieces.now.items())}
    categories = folded(weeks.values())
    whole, before = total(categories.values()), total(pieces.before.values())
    return Statistics(
        period=period,
        query=query,
        by=by,
        total=int(whole.incidents),
        priced=int(whole.priced),
        rejected=int(whole.rejected),
        figures=_figures((whole, before), _exposure(user, query, period)),
        weeks=_weeks(weeks),
        pareto=_pareto(categories),
        verdicts=_verdicts(weeks),
        precision=_precision(categories, folded(piece.otherwise for piece in pieces.now.values())),
        dimension=_dimension(folded(piece.dimension for piece in pieces.now.values()), by, visible_clusters(user)),
        offenders=_offenders(seen, period),
        backlog=_backlog(seen, now),
    )


def _pieces(user: Any, query: Query, period: Period, by: str, now: datetime) -> Pieces:
    """The sums by week; kept from one act to the next where they depend on nothing but the incidents."""
    seen, key = query.apply(incidents_visible_to(user), user=user, now=now), DIMENSIONS[by]
    if query.job_condition() or key.startswith("job__"):
        return pieces_of(seen, period, key)
    return renewed(
        "pieces",
        user=user,
        parts=(query, period, by),
        now=now,
        renew=lambda kept: pieces_of(seen, period, key, kept),
        is_personal=query.is_personal,
    )


def _frame(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    # A second of import that no other page of a web process should pay.
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame.from_records(list(rows), columns=list(columns))


@dataclass(frozen=True, slots=True)
class Exposure:
    """How long jobs ran in a period, which failures are measured against."""

    wall_s: float
    node_days: float


def _exposure(user: Any, query: Query, period: Period) -> tuple[Exposure, Exposure]:
    """Run time of the attempts that ended in this period and in the one before, of the jobs that the query names.

    Healthy jobs count too: terms about incidents do not narrow it. One query of two sums.
    """
    seen, condition = Q(cluster__in=visible_cluster_ids(user)), query.job_condition()
    # most people see most jobs: it is quicker to ask whether a job is among those that are left out
    others = Job.objects.exclude(seen).order_by().values("pk")
    named = Job.objects.filter(condition, seen).order_by().values("pk")
    jobs = Q(job__in=named) if condition else ~Q(job__in=others)
    parts = [
        Attempt.objects.filter(jobs, ended_at__gte=low, ended_at__lt=high)
        .order_by()
        .values(which=Value(which))
        .annotate(wall_s=Sum("ran_s"), node_s=Sum(F("ran_s") * F("node_count")))
        .values_list("which", "wall_s", "node_s")
        for which, low, high in ((0, period.starts_at, period.ends_at), (1, period.before_at, period.starts_at))
    ]
    rows = parts[0].union(parts[1], all=True).order_by()
    sums = {which: Exposure(wall_s or 0.0, (node_s or 0.0) / 86_400) for which, wall_s, node_s in rows}
    nothing = Exposure(0.0, 0.0)
    return sums.get(0, nothing), sums.get(1, nothing)


def exposure_of(*, user: Any, query: Query, period: Period, now: datetime) -> tuple[int, float]:
    """How many incidents happened in the period, and the node-days in which they could. Three queries."""
    seen = query.apply(incidents_visible_to(user), user=user, now=now)
    return within(seen, period.starts_at, period.ends_at).count(), _exposure(user, query, period)[0].node_days


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def _figures(sums: tuple[Sums, Sums], exposure: tuple[Exposure, Exposure]) -> tuple[Figure, ...]:
    def ettr(part: Sums, ran: Exposure) -> float | None:
        share = _ratio(part.lost_s, ran.wall_s)
        return None if share is None else max(0.0, 1 - share)

    def figure(key: str, title: str, unit: str, is_more_better: bool, of: _Measure) -> Figure:
        now, before = (of(part, ran) for part, ran in zip(sums, exposure, strict=True))
        return Figure(key, title, now, before, unit, is_more_better)

    return (
        figure("incidents", "Incidents", "", False, lambda part, ran: part.incidents),
        figure("gpu_hours", "GPU-hours lost", "h", False, lambda part, ran: part.gpu_hours),
        figure("mtbf", "MTBF", "s", True, lambda part, ran: _ratio(ran.wall_s, part.incidents) or None),
        figure("mttd", "MTTD", "s", False, lambda part, ran: _ratio(part.detected_s, part.detections)),
        figure("mttr", "MTTR", "s", False, lambda part, ran: _ratio(part.repaired_s, part.repairs)),
        figure("ettr", "ETTR", "%", True, ettr),
        figure("right", "Verdicts confirmed", "%", True, lambda part, ran: _ratio(part.right, part.judged)),
    )


_Measure = Callable[[Sums, Exposure], float | None]


def _weeks(weeks: dict[date, dict[str, Values]]) -> pd.DataFrame:
    found: dict[tuple[date, str], tuple[float, float]] = {}
    for week, cells in weeks.items():
        for category, (incidents, gpu_hours, *_) in cells.items():
            key = week, category.partition(".")[0]
            had = found.get(key, (0.0, 0.0))
            found[key] = had[0] + incidents, had[1] + gpu_hours
    return _frame(
        [(*key, *sums) for key, sums in sorted(found.items())], ["week", "category", "incidents", "gpu_hours"]
    )


def _title(category: str) -> str:
    tree = taxonomy.load()
    return " › ".join(tree.path(tree.get(category).id))


def _pareto(found: dict[str, Sums]) -> pd.DataFrame:
    """Categories by what they cost, dearest first; by their number where nothing tells the cost."""
    has_cost = any(sums.gpu_hours for sums in found.values())

    def weight(sums: Sums) -> float:
        return sums.gpu_hours if has_cost else sums.incidents

    ranked = sorted(found.items(), key=lambda item: (-weight(item[1]), -item[1].incidents, item[0]))
    whole = sum(weight(sums) for _, sums in ranked) or 1.0
    shares = [weight(sums) / whole for _, sums in ranked]
    rows = [
        (name, _title(name), sums.incidents, sums.gpu_hours, sums.node_hours, share, running)
        for (name, sums), share, running in zip(ranked, shares, accumulate(shares), strict=True)
    ]
    return _frame(rows, ["category", "title", "incidents", "gpu_hours", "node_hours", "share", "cumulative"])


def _verdicts(weeks: dict[date, dict[str, Values]]) -> pd.DataFrame:
    by_week = ((week, total(cells.values())) for week, cells in weeks.items())
    rows = [(week, sums.incidents - sums.judged, sums.right, sums.judged - sums.right) for week, sums in by_week]
    return _frame(rows, ["week", "awaiting", "right", "wrong"])


def _precision(categories: dict[str, Sums], otherwise: dict[str, Sums]) -> pd.DataFrame:
    """By the category that the *machine* named: how often its reviewers left it standing."""
    judged = {name: (sums.judged_alike, sums.right) for name, sums in categories.items()}
    for name, sums in otherwise.items():
        alike, right = judged.get(name, (0.0, 0.0))
        judged[name] = (alike + sums.judged, right)
    ranked = sorted(judged.items(), key=lambda item: (-item[1][0], item[0]))
    rows = [(name, _title(name), reviewed, right, right / reviewed) for name, (reviewed, right) in ranked if reviewed]
    return _frame(rows, ["category", "title", "reviewed", "right", "precision"])


def _dimension(found: dict[str, Sums], by: str, clusters: dict[int, str]) -> pd.DataFrame:
    ranked = sorted(found.items(), key=lambda item: (-item[1].incidents, item[0]))[:25]
    # clusters are grouped by number, which the index holds, and named afterwards
    rows = [
        (clusters[int(value)] if by == "cluster" else value, sums.incidents, sums.gpu_hours, sums.node_hours)
        for value, sums in ranked
    ]
    return _frame(rows, ["value", "incidents", "gpu_hours", "node_hours"])


def _offenders(seen: QuerySet[Incident], period: Period) -> pd.DataFrame:
    """Nodes accused more than once in the last LEMON_DAYS of the period, without those a human cleared."""
    recent = within(seen, max(period.starts_at, period.ends_at - timedelta(days=LEMON_DAYS)), period.ends_at)
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
