"""The planning page: from a failure rate to checkpoint interval and standbys."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from ingest.models import Attempt
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage import search
from triage.models import Activity
from triage.selectors.cost_fleet import fleet_cost
from triage.selectors.sums import Period

pytestmark = pytest.mark.django_db
DAY = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.fixture
def page(client):
    client.force_login(make_user("boss", "manager"))
    return lambda **given: page_text(client.get(reverse("planning"), given))


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


def test_a_sentence_tells_of_a_small_and_of_a_large_job(page):
    said = " ".join(page(rate="1.2").partition('data-testid="planning-line">')[2].partition("</p>")[0].split())
    assert said.startswith("A job of <b>64 nodes</b> fails every <b>13 d</b>, one of 1,024 nodes every <b>20 h</b>:")
    assert said.endswith("save a checkpoint every <b>48 min</b> and have <b>4</b> nodes ready.")


def test_the_rate_is_measured_where_run_time_is_known(page):
    now = timezone.now()
    job = make_job()
    make_attempt(job, number=0, ended_at=now, started_at=now - timedelta(days=10), ran_s=864_000.0, node_count=100)
    make_incident(make_job("other"))
    shown = page()
    assert "1,000.0" in shown
    assert "1.00" in shown
    assert "as measured" in shown


def test_without_any_run_time_the_source_of_the_rate_is_reported(page):
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


def trained(job, number, begin, steps, *, first=1, nodes=1, seconds=10.0):
    """An attempt that trained ``steps`` iterations from ``begin`` on."""
    ended = begin + timedelta(seconds=steps * seconds)
    make_attempt(
        job,
        number=number,
        started_at=begin,
        ended_at=ended,
        node_count=nodes,
        training_at=begin,
        trained_until=ended,
        first_step=first,
        last_step=first + steps - 1,
    )


def asked():
    return {"query": search.Query(), "period": Period(DAY.date(), DAY.date()), "now": DAY + timedelta(days=1)}


def test_the_fleets_hour_weighs_each_job_by_its_gpus():
    boss = make_user("boss", "manager")
    trained(make_job("small"), 0, DAY, 720)
    big = make_job("big")
    trained(big, 0, DAY, 360, nodes=3)
    trained(big, 1, DAY + timedelta(hours=2), 360, first=361, nodes=3)
    found = fleet_cost(user=boss, **asked())
    by_hour = {(at - DAY).total_seconds() / 3600: value for at, value in found.hours}
    assert by_hour == {1: pytest.approx(1.0), 2: pytest.approx(8 / 32), 3: pytest.approx(1.0)}
    assert found.worst == (DAY + timedelta(hours=2), pytest.approx(0.25))
    assert found.effective.ettr == pytest.approx((16 + 48) / (16 + 72))
    assert [(w.week.weekday(), w.ettr) for w in found.weeks] == [(0, pytest.approx(64 / 88))]


def test_steps_done_again_are_lost_where_they_were_first_done():
    job = make_job("again")
    trained(job, 0, DAY, 360)
    trained(job, 1, DAY + timedelta(hours=1), 360, first=181)
    found = fleet_cost(user=make_user("boss", "manager"), **asked())
    assert [value for _, value in found.hours] == [pytest.approx(0.5), pytest.approx(1.0)]


def test_the_fleet_waits_with_a_job_that_hangs_after_its_last_step():
    job = make_job("hung")
    trained(job, 0, DAY, 360)
    job.attempts.update(ended_at=DAY + timedelta(hours=2))
    found = fleet_cost(user=make_user("boss", "manager"), **asked())
    assert found.effective.ettr == pytest.approx(0.5)
    assert [value for _, value in found.hours] == [pytest.approx(1.0), pytest.approx(0.0)]


def test_logs_without_times_of_steps_do_not_count(page):
    trained(make_job("untimed"), 0, DAY, 360)
    Attempt.objects.update(training_at=None)
    assert fleet_cost(user=make_user("bob", "engineer"), **asked()) is None
    assert "productive and lost time cannot be separated" in page()


def test_jobs_that_a_person_may_not_see_do_not_count():
    secret = make_cluster("secret")
    make_team("owners", clusters=[secret])
    trained(make_job("hidden", cluster=secret), 0, DAY, 360)
    assert fleet_cost(user=make_user("eve", "engineer"), **asked()) is None


def test_the_page_draws_the_fleet_and_tells_it_in_a_table(client, django_assert_max_num_queries):
    trained(make_job("shown"), 0, DAY, 720)
    client.force_login(make_user("boss", "manager"))
    days = {"since": DAY.date().isoformat(), "until": DAY.date().isoformat()}
    with django_assert_max_num_queries(10):
        shown = page_text(client.get(reverse("planning"), days))
    part = shown.partition('data-testid="fleet"')[2]
    assert 'id="fleet-ettr"' in part
    assert figure(shown, "fleet") == "100.0 %"
    assert "Worst hour" in part


def test_a_rate_out_of_minutes_of_run_time_is_not_called_measured(page):
    now = timezone.now()
    make_attempt(make_job(), ended_at=now, started_at=now - timedelta(minutes=5), ran_s=300.0, node_count=2)
    make_incident(make_job("other"))
    shown = page()
    assert "less than a node-day of run time is known" in shown
    assert "published rate" in shown


def plain_words(page):
    """What stands between the tags, with normal spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("&nbsp;", " ").split())


def figure(page, testid):
    """The first share within the element of that id."""
    part = plain_words(page.partition(f'data-testid="{testid}"')[2])
    return re.search(r"\d[\d.,]* %", part)[0]


def test_the_effective_training_time_is_one_figure_on_every_page_and_in_the_api(client):
    job = make_job("two-days")
    trained(job, 0, DAY, 9_500)
    trained(job, 1, DAY + timedelta(seconds=95_000 + 1_700), 3_000, first=9_501)
    make_incident(job, attempt=job.attempts.get(number=1), at=DAY)
    client.force_login(make_user("boss", "manager"))
    days = {"since": DAY.date().isoformat(), "until": (DAY + timedelta(days=3)).date().isoformat()}
    exact = 125_000 / 126_700
    told = {
        "statistics": figure(page_text(client.get(reverse("statistics"), days)), "figure-ettr"),
        "planning": figure(page_text(client.get(reverse("planning"), days)), "planning-ettr"),
        "cost": figure(page_text(client.get(reverse("job-cost", args=["two-days"]))), "cost-ettr"),
    }
    assert set(told.values()) == {"98.7 %"}
    figures = {row["key"]: row for row in client.get(reverse("api-statistics"), days).json()["figures"]}
    assert figures["ettr"]["value"] == pytest.approx(exact)


def test_a_ratio_of_less_than_a_day_is_unknown_on_both_pages(client):
    trained(make_job("short"), 0, DAY, 720)
    client.force_login(make_user("boss", "manager"))
    days = {"since": DAY.date().isoformat(), "until": DAY.date().isoformat()}
    for page in ("statistics", "planning"):
        assert "2.0 h with known steps, 24 h needed" in page_text(client.get(reverse(page), days))


def ratio(user):
    return fleet_cost(user=user, **asked()).effective.ettr


def test_a_diagnosis_reads_the_attempts_of_its_job_alone(django_assert_num_queries):
    boss = make_user("boss", "manager")
    job, other = make_job("job"), make_job("other")
    trained(job, 0, DAY, 360)
    trained(other, 0, DAY, 360)
    assert ratio(boss) == 1.0
    job.attempts.update(ended_at=DAY + timedelta(hours=2))
    other.attempts.update(ended_at=DAY + timedelta(hours=5))
    assert ratio(boss) == 1.0
    # the changes are told one by one, so that the second one shows only then
    Activity.objects.create(job=job, kind="diagnosed", data={})
    assert ratio(boss) == pytest.approx(2 / 3)
    Activity.objects.create(job=other, kind="diagnosed", data={})
    assert ratio(boss) == pytest.approx(2 / 7)
    with django_assert_num_queries(1):
        ratio(boss)
    other.delete()
    Activity.objects.create(kind="job_deleted", data={})
    assert ratio(boss) == pytest.approx(1 / 2)


def test_a_decision_on_an_incident_leaves_the_ratio_as_it_is_kept(django_assert_num_queries):
    boss = make_user("boss", "manager")
    trained(make_job("job"), 0, DAY, 360)
    ratio(boss)
    Activity.objects.create(incident=make_incident(make_job("failed")), kind="confirmed", data={})
    with django_assert_num_queries(1):
        ratio(boss)


def test_each_family_has_its_ratio_and_what_cost_it_most(page):
    now = timezone.now()
    begin = now - timedelta(days=3)
    good, bad = make_job("good", family="llama"), make_job("bad", family="moe")
    trained(good, 0, begin, 8_640)
    trained(bad, 0, begin, 4_320)
    bad.attempts.update(ended_at=begin + timedelta(days=1))
    make_incident(bad, category="hardware.gpu.off_bus", at=begin, gpu_hours=96.0)
    shown = page().partition('data-testid="families"')[2]
    rows = [plain_words(row) for row in shown.split("<tr>")[2:]]
    assert [row.split()[0] for row in rows] == ["llama", "moe"]
    assert "100.0 % 100.0 % no incident with a known cost" in rows[0]
    assert "50.0 % 50.0 %" in rows[1]
    assert "96 h" in rows[1]
    assert "family%3Amoe" in shown
