"""How a job ended: the stated outcome stands unless evidence contradicts it; both are shown; each job has an end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from ingest import services
from ingest.models import Job, Outcome
from ingest.models.outcome import standing_outcome
from ingest.services.jobs import silent_jobs_end
from tests.factories import api_of, make_attempt, make_job, make_user
from tests.pages import page_text
from tests.triage.report import healthy, sample
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def diagnosed(said: str, found: str) -> Job:
    """A job of which people say one thing, and its report another."""
    report = sample() if found == "failed" else healthy()
    report["conclusion"]["outcome"] = found
    attempt = make_attempt(make_job("told", declared_outcome=said, revision=1))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    return Job.objects.get()


@pytest.mark.parametrize("said", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("found", ["running", "unknown"])
def test_evidence_without_an_end_overrules_no_statement(said, found):
    job = diagnosed(said, found)
    assert (job.outcome, job.found_outcome) == (said, found)
    assert "does not show how it ended" in job.outcome_note


@pytest.mark.parametrize(
    ("said", "found", "standing"),
    [
        ("succeeded", "failed", "failed"),
        ("succeeded", "cancelled", "cancelled"),
        ("cancelled", "failed", "cancelled"),
        ("cancelled", "succeeded", "cancelled"),
        ("failed", "succeeded", "failed"),
        ("running", "failed", "failed"),
        ("running", "unknown", "running"),
    ],
)
def test_only_evidence_of_another_end_outweighs_a_statement(said, found, standing):
    assert diagnosed(said, found).outcome == standing


def test_statement_and_evidence_stand_beside_each_other_on_the_job_the_list_the_incident_and_in_the_api(client, ada):
    job = diagnosed("cancelled", "failed")
    pages = (reverse("job", args=["told"]), reverse("incident", args=[job.incidents.get().pk]))
    for page in map(client.get, pages):
        assert "Said: cancelled. Found: failed." in page_text(page)
        assert "The statement stands: people cancel jobs that failed" in page_text(page)
    listed = page_text(client.get(reverse("jobs")))
    assert "cancelled</span>" in listed
    assert "found failed" in listed
    answer = api_of(ada, "read").get("/api/v1/jobs/told/").json()
    assert (answer["outcome"], answer["declared_outcome"], answer["found_outcome"]) == (
        "cancelled",
        "cancelled",
        "failed",
    )
    assert answer["outcome_note"] == job.outcome_note


def test_a_job_without_evidence_ends_as_its_uploader_says_and_its_page_waits_for_nothing(client, ada):
    job = services.job_create(name="quiet", user=ada, declared_outcome="running")
    services.job_change(job=job, declared_outcome="succeeded")
    job.refresh_from_db()
    assert (job.outcome, job.has_ended) == ("succeeded", True)
    assert job.ended_at is not None
    page = page_text(client.get(reverse("job", args=["quiet"])))
    assert "no evidence of it came: there is nothing to diagnose" in " ".join(page.split())
    assert "Not diagnosed yet" not in page


def test_a_new_statement_counts_at_once_and_makes_the_job_due_for_a_diagnosis():
    job = diagnosed("unknown", "unknown")
    services.job_change(job=job, declared_outcome="failed")
    job.refresh_from_db()
    assert (job.outcome, job.revision) == ("failed", 2)
    services.job_change(job=job, declared_outcome="failed")
    job.refresh_from_db()
    assert job.revision == 2, "the same statement is no news"


def test_a_running_job_of_which_nothing_comes_for_a_week_ends_as_unknown():
    for slug, days in (("lost", 8), ("fresh", 6)):
        make_job(slug, outcome="running", declared_outcome="running", evidence_changed_at=NOW - timedelta(days=days))
    silent_jobs_end(NOW)
    assert dict(Job.objects.values_list("slug", "outcome")) == {"lost": "unknown", "fresh": "running"}
    assert "nobody knows how it ended" in Job.objects.get(slug="lost").outcome_note


def test_a_stated_framework_stays_and_a_found_one_follows_the_newest_report():
    for stated, shown in (("", ["megatron", "nemo"]), ("own", ["own", "own"])):
        attempt = make_attempt(services.job_create(name="framed", framework=stated))
        for revision, found in enumerate(["megatron", "nemo"], 1):
            report = healthy()
            report["job"]["framework"] = found
            diagnosis_store(attempt=attempt, revision=revision, report=report)
            attempt.job.refresh_from_db()
            assert attempt.job.framework == shown[revision - 1]


def test_every_pair_of_statement_and_evidence_has_one_outcome_of_the_two():
    for said in Outcome:
        for found in Outcome:
            assert standing_outcome(said, found) in (said, found)


def test_an_engineer_reads_why_a_job_is_not_called_what_was_said(client):
    client.force_login(make_user("eva", "engineer"))
    diagnosed("succeeded", "failed")
    page = page_text(client.get(reverse("job", args=["told"])))
    assert "says that it succeeded, but its evidence shows that it failed. The evidence stands." in page
