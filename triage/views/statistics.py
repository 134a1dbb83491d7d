"""The managers' page: what costs most, whether it improves, whether the machine can be trusted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from ingest.roles import can
from triage import search
from triage.export import csv_lines
from triage.selectors.calibration import MIN_JUDGED
from triage.selectors.demonstration import notice_of_figures, query_for_figures
from triage.selectors.memory import cached_result
from triage.selectors.statistics import DIMENSIONS, TABLES, Period, Statistics, statistics_of
from triage.selectors.sums import INVALID_DATES
from triage.views.common import demonstration

if TYPE_CHECKING:
    import pandas as pd

#: span in the address → days that end today, or None for a calendar month, and the tab's label
_SPANS: dict[str, tuple[int | None, str]] = {
    "7d": (7, "Last 7 days"),
    "30d": (30, "Last 30 days"),
    "90d": (90, "Last 90 days"),
    "365d": (365, "Last 365 days"),
    "month": (None, "This month"),
    "last-month": (None, "Last month"),
}
_DEFAULT_SPAN = "90d"


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    if not can(request.user, "statistics"):
        raise PermissionDenied("Statistics are for engineers and managers: ask an administrator for the role.")
    state, problem = page_state(request)
    shown = _statistics(request, state)
    links = _Links(shown)
    context = {
        "nav": "statistics",
        "q": state["q"],
        "problem": problem,
        "shown": shown,
        "words": shown.query.words(),
        "spans": {name: words for name, (_, words) in _SPANS.items()},
        "span": state["span"],
        "dimensions": list(DIMENSIONS),
        "measure": state["measure"],
        "params": request.GET,
        "without_rejected": f"?{_params(request, q=str(shown.query.plus('is', 'rejected', is_negated=True)))}",
        "without_imported": f"?{_params(request, q=str(shown.query.plus('is', 'imported', is_negated=True)))}",
        "can_export": can(request.user, "export"),
        "drawn": _cached(request, state, "charts", state["measure"], compute=lambda: _charts(links, state["measure"])),
        "frequent": _with_link(links, shown.most_frequent),
        "weeks": links.days(),
        "pareto": _rows(shown.pareto, links.categories(shown.pareto.category)),
        "precision": [
            {**row, "judged": judged}
            for row, judged in zip(
                _rows(shown.precision, links.misses(shown.precision.category)),
                links.judged(shown.precision.category),
                strict=True,
            )
        ],
        "calibration": [
            {**row, "is_known": row["share"] == row["share"]} for row in _rows(shown.calibration, links.bins())
        ],
        "has_calibration": bool(shown.calibration.share.notna().any()),
        "least_judged": MIN_JUDGED,
        "dimension": _rows(shown.dimension, links.values()),
        "offenders": _rows(shown.offenders, [reverse("node", args=[name]) for name in shown.offenders.node]),
        "backlog": _rows(shown.backlog, links.terms(shown.backlog.term)),
    }
    context |= demonstration(request, notice_of_figures(shown.query, request.user))
    return render(request, "triage/statistics/page.html", context)


@require_safe
def table_csv(request: HttpRequest, table: str) -> StreamingHttpResponse:
    """The data of a chart, one row per mark."""
    if not can(request.user, "export"):
        raise PermissionDenied("Exports are for managers: ask an administrator for the role.")
    if table not in (*TABLES, "figures"):
        raise Http404(f"There is no table “{table}”: there are figures, {', '.join(TABLES)}.")
    state, problem = page_state(request)
    if problem:
        raise Http404(problem)
    frame = _statistics(request, state).table(table)
    lines = csv_lines(frame.columns, frame.itertuples(index=False))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="faultline-{table}.csv"'
    return response


def page_state(request: HttpRequest) -> tuple[dict[str, Any], str]:
    """The page's state from the address; an invalid value gives a sentence and its default."""
    params: QueryDict = request.GET
    today = timezone.now().date()
    problem = ""
    text = params.get("q", "").strip()
    try:
        query = search.parse(text)
    except search.SearchError as error:
        query, problem = search.Query(), str(error)
    query = query_for_figures(query, request.user)
    span = params.get("span", "")
    try:
        end = date.fromisoformat(params.get("until", "")) if params.get("until") else today
        if params.get("since"):
            start, span = date.fromisoformat(params.get("since", "")), ""
        else:
            span = span if span in _SPANS else _DEFAULT_SPAN
            start, end = _days_of(span, end)
        period = Period.between(start, end)
    except (ValueError, OverflowError):
        problem = problem or INVALID_DATES
        span = _DEFAULT_SPAN
        period = Period.between(*_days_of(span, today))
    by = params.get("by", "cluster")
    return {
        "q": text,
        "query": query,
        "span": span,
        "period": period,
        "by": by if by in DIMENSIONS else "cluster",
        "measure": "gpu_hours" if params.get("measure") == "gpu_hours" else "incidents",
    }, problem


def _params(request: HttpRequest, **changes: str) -> str:
    """The address's parameters with some of them changed."""
    params = request.GET.copy()
    for name, value in changes.items():
        params[name] = value
    return params.urlencode()


def _days_of(span: str, end: date) -> tuple[date, date]:
    """First and last day of a span that ends on ``end``, or of the month of that day or the month before."""
    days, _ = _SPANS[span]
    if days:
        return end - timedelta(days=days - 1), end
    first = end.replace(day=1)
    if span == "month":
        return first, end
    last = first - timedelta(days=1)
    return last.replace(day=1), last


def _cached[T](request: HttpRequest, state: dict[str, Any], name: str, *more: str, compute: Callable[[], T]) -> T:
    parts = (state["query"], state["period"], state["by"], *more)
    personal = state["query"].is_personal
    now = timezone.now()
    return cached_result(name, user=request.user, parts=parts, is_personal=personal, now=now, compute=compute)


def _statistics(request: HttpRequest, state: dict[str, Any]) -> Statistics:
    params = {name: state[name] for name in ("query", "period", "by")}
    now = timezone.now()
    return _cached(request, state, "statistics", compute=lambda: statistics_of(user=request.user, now=now, **params))


def _charts(links: _Links, measure: str) -> dict[str, Any]:
    from triage.charts import statistics as charts  # noqa: PLC0415  # heavy: pandas, which no other page needs

    shown = links.statistics
    return {
        "weeks": charts.weeks_chart(shown.weeks, measure, links.weeks()),
        "pareto": charts.pareto_chart(shown.pareto, links.categories(shown.pareto.category)),
        "verdicts": charts.verdicts_chart(shown.verdicts, links.verdicts()),
        "calibration": charts.calibration_chart(shown.calibration, links.bins()),
    }


def _rows(frame: pd.DataFrame, links: list[str]) -> list[dict[str, Any]]:
    """The frame's rows for a template, each with the address of its list."""
    rows = frame.to_dict("records")
    return [{**row, "link": link} for row, link in zip(rows, links, strict=True)]


def _with_link(links: _Links, row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A row of a category with the address of its list."""
    return None if row is None else {**row, "link": links.categories([row["category"]])[0]}


def _by_week(weeks: pd.DataFrame) -> list[dict[str, Any]]:
    """The weeks' sums over all categories, the latest first; an unknown cost is None."""
    totals: dict[date, dict[str, Any]] = {}
    rows = zip(weeks.week, weeks.incidents, weeks.gpu_hours, strict=True)
    for week, incidents, gpu_hours in rows:
        row = totals.setdefault(week, {"week": week, "incidents": 0, "gpu_hours": None})
        row["incidents"] += incidents
        if not math.isnan(gpu_hours):
            row["gpu_hours"] = (row["gpu_hours"] or 0.0) + gpu_hours
    return [totals[week] for week in sorted(totals, reverse=True)]


class _Links:
    """From a mark to its list of incidents: the page's query, narrowed to the mark."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.base = reverse("incidents")

    def _to(self, *extra: str, has_period: bool = True) -> str:
        terms = [str(self.statistics.query), self.statistics.period.term if has_period else "", *extra]
        return f"{self.base}?{urlencode({'q': ' '.join(term for term in terms if term)})}"

    def _week(self, week: date) -> str:
        low, high = max(week, self.statistics.period.start), min(week + timedelta(days=6), self.statistics.period.end)
        return f"happened:{low}..{high}"

    def weeks(self) -> dict[tuple[str, str], str]:
        pairs = zip(self.statistics.weeks.week, self.statistics.weeks.category, strict=True)
        return {
            (str(week), name): self._to(self._week(week), f"category:{name}", has_period=False) for week, name in pairs
        }

    def verdicts(self) -> dict[tuple[str, str], str]:
        terms = {
            "right": "verdict:right",
            "wrong": "verdict:wrong",
            "unnamed": "machine:unknown !is:[unreviewed,inconclusive] !is:imported",
            "awaiting": "is:[unreviewed,inconclusive] !is:imported",
        }
        pairs = itertools.product(self.statistics.verdicts.week, terms)
        return {(str(week), name): self._to(self._week(week), terms[name], has_period=False) for week, name in pairs}

    def bins(self) -> list[str]:
        """The judged incidents of each bin of confidence."""
        judged = "!machine:unknown !is:[unreviewed,inconclusive] !is:imported"
        pairs = zip(self.statistics.calibration.low, self.statistics.calibration.high, strict=True)
        ends = [(f"confidence:>={low:g}", f"confidence:<{high:g}" if high < 1 else "") for low, high in pairs]
        return [self._to(low, *([high] if high else []), judged) for low, high in ends]

    def days(self) -> list[dict[str, Any]]:
        """The rows of the weeks."""
        rows = _by_week(self.statistics.weeks)
        return [{**row, "link": self._to(self._week(row["week"]), has_period=False)} for row in rows]

    def categories(self, ids: Any) -> list[str]:
        return [self._to(f"category:{name}") for name in ids]

    def misses(self, ids: Any) -> list[str]:
        return [self._to(f"machine:{name}", "verdict:wrong") for name in ids]

    def judged(self, ids: Any) -> list[str]:
        return [self._to(f"machine:{name}", "verdict:[right,wrong]") for name in ids]

    def values(self) -> list[str]:
        by = self.statistics.by
        return [
            self._to(str(search.Query().plus(by, value))) if value else "" for value in self.statistics.dimension.value
        ]

    def terms(self, terms: Any) -> list[str]:
        return [self._to("is:unreviewed", term, has_period=False) for term in terms]
