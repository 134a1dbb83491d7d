"""What failures cost, as a manager asks: last month, in a sentence, with what the number leaves out."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.urls import reverse

from tests.factories import make_incident, make_user
from tests.pages import page_text
from triage.views.statistics import _days_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def mara(client):
    client.force_login(make_user("mara", "manager"))


def line(client, address):
    page = page_text(client.get(reverse("statistics") + address))
    return " ".join(page.partition('data-testid="cost-line">')[2].partition("</p>")[0].split())


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
    assert "<b>2 incidents</b> cost <b>100 GPU-hours</b>, 50 % less than in the 10 days before;" in said
    assert "most frequent and most expensive: <a" in said
    assert "Hardware › GPU › GPU memory error</a> (1 incident, 90 % of the cost)" in said


def test_last_month_in_number_hours_and_money_against_the_month_before(client, mara, settings):
    """The three questions of a manager: what failed most, what did it cost, is it getting better."""
    settings.GPU_HOUR_PRICE = (2.5, "EUR")
    for day in (2, 3):
        make_incident(at=datetime(2026, 11, day, tzinfo=UTC), category="network.link_down", gpu_hours=100)
    make_incident(at=datetime(2026, 11, 30, tzinfo=UTC), category="hardware.gpu.ecc", gpu_hours=600)
    make_incident(at=datetime(2026, 10, 1, tzinfo=UTC), gpu_hours=400)
    said = line(client, "?since=2026-11-01&until=2026-11-30")
    assert "<b>800 GPU-hours</b> (2,000 EUR), 100 % more than in the month before;" in said
    assert "most frequent: <a" in said and "Fabric link down</a> (2 incidents)" in said
    assert "GPU memory error</a> (75 % of the cost)" in said


def test_the_parts_of_the_cost_are_stacked_and_add_up(client, mara):
    at = datetime(2026, 11, 2, tzinfo=UTC)
    make_incident(at=at, gpu_hours=100, waited_gpu_hours=60, repeated_gpu_hours=15)
    page = page_text(client.get(reverse("statistics") + "?since=2026-11-01&until=2026-11-10"))
    parts = " ".join(page.partition('data-testid="cost-parts">')[2].partition("</dd>")[0].split())
    assert "lost 25 h" in parts and "waited 60 h" in parts and "repeated 15 h" in parts
    assert 'class="waited" x="25.0" y="0" width="60.0"' in parts


def test_three_figures_stand_first_and_all_are_a_file(client, mara):
    make_incident(at=datetime(2026, 11, 2, tzinfo=UTC), gpu_hours=100)
    page = page_text(client.get(reverse("statistics")))
    head = page.partition('data-testid="figures"')[2].partition("</dl>")[0]
    assert head.count('data-testid="figure-') == 3
    rows = b"".join(client.get(reverse("statistics-csv", args=["figures"])).streaming_content).decode()
    assert rows.count("\r\n") == 8


def test_the_sentence_says_what_is_not_known_and_offers_to_leave_rejected_ones_out(client, mara):
    at = datetime(2026, 11, 2, tzinfo=UTC)
    make_incident(at=at, gpu_hours=10)
    make_incident(at=at, gpu_hours=30, state="rejected", standing_category="unknown")
    make_incident(at=at)
    days = "since=2026-11-01&until=2026-11-10"
    said = line(client, f"?{days}")
    assert "The evidence shows the cost of 2 of 3" in said
    assert "1 of them had its verdict rejected and counts as unknown" in said
    without = said.partition('<a href="?')[2].partition('">leave it out')[0].replace("&amp;", "&")
    assert "<b>2 incidents</b> cost <b>10 GPU-hours</b>" in line(client, f"?{without}")
    assert "verdict rejected" not in line(client, f"?{without}")


def test_planning_counts_the_same_incidents(client, mara):
    at = datetime(2026, 11, 2, tzinfo=UTC)
    for state in ("rejected", "confirmed"):
        make_incident(at=at, state=state)
    days = "?since=2026-11-01&until=2026-11-10"
    assert "<b>2 incidents</b>" in line(client, days)
    assert "<dt>Incidents</dt><dd>2 diagnosed</dd>" in page_text(client.get(reverse("planning") + days))


def test_the_month_is_one_click_away_and_marked(client, mara):
    page = page_text(client.get(reverse("statistics") + "?span=last-month"))
    assert 'span=last-month" aria-current="true">Last month</a>' in page


def test_every_figure_says_on_hover_how_it_is_counted(client, mara):
    make_incident(gpu_hours=1)
    page = page_text(client.get(reverse("statistics")))
    assert 'title="What incidents cost, in three parts' in page
    assert page.count('<dt><a href="#meaning" title="') == 7
