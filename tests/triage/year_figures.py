"""Figures of the last year, as a person sees them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from triage import search
from triage.selectors.demonstration import query_for_figures
from triage.selectors.statistics import Period, Statistics, statistics_of


def figures(user: Any, text: str = "") -> Statistics:
    today = timezone.now().date()
    period = Period(today - timedelta(days=364), today)
    query = query_for_figures(search.parse(text), user)
    return statistics_of(user=user, query=query, period=period, now=timezone.now())
