"""The demonstration: a year that adds up, separate from real figures."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.urls import reverse
from django.utils import timezone

from diagnosis import taxonomy
from ingest.models import DEMONSTRATION, Job, Run
from ingest.refusals import Refused
from ingest.services.resuming import upload_begin
from tests.factories import make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.year_figures import figures
from triage.domain import standing
from triage.models import Decision, Incident
from triage.selectors.comparing import comparison
from triage.selectors.health import metrics_lines
from triage.selectors.incident import frequent_categories, incident_view
from triage.services.demonstration import demonstration_remove, history_load
from triage.services.digest import digest_of
from triage.services.learning import records_confirmed
from triage.services.synthetic_history import NODES, history

END = datetime(2026, 11, 22, 8, tzinfo=UTC)


def test_the_year_is_the_same_each_time_and_ends_when_it_should():
    jobs = list(history(END))
    assert jobs == list(history(END))
    launches = [launch for job in jobs for launch in job.launches]
    assert all(a.ended_at <= b.started_at for job in jobs for a, b in pairwise(job.launches))
    assert all(launch.started_at <= launch.trains_at <= launch.last_step_at <= END for launch in launches)
    assert max(launch.ended_at or END for launch in launches) <= END
    assert {job.park.nodes for job in jobs} == {256, 64, 48, 32}
    assert len(NODES) == sum({job.park.model: job.park.nodes for job in jobs}.values()) == 400


def test_its_failures_are_those_of_such_a_park():
    failures = [launch.failure for job in history(END) for launch in job.launches if launch.failure]
    tree = taxonomy.load()
    assert all(failure.machine_category in tree and failure.kind.category in tree for failure in failures)
    assert 200 < len(failures) < 400
    states = Counter(failure.state for failure in failures)
    assert set(states) <= set(Incident.State.values)
    young = [one for one in failures if one.at > END - timedelta(days=90)]
    wrong = [one for one in young if one.state == "corrected"]
    assert 2 < len(wrong) < len(young) / 5, "a machine that is never wrong is believed by nobody"
    assert states["awaiting_review"] < 15, "a queue of made-up incidents would bury the first real one"


def test_headlines_and_reasons_say_what_the_machine_said():
    """Before, the headline named the true cause above the category unknown."""
    failures = [launch.failure for job in history(END) for launch in job.launches if launch.failure]
    mistaken = [one for one in failures if one.machine_category != one.kind.category]
    true = {one.kind.headline.format(node=one.node) for one in failures if one.machine_category == one.kind.category}
    assert {one.headline for one in mistaken if one.machine_category == "unknown"} == {"The job stopped, cause unknown"}
    assert not any(one.headline == one.kind.headline.format(node=one.node) for one in mistaken)
    assert not any("Xid" in one.reason for one in mistaken)
    assert {"Saving a checkpoint failed", "A rank ran out of GPU memory"} <= true


@pytest.fixture(scope="module")
def year(kept_rows):
    assert history_load(now=timezone.now()) > 200


def figure(statistics, key):
    return next(one.value for one in statistics.figures if one.key == key)


def test_states_words_and_verdicts_agree(year, db):
    for incident in Incident.objects.prefetch_related("decisions", "suspects"):
        words = list(incident.decisions.all())
        word = standing.latest_by_claim(words).get((Decision.Claim.CATEGORY, ""))
        assert (word is None) == (incident.state == "awaiting_review"), incident
        if word and word.word == "correct":
            assert (incident.state, incident.standing_category) == ("corrected", word.value)
            assert incident.category != incident.standing_category
        assert incident.category != "unknown" or not word or word.word in {"correct", "inconclusive"}
        said = standing.suspect_words(words)
        assert {row.entity: row.word for row in incident.suspects.all() if row.word} == said


def test_without_an_own_job_figures_are_those_of_the_demonstration_and_say_so(year, db, client):
    client.force_login(make_user("boss", "manager"))
    for page in ("/statistics/", "/statistics/planning/", "/nodes/"):
        text = page_text(client.get(page))
        assert 'data-testid="demonstration"' in text, page
        assert "<b>Demonstration.</b>" in text, page
        assert "Remove the demonstration" in text, page


def test_figures_of_the_year_are_plausible(year, db):
    shown = figures(make_user("boss", "manager"))
    assert shown.total > 200
    assert {one.before for one in shown.figures if one.key == "incidents"} == {0}, "all of it lies in the year"
    assert 0.9 < figure(shown, "ettr") < 1
    assert 0.8 < figure(shown, "right") < 1
    assert 3600 < figure(shown, "mtbf") < 86_400 * 20


def test_with_an_own_job_no_figure_counts_the_demonstration(year, db, client):
    make_incident(make_job("mine"), accused=("gpu-1",))
    boss = make_user("boss", "manager", email="boss@example.com")
    assert figures(boss).total == 1
    assert digest_of(user=boss, now=timezone.now()).total <= 1
    client.force_login(boss)
    text = page_text(client.get("/statistics/"))
    assert "Only your jobs are counted, not the demonstration." in text
    assert 'aria-current="true">Your jobs</a>' in text, "the switch says what it counts"
    both = page_text(client.get(reverse("statistics"), {"q": "cluster:*"}))
    assert "Your jobs and the demonstration are counted together." in both
    assert 'aria-current="true">Both</a>' in both
    assert "q=%21cluster%3Ademonstration" in text, "lists behind the bars leave it out, too"
    assert client.get("/api/v1/statistics/").json()["total"] == 1
    fleet = page_text(client.get("/nodes/"))
    assert "gpu-1" in fleet
    assert "demo-118" not in fleet
    assert 'faultline_incidents{state="awaiting_review"} 1' in metrics_lines()
    assert "faultline_jobs 1" in metrics_lines()


def test_it_is_shown_when_asked_for_although_there_are_own_jobs(year, db, client):
    make_incident(make_job("mine"))
    client.force_login(make_user("boss", "manager"))
    assert figures(make_user("other", "manager"), "cluster:demonstration").total > 200
    assert "<b>Demonstration.</b>" in page_text(client.get("/statistics/?q=cluster:demonstration"))
    assert "demo-118" in page_text(client.get("/nodes/?cluster=demonstration&sort=accused"))
    assert "<b>Demonstration.</b>" in page_text(client.get("/incidents/"))
    assert "Leave it out" not in page_text(client.get("/")), "the queue takes no search"
    assert "<b>Demonstration.</b>" not in page_text(client.get("/incidents/?q=!cluster:demonstration"))


def test_every_page_of_made_up_rows_opens_and_says_what_it_is(year, db, client):
    client.force_login(make_user("eng", "engineer"))
    incident = Incident.objects.exclude(accused=[]).select_related("job").first()
    job = f"/jobs/{incident.job.slug}/"
    tabs = (job, f"{job}cost/", f"{job}compare/", f"{job}files/", f"{job}flows/", f"{job}stacks/")
    for page in (f"/incidents/{incident.pk}/", f"/nodes/{incident.accused[0]}/", *tabs):
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<b>Demonstration.</b>" in page_text(answer), page
    assert "A manager can remove it." in page_text(answer)


def test_nothing_made_up_stands_beside_what_is_real_as_similar_frequent_or_comparable(year, db):
    """Before, an own incident listed generated ones as similar, and a correction offered their categories first."""
    generated = Incident.objects.filter(state="confirmed").exclude(standing_category="unknown").latest("opened_at")
    kind = {"category": generated.standing_category, "opened_at": generated.opened_at, "fingerprint": "same"}
    mine, other = make_incident(make_job("mine"), **kind), make_incident(make_job("other"), **kind)
    Incident.objects.filter(pk=generated.pk).update(fingerprint="same")
    boss = make_user("boss", "manager")
    assert [found.pk for found, _ in incident_view(boss, mine).relatives] == [other.pk]
    assert other.pk not in [found.pk for found, _ in incident_view(boss, generated).relatives]
    assert frequent_categories(boss, mine.cluster.slug) == []
    assert frequent_categories(boss, DEMONSTRATION)
    job = Job.objects.get(slug="mine")
    assert [row.slug for row in comparison(boss, job, None).candidates] == ["other"]
    assert comparison(boss, generated.job, None).candidates


def test_an_engineer_cannot_remove_it(year, db, client):
    client.force_login(make_user("eng", "engineer"))
    assert client.post(reverse("demonstration-remove")).status_code == 403
    assert Incident.objects.exists()


def test_its_removal_cancels_the_reading_of_a_recording(year, db):
    job = Job.objects.filter(cluster__slug=DEMONSTRATION).first()
    Run.objects.create(job=job, kind=Run.Kind.DIAGNOSE, state=Run.State.RUNNING)
    assert demonstration_remove()
    assert not Run.objects.exists()
    assert not Job.objects.exists()


def test_it_is_not_removed_while_a_recording_arrives(year, db):
    job = Job.objects.filter(cluster__slug=DEMONSTRATION).first()
    upload_begin(job=job, path="a.log", size_bytes=10)
    with pytest.raises(Refused, match="wait until it is complete"):
        demonstration_remove()
    assert Incident.objects.exists()


def test_it_is_not_learned_from_and_takes_no_job_of_anybody(year, db, client):
    assert records_confirmed() == []
    client.force_login(make_user("eng", "engineer"))
    made = client.post("/api/v1/jobs/", {"name": "x", "cluster": DEMONSTRATION}, content_type="application/json")
    assert made.status_code == 422
    assert "There is no cluster “demonstration” that you may use" in made.json()["detail"]
    assert not Job.objects.filter(name="x").exists()
    assert DEMONSTRATION not in page_text(client.get("/upload/"))
