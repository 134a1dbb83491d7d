"""The Cost tab: outages of a job that was started three times, and its effective training time."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.urls import reverse

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_user
from tests.pages import page_text
from triage.selectors.cost import job_cost
from triage.services.costing import costs_write

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = 3600


def run(job, number, begin_s, first, last, *, seconds=10.0, ended_s=None, **fields):
    """An attempt that trains steps ``first`` … ``last`` of ``seconds`` each from ``begin_s`` on."""
    count = last - first + 1
    trained_s = begin_s + count * seconds
    return make_attempt(
        job,
        number=number,
        started_at=after(begin_s),
        training_at=after(begin_s),
        trained_until=after(trained_s),
        ended_at=after(trained_s if ended_s is None else ended_s),
        first_step=first,
        last_step=last,
        **fields,
    )


def after(seconds):
    return START + timedelta(seconds=seconds)


def cost_after(job):
    """The costs as they stand after the last diagnosis of the job."""
    costs_write(job)
    return job_cost(job)


def test_a_job_that_never_failed_is_all_productive():
    job = make_job()
    run(job, 0, 0, 1, 360)
    cost = job_cost(job)
    assert cost.ettr == pytest.approx(1.0)
    assert cost.outages == []


def test_an_hour_of_hanging_after_the_last_step_was_not_productive():
    job = make_job()
    run(job, 0, 0, 1, 360, ended_s=2 * HOUR)
    assert job_cost(job).ettr == pytest.approx(0.5)


def test_steps_done_twice_and_the_wait_between_attempts_are_lost():
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    first = run(job, 0, 0, 1, 360, ended_s=HOUR + 600, node_count=2)
    run(job, 1, 2 * HOUR, 181, 540)
    incident = make_incident(job, attempt=first, at=after(HOUR), node_count=2, lost_s=600)
    cost = cost_after(job)
    (row,) = cost.outages
    assert row.incident == incident
    assert row.phases["detect"] == pytest.approx(600)
    assert row.phases["fail_over"] == pytest.approx(HOUR - 600)
    assert row.phases["recompute"] == pytest.approx(HOUR / 2)
    assert cost.gpu_hours == pytest.approx(16 * 1.5)
    assert cost.ettr == pytest.approx((0.5 + 1) / 3)
    assert cost.recovery_s == pytest.approx(HOUR)


def test_a_review_after_training_ran_again_delayed_nothing():
    job = make_job()
    first = run(job, 0, 0, 1, 360, ended_s=HOUR)
    run(job, 1, HOUR + 60, 361, 400)
    make_incident(job, attempt=first, reviewed_at=START + timedelta(days=3))
    assert job_cost(job).outages[0].phases["localise"] == 0


def test_a_slowdown_costs_what_its_incident_says_and_is_no_outage():
    """Before, the seconds between the last step and the end of the job counted as its outage, and as a failure."""
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    report = {"conclusion": {"condition": "degraded", "slowdowns": [{"lost_s": 9, "lost_gpu_s": 7200}]}}
    slowed = run(job, 0, 0, 1, 8640, seconds=10.0, ended_s=87_000)
    make_incident(job, attempt=slowed, condition="degraded", lost_s=9, report=report)
    run(job, 1, 90_000, 1, 8640)
    cost = cost_after(job)
    assert (set(cost.outages[0].phases.values()), cost.gpu_hours) == ({None}, 2)
    assert (cost.recovery_s, cost.mtbf_s) == (None, None)


def test_a_phase_that_nobody_recorded_is_not_known(client):
    """Before, it took "0 s", and a run of ten seconds had a mean time between failures."""
    client.force_login(make_user("eng", "engineer"))
    job = make_job("short")
    make_incident(job, attempt=run(job, 0, 0, 1, 2, ended_s=60))
    cost = job_cost(job)
    detect, *others = cost.outages[0].phases.values()
    assert (detect, others, cost.mtbf_s) == (pytest.approx(40), [None] * 3, None)
    row = page_text(client.get(reverse("job-cost", args=["short"]))).partition('data-testid="outages"')[2]
    assert "40 s" in row and "0 s</td>" not in row.replace("40 s</td>", "")


def test_without_iterations_the_cost_is_not_known(client):
    client.force_login(make_user("eng", "engineer"))
    make_job("bare")
    assert job_cost(make_job()) is None
    assert "Cost is not known" in page_text(client.get(reverse("job-cost", args=["bare"])))


def test_the_tab_shows_phases_and_links_the_incident(client):
    client.force_login(make_user("eng", "engineer"))
    job = make_job("lost")
    first = run(job, 0, 0, 1, 360, ended_s=HOUR + 600)
    run(job, 1, 2 * HOUR, 181, 540)
    incident = make_incident(job, attempt=first, node_count=2)
    page = page_text(client.get(reverse("job-cost", args=["lost"])))
    assert f"#{incident.pk}" in page
    assert "10 min" in page


def test_every_page_shows_one_figure_of_what_an_incident_cost(client):
    """Before, the tab said 16 and the queue 4: one counted the wait for the next start, the other did not."""
    client.force_login(make_user("eng", "engineer"))
    job = make_job("lost", cluster=make_cluster("c", gpus_per_node=8))
    first = run(job, 0, 0, 1, 360, ended_s=HOUR + 900, node_count=2)
    run(job, 1, 2 * HOUR, 361, 540)
    incident = make_incident(job, attempt=first, at=after(HOUR), node_count=2, lost_s=900)
    assert cost_after(job).gpu_hours == pytest.approx(16 * (0.25 + 0.75))
    incident.refresh_from_db()
    assert (incident.gpu_hours, incident.waited_gpu_hours) == (pytest.approx(16), pytest.approx(12))
    row = page_text(client.get(reverse("job-cost", args=["lost"]))).partition('data-testid="outages"')[2]
    assert "16 assumed GPUs" in " ".join(re.sub("<[^>]+>", " ", row).split())


def test_the_gpus_of_an_attempt_are_those_of_its_evidence():
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    first = run(job, 0, 0, 1, 360, ended_s=2 * HOUR, node_count=2, gpus=4, gpus_from="ranks")
    incident = make_incident(job, attempt=first, node_count=2, lost_s=HOUR)
    assert cost_after(job).gpu_hours == pytest.approx(4)
    incident.refresh_from_db()
    assert not incident.is_cost_assumed


def test_nothing_counts_after_the_evidence_ends_unless_the_job_starts_again():
    """Before, a job of 42 s cost 10,702 GPU-hours: until a person judged it a week later."""
    job = make_job()
    first = run(job, 0, 0, 1, 3, ended_s=42)
    make_incident(job, attempt=first, reviewed_at=after(7 * 24 * HOUR), lost_s=12, node_count=1)
    (row,) = cost_after(job).outages
    assert (row.phases["localise"], row.phases["fail_over"], row.phases["detect"]) == (None, None, 12)


@pytest.mark.parametrize(("hours", "is_held"), [(23, True), (25, False)])
def test_a_job_that_starts_again_days_later_did_not_keep_its_machines(hours, is_held):
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    first = run(job, 0, 0, 1, 360, node_count=1)
    run(job, 1, HOUR + hours * HOUR, 361, 400)
    incident = make_incident(job, attempt=first, lost_s=0, node_count=1)
    (row,) = cost_after(job).outages
    incident.refresh_from_db()
    assert incident.waited_gpu_hours == (8 * hours if is_held else None)
    assert (row.phases["fail_over"] is not None) == is_held


def test_costs_of_a_former_version_are_worked_out_again():
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    zero = START.timestamp()
    first = make_attempt(job, node_count=1, started_at=START, ended_at=after(HOUR))
    steps = {"iterations": [{"n": 1, "t": zero + 10, "seconds": 10}, {"n": 60, "t": zero + 600}]}
    report = {"job": {"gpus": 2, "gpus_from": "ranks"}}
    make_incident(job, attempt=first, lost_s=HOUR, node_count=1, gpu_hours=8, report=report)
    first.diagnoses.update(timeline=steps)
    call_command("rewrite_costs")
    assert job_cost(job).gpu_hours == 2
    assert job.attempts.get().last_step == 60
