"""Every number of the statistics page, for twenty incidents whose figures are worked out here by hand.

Two attempts of one job ran 150 h each: 300 h of run time. Rows 1 to 15 were diagnosed, 16 to 20 imported from a record
of faults (one node of 8 GPUs out of service for 3 h each: 24 GPU-hours, 3 node-hours). Node-hours of the others are
GPU-hours / 8. The three weeks begin on 2, 9 and 16 November; it is the 20th at noon.

 - GPU-hours: rows 1–15 add up to 46 and rows 16–20 to 120, together 166; known of 11 + 5 = 16 of 20 incidents.
 - MTBF: 300 h / 15 diagnosed failures = 20 h. MTTD: (10 + 20 + 30) min / 3 = 20 min. MTTR: (4 + 2) h / 2 = 3 h.
 - ETTR: each of the two attempts made no step in its last 3 h: 1 - 6 / 300 = 98 %.
 - Before (13 October to 1 November): four failures in 100 h, 332 GPU-hours, MTBF 25 h; 8 h lost, so ETTR 92 %; nothing
   detected or resolved; one of two judged verdicts stood. So: 20 against 4 incidents is 400 % more, 166 against 332
   GPU-hours is 50 % less, 20 h against 25 h is 20 % less, 98 against 92 % is +6 points, 5 / 9 against 1 / 2 is +5.6.
 - Verdicts: the machine named a category and people judged it in rows 1, 2, 3, 4, 6, 7, 12, 13 and 15; it was left
   standing in rows 1, 2, 6, 7 and 12: 5 / 9. Rows 5, 8, 9, 11 and 14 are open; row 10 is the one that people named.
 - Calibration: of those nine, rows 1, 2, 3, 4 and 6 were claimed with .95, .92, .95, .90 and .98, .94 on average, and 3
   of 5 stood: 60 %. Wilson's interval with z² = 3.8416: (.6 + .38416 ± 1.96 √(.24 / 5 + .038416)) / 1.76832 = .2307 to
   .8824. Rows 7 and 12 (.85 and .80: .825, both stood), 13 (.70) and 15 (.40) are too few for a share. Nobody
   judged the others, which claimed .60.
"""

import csv
import html
import io
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from django.urls import reverse

from ingest.models import Job
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_user
from tests.pages import page_text
from triage import search
from triage.models import Incident
from triage.selectors.cost import job_cost
from triage.selectors.cost_fleet import fleet_cost
from triage.selectors.period_figures import Figure
from triage.selectors.statistics import TABLES, Period, statistics_of
from triage.services.importing import Fault, faults_import
from triage.templatetags.statistics import compared, figure_change, figure_value

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PERIOD = Period(date(2026, 11, 1), date(2026, 11, 20))
ECC, LINK, CONFIG, SLOW = "hardware.gpu.ecc", "network.link_down", "user.config.invalid", "performance.network"
UNKNOWN = "unknown"
WAITS, OPEN = "awaiting_review", "inconclusive"
#: day, what the machine said, what stands, state, GPU-hours, hours lost, minutes to detect, hours to repair, accused
DIAGNOSED = (
    (2, ECC, ECC, "confirmed", 16, 2, 10, None, "lemon"),
    (3, ECC, ECC, "resolved", 8, 1, 20, 4, "lemon"),
    (4, ECC, LINK, "corrected", 4, 0.5, 30, None, ""),
    (5, ECC, UNKNOWN, "rejected", 4, 0.5, None, None, "n2"),
    (6, ECC, ECC, WAITS, 8, 1, None, None, ""),
    (9, LINK, LINK, "confirmed", 2, 0.25, None, None, ""),
    (9, LINK, LINK, "actioned", 2, 0.25, None, None, ""),
    (10, LINK, LINK, OPEN, None, None, None, None, ""),
    (10, UNKNOWN, UNKNOWN, WAITS, None, None, None, None, ""),
    (11, UNKNOWN, CONFIG, "corrected", 0.5, 0.25, None, None, ""),
    (11, UNKNOWN, UNKNOWN, OPEN, None, None, None, None, ""),
    (12, CONFIG, CONFIG, "resolved", 0.25, 0.125, None, 2, ""),
    (16, CONFIG, ECC, "corrected", 1, 0.125, None, None, ""),
    (17, SLOW, SLOW, WAITS, None, None, None, None, ""),
    (18, SLOW, UNKNOWN, "rejected", 0.25, None, None, None, ""),
)
#: what the machine claimed in the judged rows, by row from 1 on
CLAIMED = {1: 0.95, 2: 0.92, 3: 0.95, 4: 0.9, 6: 0.98, 7: 0.85, 12: 0.8, 13: 0.7, 15: 0.4}
#: of October: stands, state, GPU-hours, hours lost; the machine named ECC in each
BEFORE = ((ECC, "confirmed", 300, 7), (LINK, "corrected", 32, 1), (ECC, WAITS, None, None), (ECC, OPEN, None, None))
IMPORTED = ((2, "ECC", "lemon"), (3, "ECC", "lemon"), (9, "ECC", "lemon"), (16, "Link Down", "n2"), (17, "Odd", "n3"))


def launched(job, at, hours, *, idle_h, number=0):
    """An attempt that trains 100 steps from ``at`` on, and makes none in its last hours."""
    ended = at + timedelta(hours=hours)
    return make_attempt(
        job,
        number=number,
        started_at=at,
        training_at=at,
        trained_until=ended - timedelta(hours=idle_h),
        ended_at=ended,
        first_step=100 * number + 1,
        last_step=100 * number + 100,
        ran_s=hours * 3600.0,
        node_count=1,
    )


@pytest.fixture
def twenty():
    job = make_job("trained", cluster=make_cluster(gpus_per_node=8))
    for number in (0, 1):
        launched(job, datetime(2026, 11, 2, tzinfo=UTC) + timedelta(hours=150 * number), 150, idle_h=3, number=number)
    for ordinal, (day, machine, stands, state, gpu, lost, detected, repaired, accused) in enumerate(DIAGNOSED):
        at = datetime(2026, 11, day, tzinfo=UTC)
        make_incident(
            job,
            ordinal=ordinal,
            at=at,
            opened_at=at,
            category=machine,
            standing_category=stands,
            state=state,
            accused=(accused,) if accused else (),
            confidence=CLAIMED.get(ordinal + 1, 0.6),
            gpu_hours=gpu,
            node_hours=gpu and gpu / 8,
            lost_s=lost and lost * 3600,
            detected_s=detected and detected * 60,
            repaired_s=repaired and repaired * 3600,
        )
    starts = [(datetime(2026, 11, day, tzinfo=UTC), said, node) for day, said, node in IMPORTED]
    faults = [Fault(node, at, at + timedelta(hours=3), said) for at, said, node in starts]
    faults_import(cluster=job.cluster, slug="faults", faults=faults)
    assert job.incidents.count() + Incident.objects.filter(is_imported=True).count() == 20


@pytest.fixture
def october():
    job, at = make_job("earlier"), datetime(2026, 10, 20, tzinfo=UTC)
    launched(job, at - timedelta(hours=100), 100, idle_h=8)
    for stands, state, gpu, lost in BEFORE:
        known = {"gpu_hours": gpu, "lost_s": lost and lost * 3600}
        make_incident(job, at=at, opened_at=at, category=ECC, standing_category=stands, state=state, **known)


@pytest.fixture
def shown(twenty):
    return statistics_of(user=make_user("boss", "manager"), query=search.parse(""), period=PERIOD, now=NOW)


def rows(frame):
    return [tuple(row) for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False)]


def test_the_figures_and_what_they_rest_on(shown):
    assert {one.key: (figure_value(one), one.basis) for one in shown.figures} == {
        "incidents": ("20", "5 of them imported"),
        "gpu_hours": ("166 h", "of 16 of 20 incidents, 5 of them with an assumed number of GPUs"),
        "mtbf": ("20 h", "15 incidents in 300 h"),
        "mttd": ("20 min", "of 3 incidents; 12 uploaded late or without times left out"),
        "mttr": ("3.0 h", "of 2 resolved ones"),
        "ettr": ("98.0\u00a0%", "of 300 h with known steps"),
        "right": ("55.6\u00a0%", "5 of 9 judged"),
    }
    assert (shown.total, shown.imported, shown.rejected, shown.priced) == (20, 5, 2, 16)


def test_costs_that_no_evidence_shows_are_not_nothing(client):
    """Before, incidents of unknown cost "cost 0.00 GPU-hours", "as before"."""
    at = datetime(2026, 11, 3, tzinfo=UTC)
    make_incident(make_job("a"), at=at, opened_at=at, category=ECC, standing_category=ECC)
    client.force_login(make_user("mara", "manager"))
    asked = {"since": "2026-11-01", "until": "2026-11-20"}
    page = html.unescape(page_text(client.get(reverse("statistics"), asked)))
    assert "1 incident</b> has no known cost: no evidence shows it;" in " ".join(page.split())
    assert "0.00" not in page
    told = client.get("/api/v1/statistics/", asked).json()
    assert next(one["value"] for one in told["figures"] if one["key"] == "gpu_hours") is None
    assert "chart-calibration" not in page.partition("</main>")[0].partition("<script")[0]


def test_what_changed_against_the_days_before(october, shown):
    assert {one.key: figure_change(one) for one in shown.figures} == {
        "incidents": "▲ 400\u00a0% against before",
        "gpu_hours": "▼ 50\u00a0% against before",
        "mtbf": "▼ 20\u00a0% against before",
        "mttd": "no figure before",
        "mttr": "no figure before",
        "ettr": "+6.0 points",
        "right": "+5.6 points",
    }
    better = {"mtbf": False, "ettr": True, "right": True, "incidents": False, "gpu_hours": True}
    assert {one.key: one.is_better for one in shown.figures if one.before} == better


def test_what_rounds_to_no_change_is_as_before():
    figure = Figure("mttd", "MTTD", 600.2, 600.0, "s", False)
    assert (figure_change(figure), compared(figure), figure.is_better) == ("as before", "", None)
    assert figure_change(replace(figure, value=606.0)) == "▲ 1\u00a0% against before"


def test_confidences_against_what_people_left_standing(shown):
    none = [None] * 3
    told = shown.calibration.astype(object).where(shown.calibration.notna(), None)
    assert [list(row) for row in told.itertuples(index=False)] == [
        [0.0, 0.5, 0.4, 1, 0, *none],
        [0.5, 0.7, None, 0, 0, *none],
        [0.7, 0.8, 0.7, 1, 0, *none],
        [0.8, 0.9, 0.825, 2, 2, *none],
        [0.9, 1.0, 0.94, 5, 3, 0.6, 0.231, 0.882],
    ]


def test_costs_by_category_week_and_cluster(shown):
    assert rows(shown.pareto[["category", "incidents", "gpu_hours", "node_hours", "share", "cumulative"]]) == [
        (ECC, 7, 105.0, 13.12, 0.633, 0.633),  # rows 1, 2, 5, 13 and three imported: 16 + 8 + 8 + 1 + 72
        (LINK, 5, 32.0, 4.0, 0.193, 0.825),  # rows 3, 6, 7, 8 and one imported: 4 + 2 + 2 + 24
        (UNKNOWN, 5, 28.25, 3.53, 0.17, 0.995),  # rows 4, 9, 11, 15 and one imported: 4 + 0.25 + 24
        (CONFIG, 2, 0.75, 0.09, 0.005, 1.0),  # rows 10 and 12
        (SLOW, 1, None, None, 0.0, 1.0),  # row 14: no evidence shows what it cost
    ]
    second, ninth, sixteenth = (date(2026, 11, day) for day in (2, 9, 16))
    assert rows(shown.weeks) == [
        (second, "hardware", 5, 80.0),
        (second, "network", 1, 4.0),
        (second, "unknown", 1, 4.0),
        (ninth, "hardware", 1, 24.0),
        (ninth, "network", 3, 4.0),
        (ninth, "unknown", 2, None),  # rows 9 and 11
        (ninth, "user", 2, 0.75),
        (sixteenth, "hardware", 1, 1.0),
        (sixteenth, "network", 1, 24.0),
        (sixteenth, "performance", 1, None),
        (sixteenth, "unknown", 2, 24.25),
    ]
    assert rows(shown.dimension) == [("default", 20, 166.0, 20.75)]


def test_verdicts_and_their_precision_are_of_what_the_machine_named(shown):
    told = shown.verdicts[["week", "awaiting", "right", "wrong", "unnamed"]]
    assert [row[1:] for row in rows(told)] == [(1, 2, 2, 0), (3, 3, 0, 1), (1, 0, 2, 0)]
    assert rows(shown.precision[["category", "reviewed", "right", "precision"]]) == [
        (ECC, 4, 2, 0.5),
        (LINK, 2, 2, 1.0),
        (CONFIG, 2, 1, 0.5),
        (SLOW, 1, 0, 0.0),
    ]


def test_offenders_tell_records_from_diagnoses_and_the_backlog_has_each_waiting_one(shown):
    assert rows(shown.offenders) == [("lemon", 5, 3, 96.0)]  # 16 + 8 + 3 * 24
    assert list(shown.backlog.incidents) == [0, 0, 1, 2, 0]  # 3.5 days; 14.5 and 10.5 days


@pytest.mark.parametrize(
    ("term", "count"),
    [
        ("verdict:right", 5),
        ("verdict:wrong", 4),
        ("machine:unknown !is:[unreviewed,inconclusive] !is:imported", 1),
        ("is:[unreviewed,inconclusive] !is:imported", 5),
        ("is:imported", 5),
    ],
)
def test_the_lists_behind_the_verdicts_hold_as_many(twenty, term, count):
    assert search.parse(f"{PERIOD.term} {term}").apply(Incident.objects.all(), now=NOW).count() == count


def test_a_file_has_the_numbers_of_the_page(twenty, client, monkeypatch):
    client.force_login(make_user("mara", "manager"))
    asked = {"since": "2026-11-01", "until": "2026-11-20"}
    answer = client.get(reverse("statistics-csv", args=["pareto"]), asked)
    found = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [(row["incidents"], row["gpu_hours"], row["share"]) for row in found[:2]] == [
        ("7", "105.0", "0.633"),
        ("5", "32.0", "0.193"),
    ]
    page = page_text(client.get(reverse("statistics"), asked))
    assert "5 of them are imported records" in " ".join(page.split())
    assert "of 300 h with known steps" in page


def figures_of(text):
    return [float(cell) for cell in re.findall(r"(?<![-\w.])-?\d+\.\d+(?![-\w.])", text)]


@pytest.mark.parametrize("table", TABLES)
def test_no_file_has_more_digits_than_the_figures_have(twenty, client, table):
    client.force_login(make_user("mara", "manager"))
    asked = {"since": "2026-11-01", "until": "2026-11-20"}
    answer = client.get(reverse("statistics-csv", args=[table]), asked)
    text = b"".join(answer.streaming_content).decode()
    assert all(value == round(value, 3) for value in figures_of(text)), text
    assert "nan" not in text.lower()


def test_the_page_shows_each_figure_with_its_basis_and_the_api_the_same(twenty, client):
    client.force_login(make_user("mara", "manager"))
    asked = {"since": "2026-11-01", "until": "2026-11-20"}
    page = html.unescape(page_text(client.get(reverse("statistics"), asked)))
    figures = client.get("/api/v1/statistics/", asked).json()["figures"]
    told = {one["key"]: (one["value"], one["basis"]) for one in figures}
    assert told["mtbf"] == (72_000, "15 incidents in 300 h")
    assert told["ettr"] == (pytest.approx(0.98), "of 300 h with known steps")
    for words in ("166 h", "20 h", "20 min", "3.0 h", "98.0 %", "55.6 %", *(basis for _, basis in told.values())):
        assert words in page
    calibration = page.partition('data-testid="calibration"')[2].partition("</table>")[0]
    assert [words in calibration for words in ("94 %", "60 %", "23 % to 88 %")] == [True] * 3
    assert calibration.count("not known") == 4
    page = " ".join(page.split())
    assert "20 incidents</b> cost <b>166 GPU-hours</b>" in page
    assert "GPU memory error</a> (7 incidents, 63 % of the cost)" in page


def test_rates_are_not_known_below_a_day_of_run_time():
    """Before, after an import alone, MTBF was seconds, ETTR 0 % and the verdicts 100 % right."""
    start = datetime(2026, 11, 3, tzinfo=UTC)
    faults = [Fault(f"n{n}", start, start + timedelta(hours=9), "GPU DBE (ECC)") for n in range(5)]
    job = make_job("short")
    launched(job, start - timedelta(minutes=10), 1 / 6, idle_h=0)
    faults_import(cluster=job.cluster, slug="faults", faults=faults)
    shown = statistics_of(user=make_user("boss", "manager"), query=search.parse(""), period=PERIOD, now=NOW)
    told = {one.key: (figure_value(one), one.basis) for one in shown.figures}
    assert told["incidents"] == ("5", "5 of them imported")
    assert told["mtbf"] == ("not known", "0.2 h run time observed, 24 h needed")
    assert told["ettr"] == ("not known", "0.2 h with known steps, 24 h needed")
    assert told["mttr"] == ("not known", "none was resolved")
    assert told["right"] == ("not known", "none was judged")
    assert not len(shown.precision)
    assert not len(shown.verdicts)


def test_the_ratio_is_that_of_planning_and_of_the_job(twenty, client):
    """Before, ETTR had three meanings: 99.9 % here, 99 % in Planning and 40 % on the Cost tab."""
    client.force_login(make_user("mara", "manager"))
    asked = {"since": "2026-11-01", "until": "2026-11-20", "q": "job:trained"}
    told = {one["key"]: one["value"] for one in client.get("/api/v1/statistics/", asked).json()["figures"]}
    fleet = fleet_cost(user=make_user("boss", "manager"), query=search.parse("job:trained"), period=PERIOD, now=NOW)
    assert told["ettr"] == fleet.effective.ettr == job_cost(Job.objects.get(slug="trained")).ettr == pytest.approx(0.98)


def test_a_ratio_needs_steps_with_times():
    make_attempt(make_job("long"), ended_at=datetime(2026, 11, 3, tzinfo=UTC), ran_s=100 * 3600.0)
    shown = statistics_of(user=make_user("boss", "manager"), query=search.parse(""), period=PERIOD, now=NOW)
    told = next((one.value, one.basis) for one in shown.figures if one.key == "ettr")
    assert told == (None, "no logs show steps with times")


def test_a_month_is_compared_with_the_month_before():
    """Before, November was compared with 30 days from 2 October on."""
    assert Period(date(2026, 11, 1), date(2026, 11, 30)).before_at == datetime(2026, 10, 1, tzinfo=UTC)
    assert Period(date(2026, 3, 1), date(2026, 3, 31)).before_at == datetime(2026, 2, 1, tzinfo=UTC)
    assert PERIOD.before_at == datetime(2026, 10, 12, tzinfo=UTC)
