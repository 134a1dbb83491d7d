"""The Cost tab: outages of a job that was started three times, and its effective training time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_user
from tests.pages import page_text
from triage.models import Diagnosis
from triage.selectors.cost import job_cost

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = 3600


def run(job, number, begin_s, first, last, *, seconds=10.0, ended_s=None):
    """An attempt that trains steps ``first`` … ``last`` of ``seconds`` each from ``begin_s`` on."""
    attempt = make_attempt(job, number=number)
    count = last - first + 1
    attempt.ended_at = START + timedelta(seconds=ended_s if ended_s is not None else begin_s + count * seconds)
    attempt.save()
    zero = START.timestamp() + begin_s
    rows = [{"n": first + n, "t": zero + (n + 1) * seconds, "seconds": seconds} for n in range(count)]
    Diagnosis.objects.create(
        job=job, attempt=attempt, revision=number + 1, engine="t", report={}, timeline={"iterations": rows}
    )
    return attempt


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
    first = run(job, 0, 0, 1, 360, ended_s=HOUR + 600)
    run(job, 1, 2 * HOUR, 181, 540)
    incident = make_incident(job, attempt=first, at=START + timedelta(seconds=HOUR), node_count=2)
    cost = job_cost(job)
    (row,) = cost.outages
    assert row.incident == incident
    assert row.phases["detect"] == pytest.approx(600)
    assert row.phases["fail_over"] == pytest.approx(HOUR - 600)
    assert row.phases["recompute"] == pytest.approx(HOUR / 2)
    assert cost.gpu_hours == pytest.approx(16 * 1.5)
    assert cost.ettr == pytest.approx((0.5 + 1) / 3)
    assert cost.mttr_s == pytest.approx(HOUR)


def test_a_review_after_training_ran_again_delayed_nothing():
    job = make_job()
    first = run(job, 0, 0, 1, 360, ended_s=HOUR)
    run(job, 1, HOUR + 60, 361, 400)
    make_incident(job, attempt=first, reviewed_at=START + timedelta(days=3))
    assert job_cost(job).outages[0].phases["localise"] == 0


def test_a_slowdown_costs_what_its_incident_says_and_is_no_outage():
    """Before, the seconds between the last step and the end of the job counted as its outage, and as a failure."""
    job = make_job(cluster=make_cluster("c", gpus_per_node=8))
    make_incident(job, attempt=run(job, 0, 0, 1, 8640, seconds=10.0, ended_s=87_000), condition="degraded", gpu_hours=2)
    cost = job_cost(job)
    assert (set(cost.outages[0].phases.values()), cost.gpu_hours) == ({None}, 2)
    assert (cost.mttr_s, cost.mtbf_h) == (None, None)


def test_a_phase_that_nobody_recorded_is_not_known(client):
    """Before, it took "0 s", and a run of ten seconds had a mean time between failures."""
    client.force_login(make_user("eng", "engineer"))
    job = make_job("short")
    make_incident(job, attempt=run(job, 0, 0, 1, 2, ended_s=60))
    cost = job_cost(job)
    detect, *others = cost.outages[0].phases.values()
    assert (detect, others, cost.mtbf_h) == (pytest.approx(40), [None] * 3, None)
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


def test_the_tab_shows_the_loss_that_the_queue_shows_beside_that_of_the_whole_outage(client):
    client.force_login(make_user("eng", "engineer"))
    job = make_job("lost", cluster=make_cluster("c", gpus_per_node=8))
    first = run(job, 0, 0, 1, 360, ended_s=HOUR + 900)
    run(job, 1, 2 * HOUR, 361, 540)
    make_incident(job, attempt=first, at=START + timedelta(seconds=HOUR), node_count=2, gpu_hours=4)
    row = page_text(client.get(reverse("job-cost", args=["lost"]))).partition('data-testid="outages"')[2]
    assert 'data-label="GPU-hours lost">4.00' in row and 'data-label="of the whole outage">16' in row
