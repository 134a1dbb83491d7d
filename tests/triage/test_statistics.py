"""The managers' page: its numbers, its links, its CSV files, its letter."""

import csv
import io
import math
import random
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from django.core import mail
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage import search
from triage.charts import statistics as charts
from triage.domain.report_facts import week_of
from triage.models import Incident
from triage.selectors.calibration import MIN_JUDGED
from triage.selectors.statistics import Period, statistics_of
from triage.services.reviewing import decision_make

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PERIOD = Period(date(2026, 11, 1), date(2026, 11, 20))


def happened(at, **fields):
    job = fields.pop("job", None) or make_job()
    return make_incident(job, at=at, week=week_of(at), **fields)


def shown(user=None, text="", by="cluster"):
    return statistics_of(
        user=user or make_user("boss", "manager"), query=search.parse(text), period=PERIOD, by=by, now=NOW
    )


def figure(statistics, key):
    return next(one for one in statistics.figures if one.key == key)


def test_incidents_are_counted_in_their_period_and_compared_with_the_one_before():
    for day in (2, 3, 19):
        happened(datetime(2026, 11, day, tzinfo=UTC))
    happened(datetime(2026, 10, 31, 23, tzinfo=UTC))
    happened(datetime(2026, 10, 1, tzinfo=UTC))
    counted = figure(shown(), "incidents")
    assert (counted.value, counted.before) == (3, 1)
    assert counted.change == 2
    assert counted.is_better is False


def test_cost_is_ranked_and_its_shares_add_up():
    happened(datetime(2026, 11, 2, tzinfo=UTC), category="user.config.invalid", gpu_hours=10.0)
    happened(datetime(2026, 11, 2, tzinfo=UTC), category="hardware.gpu.ecc", gpu_hours=30.0)
    happened(datetime(2026, 11, 3, tzinfo=UTC), category="hardware.gpu.ecc", gpu_hours=60.0)
    pareto = shown().pareto
    assert list(pareto.category) == ["hardware.gpu.ecc", "user.config.invalid"]
    assert list(pareto.gpu_hours) == [90, 10]
    assert list(pareto.cumulative) == [0.9, 1.0]
    assert pareto.title[0] == "Hardware › GPU › GPU memory error"


def test_without_a_known_cost_the_number_of_incidents_ranks():
    for _ in range(3):
        happened(datetime(2026, 11, 2, tzinfo=UTC), category="network.link_down")
    happened(datetime(2026, 11, 2, tzinfo=UTC), category="unknown")
    assert list(shown().pareto.share) == [0.75, 0.25]


def test_precision_counts_what_reviewers_left_standing_by_what_the_machine_said():
    at = datetime(2026, 11, 5, tzinfo=UTC)
    for _ in range(3):
        happened(at, category="hardware.gpu.ecc", state=Incident.State.CONFIRMED)
    happened(at, category="hardware.gpu.ecc", standing_category="network.link_down", state=Incident.State.CORRECTED)
    happened(at, category="hardware.gpu.ecc", state=Incident.State.REJECTED)
    happened(at, category="hardware.gpu.ecc")
    happened(at, category="hardware.gpu.ecc", state=Incident.State.INCONCLUSIVE)
    statistics = shown()
    row = statistics.precision.iloc[0]
    assert (row.category, row.reviewed, row.right, row.precision) == ("hardware.gpu.ecc", 5, 3, 0.6)
    assert figure(statistics, "right").value == 0.6
    week = statistics.verdicts.iloc[0]
    assert (week.right, week.wrong, week.awaiting) == (3, 2, 2)


def test_what_was_claimed_is_held_against_what_people_left_standing():
    at = datetime(2026, 11, 5, tzinfo=UTC)
    for n in range(10):
        stood = Incident.State.CONFIRMED if n < 8 else Incident.State.REJECTED
        happened(at, category="hardware.gpu.ecc", confidence=0.95, state=stood)
    for _ in range(MIN_JUDGED - 1):
        happened(at, category="hardware.gpu.ecc", confidence=0.6, state=Incident.State.CONFIRMED)
    happened(at, category="hardware.gpu.ecc", confidence=0.95)  # not judged yet
    frame = shown().calibration.set_index("low")
    top, few = frame.loc[0.9], frame.loc[0.5]
    assert (top.claimed, top.judged, top.right, top.share) == (0.95, 10, 8, 0.8)
    assert top.least < 0.5 < 0.9 < top.most
    assert (few.judged, few.right) == (MIN_JUDGED - 1, MIN_JUDGED - 1)
    assert few.share != few.share  # not known


def test_the_page_says_that_calibration_is_not_known_where_few_were_judged(client, boss):
    happened(timezone.now() - timedelta(days=2), category="hardware.gpu.ecc", confidence=0.95)
    page = client.get(reverse("statistics")).content.decode()
    table = page.partition('data-testid="calibration"')[2].partition("</table>")[0]
    assert table.count("not known") == 5


def test_a_rejected_verdict_counts_as_unknown_and_against_the_machine_in_its_precision():
    at, ada = datetime(2026, 11, 5, tzinfo=UTC), make_user("ada", "engineer")
    right, wrong = (happened(at, category="hardware.gpu.ecc", gpu_hours=gpu) for gpu in (1.0, 8.0))
    decision_make(incident=right, claim="category", word="confirm", by=ada)
    decision_make(incident=wrong, claim="category", word="reject", by=ada)
    statistics = shown()
    assert dict(zip(statistics.pareto.category, statistics.pareto.gpu_hours, strict=True)) == {
        "unknown": 8.0,
        "hardware.gpu.ecc": 1.0,
    }
    assert set(zip(statistics.weeks.category, statistics.weeks.incidents, strict=True)) == {
        ("unknown", 1),
        ("hardware", 1),
    }
    row = statistics.precision.iloc[0]
    assert (row.category, row.reviewed, row.right) == ("hardware.gpu.ecc", 2, 1)
    assert (statistics.total, statistics.rejected) == (2, 1)
    wrong_ones = search.parse("machine:hardware.gpu.ecc verdict:wrong").apply(Incident.objects.all(), now=NOW)
    assert list(wrong_ones) == [wrong]


def test_the_list_behind_a_wrong_verdict_holds_as_many_as_the_table_says():
    at = datetime(2026, 11, 5, tzinfo=UTC)
    happened(at, category="hardware.gpu.ecc", standing_category="network.link_down", state=Incident.State.CORRECTED)
    happened(at, category="hardware.gpu.ecc", state=Incident.State.REJECTED)
    happened(at, category="hardware.gpu.ecc", state=Incident.State.CONFIRMED)
    query = search.parse(f"{PERIOD.term} machine:hardware.gpu.ecc verdict:wrong")
    assert query.apply(Incident.objects.all(), now=NOW).count() == 2


def test_run_time_of_healthy_attempts_counts_for_mtbf():
    end = datetime(2026, 11, 10, tzinfo=UTC)
    job = make_job()
    for number in (0, 1):
        make_attempt(
            job, number=number, ended_at=end, started_at=end - timedelta(hours=50), ran_s=180_000.0, node_count=4
        )
    happened(end, job=make_job("other"), lost_s=36_000.0)
    statistics = shown()
    assert figure(statistics, "mtbf").value == 360_000
    assert figure(shown(make_user("b", "manager"), "job:other"), "mtbf").value is None


def test_repeat_offenders_are_nodes_accused_twice_in_28_days_and_not_cleared():
    for day in (10, 11, 12):
        happened(datetime(2026, 11, day, tzinfo=UTC), accused=("lemon", f"node-{day}"))
    for _ in range(2):
        happened(datetime(2026, 11, 9, tzinfo=UTC), accused=("cleared",), state=Incident.State.REJECTED)
    offenders = shown().offenders
    assert list(offenders.node) == ["lemon"]
    assert list(offenders.incidents) == [3]


def test_each_waiting_incident_has_exactly_one_age():
    for days in (0.1, 2, 5, 20, 100):
        happened(NOW - timedelta(days=1), opened_at=NOW - timedelta(days=days))
    happened(NOW - timedelta(days=1), state=Incident.State.CONFIRMED)
    assert list(shown().backlog.incidents) == [1, 1, 1, 1, 1]


def test_nobody_counts_what_they_may_not_see():
    closed = make_cluster("closed")
    insider = make_user("insider", "manager")
    make_team("inside", members=[insider], clusters=[closed])
    happened(datetime(2026, 11, 5, tzinfo=UTC), job=make_job(cluster=closed))
    assert shown(insider).total == 1
    assert shown(make_user("outsider", "manager")).total == 0


@pytest.mark.parametrize("by", ["cluster", "team", "framework", "model", "symptom", "stage"])
def test_incidents_break_down_by_each_dimension(by):
    happened(datetime(2026, 11, 5, tzinfo=UTC), job=make_job(framework="megatron"), stage="training", symptom="hang")
    assert shown(by=by).dimension.incidents.sum() == 1


#: half of the last decimal of a cost in a table, and a little
ROUNDED = 0.0051
CATEGORIES = ("hardware.gpu.ecc", "hardware.gpu.off_bus", "network.link_down", "user.config.invalid", "unknown")
WRITTEN_RIGHT = {"confirmed", "corrected", "actioned", "resolved"}


def random_incidents(rng, jobs):
    """Forty incidents around both periods, some costs unknown; what reviewers say need not fit their state."""
    for _ in range(40):
        at = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(60 * 24 * 60))
        machine = rng.choice(CATEGORIES)
        cost = rng.choice((None, rng.random() * 100))
        happened(
            at,
            job=rng.choice(jobs),
            category=machine,
            standing_category=machine if rng.random() < 0.7 else rng.choice(CATEGORIES),
            state=rng.choice(Incident.State.values),
            stage=rng.choice(("training", "launch", "")),
            opened_at=at,
            is_withdrawn=rng.random() < 0.1,
            gpu_hours=cost,
            node_hours=cost and cost * rng.random(),
            lost_s=rng.choice((None, rng.random() * 9000)),
            detected_s=rng.choice((None, rng.random() * 900)),
            repaired_s=rng.choice((None, rng.random() * 90_000)),
        )


def counted(rows, key, value=lambda row: 1):
    """What a loop over all rows adds up; not a number for a group without any known value."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(value(row))
    known = {group: [one for one in values if one is not None] for group, values in groups.items()}
    return {group: sum(values) if values else math.nan for group, values in known.items()}


def near(found):
    return pytest.approx(found, abs=ROUNDED, nan_ok=True)


def mean(values):
    known = [value for value in values if value is not None]
    return pytest.approx(sum(known) / len(known)) if known else None


@pytest.mark.parametrize("seed", range(4))
def test_every_table_says_what_a_loop_over_the_incidents_would(seed):
    rng = random.Random(seed)
    jobs = [make_job(f"job-{n}", framework=name) for n, name in enumerate(("megatron", "nemo", ""))]
    random_incidents(rng, jobs)
    by = ("cluster", "framework", "stage", "team")[seed]
    statistics = shown(by=by)
    known = [row for row in Incident.objects.select_related("job", "cluster") if not row.is_withdrawn]
    rows = [row for row in known if PERIOD.starts_at <= row.happened_at < PERIOD.ends_at]
    before = [row for row in known if PERIOD.before_at <= row.happened_at < PERIOD.starts_at]
    assert len(rows) > 5
    assert len(before) > 5

    waits = {"awaiting_review", "inconclusive"}
    judged = [row for row in rows if row.state not in waits and row.category != "unknown"]
    right = [row for row in judged if row.state in WRITTEN_RIGHT and row.category == row.standing_category]
    for part, which in ((rows, "value"), (before, "before")):
        said = {one.key: getattr(one, which) for one in statistics.figures}
        assert said["incidents"] == len(part)
        assert said["gpu_hours"] == pytest.approx(sum(row.gpu_hours or 0 for row in part))
        assert said["mttd"] == mean(row.detected_s for row in part)
        assert said["mttr"] == mean(row.repaired_s for row in part)
    assert figure(statistics, "right").value == (len(right) / len(judged) if judged else None)
    assert statistics.total == len(rows)

    def table(name, *columns):
        return {tuple(row[:-1]): row[-1] for row in statistics.table(name)[list(columns)].itertuples(index=False)}

    def top(row):
        return row.week, row.standing_category.partition(".")[0]

    assert table("weeks", "week", "category", "incidents") == counted(rows, top)
    weekly_cost = counted(rows, top, lambda row: row.gpu_hours)
    assert table("weeks", "week", "category", "gpu_hours") == near(weekly_cost)
    assert table("pareto", "category", "node_hours") == near(
        counted(rows, lambda row: (row.standing_category,), lambda row: row.node_hours)
    )
    costs = counted(rows, lambda row: row.standing_category, lambda row: row.gpu_hours)
    ranked = sorted(costs.values(), key=lambda cost: -cost if cost == cost else 1)
    assert list(statistics.pareto.gpu_hours) == near(ranked)
    assert statistics.pareto.cumulative.iloc[-1] == pytest.approx(1)
    verdicts = {(row.week,): (row.awaiting, row.right, row.wrong) for row in statistics.verdicts.itertuples()}
    assert verdicts == {
        (week,): (
            sum(row.week == week and row.state in waits for row in rows),
            sum(row.week == week for row in right),
            sum(row.week == week and row not in right for row in judged),
        )
        for week in {row.week for row in rows}
    }
    assert table("precision", "category", "reviewed") == counted(judged, lambda row: (row.category,))
    reviewed = {name for (name,) in counted(judged, lambda row: (row.category,))}
    named_right = counted(right, lambda row: (row.category,))
    assert table("precision", "category", "right") == {(name,): named_right.get((name,), 0) for name in reviewed}
    of = {
        "cluster": lambda row: (row.cluster.slug,),
        "framework": lambda row: (row.job.framework,),
        "stage": lambda row: (row.stage,),
        "team": lambda row: ("",),
    }[by]
    assert table("dimension", "value", "incidents") == counted(rows, of)
    assert table("dimension", "value", "gpu_hours") == near(counted(rows, of, lambda row: row.gpu_hours))


def test_plotly_itself_would_draw_the_same_figures():
    import plotly.graph_objects as go

    for n, category in enumerate(CATEGORIES):
        happened(datetime(2026, 11, 2 + n, tzinfo=UTC), category=category, gpu_hours=3.0 * n)
    tables = shown()
    figures = (
        charts.weeks_chart(tables.weeks, "incidents", {}),
        charts.pareto_chart(tables.pareto, ["/"] * 5),
        charts.verdicts_chart(tables.verdicts, {}),
    )
    for figure in figures:
        checked = go.Figure(figure).to_plotly_json()
        checked["layout"].pop("template")
        assert checked == figure


@pytest.fixture
def boss(client):
    user = make_user("boss", "manager", email="boss@example.com")
    client.force_login(user)
    return user


def test_the_page_shows_figures_tables_and_links_to_lists(client, boss):
    now = timezone.now()
    happened(now - timedelta(days=2), category="hardware.gpu.ecc", gpu_hours=12.0, accused=("n1",))
    page = page_text(client.get(reverse("statistics")))
    assert "Incidents" in page
    assert "Hardware › GPU › GPU memory error" in page
    link = re.search(r'href="(/incidents/\?q=[^"]*hardware\.gpu\.ecc[^"]*)"', page)[1].replace("&amp;", "&")
    assert "n1 failed" in page_text(client.get(link))


def test_the_page_needs_few_queries_whatever_its_size(client, boss, django_assert_max_num_queries):
    for n in range(30):
        happened(timezone.now() - timedelta(days=n % 9), accused=(f"n{n % 4}",), gpu_hours=1.0 * n)
    with django_assert_max_num_queries(11):
        assert client.get(reverse("statistics")).status_code == 200


def test_a_csv_file_equals_the_table(client, boss):
    happened(timezone.now() - timedelta(days=2), category="hardware.gpu.ecc", gpu_hours=12.0)
    response = client.get(reverse("statistics-csv", args=["pareto"]), {"q": "category:hardware"})
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert [(row["category"], float(row["gpu_hours"])) for row in rows] == [("hardware.gpu.ecc", 12.0)]


def test_no_cell_of_a_csv_file_is_a_formula(client, boss):
    for _ in range(2):
        happened(timezone.now() - timedelta(days=2), accused=("=cmd()",))
    response = client.get(reverse("statistics-csv", args=["offenders"]))
    assert b"\r\n'=cmd()," in b"".join(response.streaming_content)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"q": "colour:red"}, "is not a key"),
        ({"since": "2026-02-30"}, "dates cannot be used"),
        ({"since": "2026-11-09", "until": "2026-11-01"}, "dates cannot be used"),
        ({"since": "1970-01-01", "until": "2026-11-01"}, "five years at most"),
    ],
)
def test_a_mistake_in_the_address_is_explained_and_the_page_still_shows(client, boss, params, said):
    response = client.get(reverse("statistics"), params)
    assert response.status_code == 200
    assert said in page_text(response)


def test_an_empty_period_says_what_to_do(client, boss):
    assert "Nothing happened in these 90 days" in page_text(client.get(reverse("statistics")))


def test_engineers_read_but_do_not_export_and_viewers_do_neither(client):
    client.force_login(make_user("eng", "engineer"))
    assert client.get(reverse("statistics")).status_code == 200
    assert client.get(reverse("statistics-csv", args=["weeks"])).status_code == 403
    client.force_login(make_user("view", "viewer"))
    assert client.get(reverse("statistics")).status_code == 403
    client.logout()
    assert client.get(reverse("statistics")).status_code == 302


def test_a_table_that_does_not_exist_is_not_found(client, boss):
    assert client.get(reverse("statistics-csv", args=["secrets"])).status_code == 404


def test_the_weekly_letter_goes_to_managers_with_an_address(boss):
    make_user("eng", "engineer", email="eng@example.com")
    happened(timezone.now() - timedelta(days=2), category="hardware.gpu.ecc", gpu_hours=12.0)
    call_command("send_digest")
    assert [letter.to for letter in mail.outbox] == [["boss@example.com"]]
    body = mail.outbox[0].body
    assert "GPU memory error: 1 incidents" in body
    assert "1 incidents wait" in body
    assert re.search(r"GPU-hours lost +12 h", body), "the figures were empty"
    assert "/statistics/?since=" in body
