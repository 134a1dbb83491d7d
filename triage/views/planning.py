"""Effective training time of the fleet, and what its failure rate means for the next run."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from ingest.roles import can
from triage import metrics, search
from triage.charts.cost import families_chart, fleet_chart
from triage.selectors.cost_fleet import FleetCost, fleet_cost
from triage.selectors.demonstration import notice_of_figures
from triage.selectors.family_goodput import ROLLING_DAYS, Cause, Family, family_goodput
from triage.selectors.memory import cached_evidence, cached_result
from triage.selectors.period_figures import ettr_figure
from triage.selectors.statistics import Period, exposure_of
from triage.views.common import demonstration
from triage.views.statistics import page_state

#: with less run time, nothing is measured
MIN_NODE_DAYS = 1.0
_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
#: the sizes that the sentence tells of
_EXAMPLES = {"small": 64, "large": 1024}


@require_safe
def planning(request: HttpRequest) -> HttpResponse:
    """The failure rate is that of the search and period in the address, unless the person enters one."""
    if not can(request.user, "statistics"):
        raise PermissionDenied("Planning is for engineers and managers: ask an administrator for the role.")
    state, problem = page_state(request)
    failures, node_days = _failures_and_node_days(request, state["query"], state["period"])
    # A rate from minutes of run time is not significant.
    measured = metrics.failures_per_1000_node_days(failures, node_days) if node_days >= MIN_NODE_DAYS else None
    entered_rate, rate_problem = _number(request, "rate", "failures in 1,000 node-days")
    write_s, write_problem = _number(request, "write_s", "seconds that a checkpoint blocks")
    rate = entered_rate if entered_rate is not None else measured if measured else metrics.BYTEROBUST_P * 1000
    write_s = 60.0 if write_s is None else write_s
    daily = min(1.0, rate / 1000)
    rows = [
        {
            "nodes": nodes,
            "mttf_h": metrics.mttf_h(nodes, daily),
            "interval_s": metrics.checkpoint_interval_s(write_s, nodes, daily),
            "standbys": metrics.standbys(nodes, daily),
        }
        for nodes in _SIZES
    ]
    fleet = _fleet(request, state["query"], state["period"])
    families = _families(request, state["query"], state["period"]) if fleet else []
    context = {
        "nav": "statistics",
        "fleet": fleet,
        "families": [(one, _cause_links(one, state["query"], state["period"])) for one in families],
        "families_drawn": families_chart([(one.name, one.rolling) for one in families]),
        "rolling_days": ROLLING_DAYS,
        "ettr": ettr_figure(fleet.effective) if fleet else None,
        "drawn": fleet_chart(fleet.hours) if fleet and len(fleet.hours) > 1 else None,
        "q": state["q"],
        "problem": problem or rate_problem or write_problem,
        "words": state["query"].words(),
        "period": state["period"],
        "failures": failures,
        "node_days": node_days,
        "measured": measured,
        "interval": metrics.rate_interval_per_1000_node_days(failures, node_days) if measured is not None else None,
        "rate": rate,
        "source": "given" if entered_rate is not None else "measured" if measured else "published",
        "write_s": write_s,
        "rows": rows,
        **{name: rows[_SIZES.index(nodes)] for name, nodes in _EXAMPLES.items()},
    }
    context |= demonstration(request, notice_of_figures(state["query"], request.user))
    return render(request, "triage/statistics/planning.html", context)


def _failures_and_node_days(request: HttpRequest, query: search.Query, period: Period) -> tuple[int, float]:
    """Incidents of the period and the node-days in which they could have happened."""
    return exposure_of(user=request.user, query=query, period=period, now=timezone.now())


def _fleet(request: HttpRequest, query: search.Query, period: Period) -> FleetCost | None:
    """Remembered until a job or its evidence changes: a large fleet has many attempts."""
    now = timezone.now()
    return cached_evidence(
        "fleet cost",
        user=request.user,
        parts=(query, period),
        is_personal=query.is_personal,
        now=now,
        compute=lambda: fleet_cost(user=request.user, query=query, period=period, now=now),
    )


def _families(request: HttpRequest, query: search.Query, period: Period) -> list[Family]:
    now = timezone.now()
    return cached_result(
        "family goodput",
        user=request.user,
        parts=(query, period),
        is_personal=query.is_personal,
        now=now,
        compute=lambda: family_goodput(user=request.user, query=query, period=period, now=now),
    )


def _cause_links(family: Family, query: search.Query, period: Period) -> list[tuple[Cause, str]]:
    """Each cause with the address of its incidents."""
    of_family = str(search.Query().plus("family", family.name)) if family.is_stated else ""
    since = max(period.start, period.end - timedelta(days=ROLLING_DAYS - 1))
    terms = (str(query), of_family, f"happened:{since}..{period.end}")
    shared = " ".join(term for term in terms if term)
    base = reverse("incidents")
    queries = [urlencode({"q": f"{shared} category:{cause.category}"}) for cause in family.causes]
    return [(cause, f"{base}?{found}") for cause, found in zip(family.causes, queries, strict=True)]


def _number(request: HttpRequest, name: str, meaning: str) -> tuple[float | None, str]:
    raw: Any = request.GET.get(name, "").strip()
    if not raw:
        return None, ""
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and 0 < value <= 1e6):
        return None, f"“{raw[:40]}” cannot be used for {meaning}: give a number above 0."
    return value, ""
