"""What failures cost, as a manager asks: last month, in a sentence, with what the number leaves out."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.urls import reverse

from tests.factories import make_incident, make_user
from triage.views.statistics import _days_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def mara(client):
    client.force_login(make_user("mara", "manager"))


def line(client, address):
    page = client.get(reverse("statistics") + address).content.decode()
    return page.partition('data-testid="cost-line">')[2].partition("</p>")[0]


@pytest.mark.parametrize(
    ("span", "today", "first", "last"),
    [
        ("month", date(2026, 3, 17), date(2026, 3, 1), date(2026, 3, 17)),
        ("last-month", date(2026, 3, 17), date(2026, 2, 1), date(2026, 2, 28)),
        ("last-month", date(2026, 1, 1), date(2025, 12, 1), date(2025, 12, 31)),
        ("30d", date(2026, 3, 2), date(2026, 2, 1), date(2026, 3, 2)),
    ],
)
def test_a_span_begins_and_ends_where_its_words_say(span, today, first, last):
    assert _days_of(span, today) == (first, last)


def test_one_sentence_says_what_it_cost_against_before_and_what_was_dearest(client, mara):
    make_incident(at=datetime(2026, 11, 2, tzinfo=UTC), category="hardware.gpu.ecc", gpu_hours=90)
    make_incident(at=datetime(2026, 11, 3, tzinfo=UTC), category="user.config.invalid", gpu_hours=10)
    make_incident(at=datetime(2026, 10, 25, tzinfo=UTC), gpu_hours=200)
    said = line(client, "?since=2026-11-01&until=2026-11-10")
    assert "<b>2 incidents</b> cost <b>100 GPU-hours</b>, 50 % less than in the 10 days before." in said
    assert "Hardware › GPU › GPU memory error</a>, 90 %" in said


def test_the_month_is_one_click_away_and_marked(client, mara):
    page = client.get(reverse("statistics") + "?span=last-month").content.decode()
    assert 'span=last-month" aria-current="true">Last month</a>' in page


def test_every_figure_says_on_hover_how_it_is_counted(client, mara):
    make_incident(gpu_hours=1)
    page = client.get(reverse("statistics")).content.decode()
    assert 'title="From the last progress of the job to the end of its attempt' in page
    assert page.count('<dt><a href="#meaning" title="') == 7
