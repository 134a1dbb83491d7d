"""The planning page: from a failure rate to checkpoint interval and standbys."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.factories import make_attempt, make_incident, make_job, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client):
    client.force_login(make_user("boss", "manager"))
    return lambda **given: client.get(reverse("planning"), given).content.decode()


def rows(page):
    table = page.partition('data-testid="planning"')[2].partition("</table>")[0]
    return {
        int(cells[0].replace(",", "")): cells[1:]
        for row in table.split("<tr>")[2:]
        if (cells := [part.partition("<")[0] for part in row.split('class="num">')[1:]])
    }


def test_the_published_rate_gives_the_papers_standbys(page):
    found = rows(page(rate="1.2"))
    assert [found[nodes][2] for nodes in (128, 256, 512, 1024)] == ["2", "2", "3", "4"]


def test_the_rate_is_measured_where_run_time_is_known(page):
    now = timezone.now()
    job = make_job()
    make_attempt(job, number=0, ended_at=now, started_at=now - timedelta(days=10), ran_s=864_000.0, node_count=100)
    make_incident(make_job("other"))
    shown = page()
    assert "1,000.0" in shown
    assert "1.00" in shown
    assert "as measured" in shown


def test_without_any_run_time_the_source_of_the_rate_is_told(page):
    assert "published rate" in page()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate": "-3"}, "cannot be used"),
        ({"write_s": "soon"}, "cannot be used"),
        ({"q": "colour:red"}, "is not a key"),
    ],
)
def test_a_number_that_makes_no_sense_is_explained(page, given, said):
    assert said in page(**given)


def test_viewers_do_not_plan(client):
    client.force_login(make_user("view", "viewer"))
    assert client.get(reverse("planning")).status_code == 403
