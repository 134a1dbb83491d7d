"""The wall of running jobs: what runs, how fast, and what is wrong with it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.models import Upload, Watch
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from triage.selectors.running import curve

pytestmark = pytest.mark.django_db


def followed(name: str, alarm: str = "", silent_s: float = 5, **more: Any) -> Any:
    """An attempt with a file that grows."""
    attempt = make_attempt(make_job(name, **more))
    Upload.objects.create(job=attempt.job, attempt=attempt, path="train.log", size_bytes=None)
    now = timezone.now()
    Watch.objects.create(
        attempt=attempt,
        state={"steps": [1.0, 2.0, 1.5]},
        iteration=1200,
        step_s=1.5,
        stage="training",
        advanced_at=now - timedelta(seconds=silent_s),
        alarm=alarm,
        alarm_text="No progress after iteration 1,200." if alarm else "",
    )
    return attempt


def test_alarms_come_first_then_the_longest_without_progress(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    followed("calm", silent_s=2)
    followed("silent", silent_s=50)
    followed("stuck", alarm="hang", silent_s=90)
    page = client.get("/running/").content.decode()
    assert page.index(">stuck<") < page.index(">silent<") < page.index(">calm<")
    assert "No progress after iteration 1,200." in page
    assert "<title>(1) Running" in page
    assert re.search(r">[1-9]:\d\d</time>", page)
    assert "<b>1 of 3</b> running jobs has an alarm." in " ".join(page.split())


def test_a_job_without_a_counter_says_that_a_hang_cannot_be_told(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    said = "No counter seen: a hang cannot be told."
    counted, uncounted = followed("counted"), followed("uncounted")
    Watch.objects.filter(attempt=uncounted).update(iteration=None, advanced_at=None)
    page = " ".join(client.get("/running/").content.decode().split())
    assert page.count(said) == 1
    assert 'href="/help/live/#what-is-not-watched"' in page
    panels = [client.get(f"/jobs/{one.job.slug}/live/0/state/").content.decode() for one in (counted, uncounted)]
    assert [said in panel for panel in panels] == [False, True]


def test_a_row_leads_to_the_job_and_to_its_incident(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = followed("stuck", alarm="hang")
    incident = make_incident(attempt=attempt)
    page = client.get("/running/").content.decode()
    assert f'href="/jobs/{attempt.job.slug}/"' in page
    assert f'href="/incidents/{incident.pk}/"' in page


def test_a_job_of_which_no_line_was_read_yet_is_on_the_wall(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = make_attempt(make_job("fresh"))
    Upload.objects.create(job=attempt.job, attempt=attempt, path="train.log", size_bytes=None)
    page = client.get("/running/").content.decode()
    assert ">fresh<" in page
    assert "not known yet" in page


def test_who_may_not_see_a_cluster_sees_none_of_its_running_jobs(client: Any) -> None:
    followed("secret", cluster=(cluster := make_cluster("h100")))
    make_team("others", clusters=[cluster])
    client.force_login(make_user("ada", "engineer"))
    page = client.get("/running/").content.decode()
    assert "secret" not in page
    assert "No job is followed" in page


def test_a_job_whose_files_are_whole_runs_no_more(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    followed("ended")
    Upload.objects.update(size_bytes=10, state=Upload.State.SETTLED)
    assert ">ended<" not in client.get("/running/").content.decode()


def test_the_empty_wall_names_the_jobs_that_run_without_being_followed(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    make_job("elsewhere", outcome="running")
    page = " ".join(client.get("/running/").content.decode().split())
    assert "1 job ran when its evidence was uploaded" in page
    assert ">elsewhere<" in client.get("/jobs/?outcome=running").content.decode()


def test_the_wall_keeps_its_budget_however_many_run(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    for n in range(12):
        followed(f"job-{n}")
    with CaptureQueriesContext(connection) as queries:
        client.get("/running/")
    assert len(queries) <= 8


def test_a_sparkline_shows_the_last_steps_from_zero_up() -> None:
    assert curve([1.0], is_from_zero=True) is None
    assert curve([1.0, 2.0], is_from_zero=True) == ("0.0,12.0 120.0,1.0", 0.0, 2.0, 2.0)
    steps = curve([1.0] * 500, is_from_zero=True)
    assert steps is not None and len(steps.points.split()) == 48


def test_a_loss_is_shown_between_its_lowest_and_its_highest_value() -> None:
    assert curve([2.5, 2.0, 2.5]) == ("0.0,1.0 60.0,23.0 120.0,1.0", 2.0, 2.5, 2.5)


def test_the_page_of_a_running_job_shows_its_progress_alarms_and_silent_files(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = followed("stuck", alarm="hang")
    hang = {"kind": "hang", "text": "No progress.", "since": 1_790_000_000.0, "until": None}
    slow = {"kind": "slow", "text": "Steps take 4 s.", "since": 1_780_000_000.0, "until": 1_780_000_300.0}
    attempt.watch.state["alarms"] = [hang, slow]
    attempt.watch.save()
    for n in range(8):
        Upload.objects.create(job=attempt.job, attempt=attempt, path=f"rank{n}.log", size_bytes=None, offset_bytes=7)
    Upload.objects.filter(path="rank6.log").update(updated_at=timezone.now() - timedelta(hours=2))
    page = client.get(f"/jobs/{attempt.job.slug}/").content.decode()
    state = page[page.index('id="running-state"') : page.index("</section>", page.index('id="running-state"'))]
    assert "No progress." in state
    assert state.index("No progress.") < state.index("Steps take 4 s."), "former alarms come last"
    assert "1,200" in state
    assert state.count("<tr>") == 6, "the five that are silent for longest"
    assert state.index("rank6.log") < state.index("train.log")
    assert "of\n      9 growing files" in state
    again = client.get(f"/jobs/{attempt.job.slug}/live/0/state/").content.decode()
    assert again.strip().startswith("<section") and "No progress." in again


def test_the_state_of_a_running_job_keeps_its_budget_and_its_access(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = followed("calm")
    with CaptureQueriesContext(connection) as queries:
        page = client.get(f"/jobs/{attempt.job.slug}/live/0/state/").content.decode()
    assert len(queries) <= 8
    assert "No alarm." in page
    assert client.get(f"/jobs/{attempt.job.slug}/live/7/state/").status_code == 404
    other = followed("secret", cluster=(cluster := make_cluster("h100")))
    make_team("others", clusters=[cluster])
    assert client.get(f"/jobs/{other.job.slug}/live/0/state/").status_code == 404


def test_a_job_that_does_not_grow_has_no_such_state(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = followed("ended")
    Upload.objects.update(size_bytes=10, state=Upload.State.SETTLED)
    assert "running-state" not in client.get(f"/jobs/{attempt.job.slug}/").content.decode()


def test_the_alarms_of_a_job_are_on_its_page_after_its_end(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    attempt = followed("ended", alarm="hang")
    hang = {"kind": "hang", "text": "No progress.", "since": 1_790_000_000.0, "until": None}
    slow = {"kind": "slow", "text": "Steps take 4 s.", "since": 1_780_000_000.0, "until": 1_780_000_300.0}
    Watch.objects.update(state={"alarms": [hang, slow]})
    Upload.objects.update(size_bytes=10, state=Upload.State.SETTLED)
    page = " ".join(client.get(f"/jobs/{attempt.job.slug}/").content.decode().split())
    alarms = page.partition('data-testid="past-alarms"')[2].partition("</section>")[0]
    assert alarms.index("No progress.") < alarms.index("Steps take 4 s.")
    assert ", to its end" in alarms


def test_jobs_that_ended_lately_are_shown_with_their_last_alarm_and_incident(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    ended, old, elsewhere = followed("ended"), followed("old"), followed("secret", cluster=make_cluster("h100"))
    make_team("others", clusters=[elsewhere.job.cluster])
    followed("still")
    now = timezone.now()
    incident = make_incident(attempt=ended, headline="The job hung.")
    for attempt, days in ((ended, 1), (old, 8), (elsewhere, 1)):
        Upload.objects.filter(attempt=attempt).update(state=Upload.State.SETTLED, size_bytes=1)
        Watch.objects.filter(attempt=attempt).update(observed_at=now - timedelta(days=days))
    page = client.get("/running/").content.decode()
    table = page.partition('data-testid="ended"')[2].partition("</table>")[0]
    assert re.findall(r"<b>(\w+)</b>", table) == ["ended"]
    assert f"#{incident.pk}</b>" in table and "The job hung." in table


def test_a_page_without_running_jobs_has_the_commands_that_follow_one(client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    page = client.get("/running/").content.decode()
    assert "python3 faultline.pyz run --job my-job -- python3 train.py" in page
    assert "export FAULTLINE_URL=http://testserver" in page
