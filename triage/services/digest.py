"""The weekly e-mail: what failed, what it cost, what awaits review."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse

from triage import search
from triage.selectors.demonstration import query_for_figures
from triage.selectors.statistics import Period, Statistics, statistics_of


def digest_recipients() -> list[Any]:
    """Active managers and admins with an address; each gets the digest of what they may see."""
    people = get_user_model().objects.filter(is_active=True).exclude(email="")
    return list(people.filter(Q(groups__name__in=["manager", "admin"]) | Q(is_superuser=True)).distinct())


def digest_of(*, user: Any, now: datetime) -> Statistics:
    """The seven days that ended yesterday."""
    end = now.date() - timedelta(days=1)
    period = Period(end - timedelta(days=6), end)
    return statistics_of(user=user, query=query_for_figures(search.Query(), user), period=period, by="cluster", now=now)


def digest_email(*, user: Any, now: datetime) -> EmailMessage:
    """The e-mail, in plain text."""
    week = digest_of(user=user, now=now)
    link = f"{settings.SITE_URL.rstrip('/')}{reverse('statistics')}?since={week.period.start}&until={week.period.end}"
    context = {
        "shown": week,
        "pareto": week.pareto.head(5).to_dict("records"),
        "offenders": week.offenders.head(5).to_dict("records"),
        "waiting": int(week.backlog.incidents.sum()),
        "link": link,
    }
    subject = f"Faultline: {week.total} incidents from {week.period.start} to {week.period.end}"
    return EmailMessage(subject, render_to_string("triage/statistics/digest.txt", context), to=[user.email])


def digest_send(*, now: datetime) -> int:
    """Send each recipient their e-mail; returns how many were sent."""
    return sum(digest_email(user=user, now=now).send() for user in digest_recipients())
