"""A job made by mistake: who may delete it, what goes, what stays, and what old links say."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings as site
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from ingest import services, storage
from ingest.models import Artifact, HistoryEntry, Job, Run
from ingest.services import resuming, token_create
from ingest.services.sweeping import tidy
from ingest.services.work import Work
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.diagnosis_tables import table_path, tables_store
from triage.models import Activity, Decision, Diagnosis, Incident
from triage.services import reviewing
from triage.services.diagnosing import diagnosis_store, job_diagnose

pytestmark = pytest.mark.django_db

LOG = b"".join(b"2026-11-21 03:%02d:00,000 INFO iteration %d loss 2.5\n" % (n % 60, n) for n in range(60))


@pytest.fixture
def job(ada):
    job = make_job("mistake", name="Wrong run", created_by=ada)
    diagnosis_store(attempt=make_attempt(job), revision=1, report=sample())
    return job


def delete(client, job, **sent):
    url = reverse("job-delete", args=[job.slug])
    expected = client.get(url).context["losses"].form_value
    return client.post(url, {"expected": expected, **sent}, follow=True)


def test_the_page_counts_what_would_be_lost_before_it_asks(client, ada, job):
    incident = job.incidents.get()
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=ada)
    reviewing.comment_add(incident=incident, body="Ours.", by=ada)
    answer = client.get(reverse("job-delete", args=[job.slug]))
    losses = answer.context["losses"]
    assert (losses.incidents, losses.touched, losses.decisions, losses.comments, losses.files) == (1, 1, 1, 1, 0)
    assert "Delete the job and its incident<" in page_text(answer)
    assert reverse("job-delete", args=[job.slug]) in page_text(client.get(reverse("job-describe", args=[job.slug])))
    assert Job.objects.filter(pk=job.pk).exists()


def test_all_of_it_goes_and_one_line_stays_that_old_links_show(client, ada, job):
    incident = job.incidents.get()
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=ada)
    later = make_incident(headline="Later", regressed_from=incident)
    said = page_text(delete(client, job, reason="wrong logs"))
    assert "The job Wrong run was deleted." in said
    for rows in (Job.objects.filter(pk=job.pk), Incident.objects.filter(pk=incident.pk), Decision.objects.all()):
        assert not rows.exists()
    assert not Diagnosis.objects.filter(job=job.pk).exists()
    row = Activity.objects.get(kind="job_deleted")
    assert (row.actor, row.data["slug"], row.data["numbers"], row.data["decisions"]) == (
        ada,
        "mistake",
        [incident.pk],
        1,
    )
    for url in (reverse("job", args=["mistake"]), reverse("incident", args=[incident.pk])):
        page = client.get(url)
        assert page.status_code == 404
        assert "deleted by ada on" in page_text(page)
        assert "(“wrong logs”)" in page_text(page)
    assert "deleted" not in page_text(client.get(reverse("incident", args=[later.pk + 1000])))
    later.refresh_from_db()
    assert later.regressed_from is None
    make_team("red", clusters=[job.cluster])  # from now on the cluster is not for ada
    assert "deleted by" not in page_text(client.get(reverse("job", args=["mistake"])))


def test_statistics_queue_and_lists_no_longer_count_it(client, job):
    client.force_login(make_user("root", "admin"))
    make_incident(category="network.link.down", gpu_hours=5.0)
    Incident.objects.filter(job=job).update(gpu_hours=100.0)
    url = reverse("statistics")
    assert client.get(url).context["shown"].total == 2
    delete(client, job)
    shown = client.get(url).context["shown"]
    assert shown.total == 1
    assert shown.pareto["gpu_hours"].tolist() == [5.0]
    assert client.get("/").context["queue_count"] == "1"


def test_its_files_go_but_for_bytes_that_another_job_holds(client, ada, django_capture_on_commit_callbacks, tmp_path):
    with django_capture_on_commit_callbacks(execute=True):
        job, other = services.job_create(name="Mistake", user=ada), services.job_create(name="Other", user=ada)
        for one in (job, other):
            services.artifact_receive(job=one, path="a.log", chunks=[LOG])
    diagnosis = Diagnosis.objects.create(job=job, attempt=job.attempts.get(), revision=9, engine="test", report={})
    (tmp_path / "steps.parquet").write_bytes(b"PAR1")
    tables_store(diagnosis, tmp_path)
    resuming.upload_begin(job=job, path="c.log", size_bytes=10)
    parsed = Artifact.objects.get(attempt__job=job).parsed_key
    assert (Path(site.DATA_DIR) / "parsed" / parsed).is_dir()
    job.uploads.filter(path="c.log").update(updated_at="2026-01-01T00:00:00Z")  # nothing came for long
    Run.objects.filter(job=job).update(state="succeeded")
    with django_capture_on_commit_callbacks(execute=True):
        assert delete(client, job).redirect_chain
    assert not (Path(site.DATA_DIR) / "parsed" / parsed).exists()
    assert table_path(diagnosis, "steps.parquet") is None
    tidy()
    held = Artifact.objects.get(attempt__job=other)
    assert storage.blob_exists(held.blob_id)


def test_a_healthy_job_leaves_the_history_with_its_file(ada, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        job = services.job_create(name="Good", user=ada, declared_outcome="succeeded")
        services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    run = Run.objects.create(job=job, kind="diagnose", parameters={"revision": 1})
    services.run_do(run.pk, job_diagnose)
    entry = HistoryEntry.objects.get(job=job)
    file = Path(site.DATA_DIR) / "parsed" / entry.key
    assert file.exists()
    Run.objects.filter(job=job).update(state="succeeded")
    with django_capture_on_commit_callbacks(execute=True):
        services.job_delete(job=job, user=ada)
    assert not file.exists()
    assert not HistoryEntry.objects.exists()


def test_it_cancels_the_work_on_its_evidence(client, ada, job):
    run = Run.objects.create(job=job, kind="parse", state="running", tries=1)
    url = reverse("job-delete", args=[job.slug])
    client.post(url, {"expected": client.get(url).context["losses"].form_value})
    assert not Job.objects.filter(pk=job.pk).exists()
    assert not Work(run).is_held()


def test_it_is_refused_while_evidence_arrives_and_nothing_is_half_done(client, ada, job):
    url = reverse("job-delete", args=[job.slug])
    page = client.get(url)
    resuming.upload_begin(job=job, path="c.log", size_bytes=10)
    assert "is being sent" in page_text(client.post(url, {"expected": page.context["losses"].form_value}))
    assert Job.objects.filter(pk=job.pk).exists()
    assert not Activity.objects.filter(kind="job_deleted").exists()


def test_what_was_added_since_the_page_was_read_is_asked_about_again(client, ada, job):
    url = reverse("job-delete", args=[job.slug])
    expected = client.get(url).context["losses"].form_value
    reviewing.comment_add(incident=job.incidents.get(), body="Wait!", by=ada)
    answer = client.post(url, {"expected": expected})
    assert answer.status_code == 409
    assert "Something was added" in page_text(answer)
    assert delete(client, job).redirect_chain
    assert not Job.objects.filter(pk=job.pk).exists()


@pytest.mark.parametrize(
    ("who", "roles", "words"),
    [("bob", ("engineer",), "ada made this job"), ("vic", ("viewer",), "needs the role engineer")],
)
def test_neither_a_colleague_nor_a_viewer_may(client, job, who, roles, words):
    client.force_login(make_user(who, *roles))
    url = reverse("job-delete", args=[job.slug])
    assert words in page_text(client.get(url))
    assert client.post(url, {"expected": "1 0 0 0 0"}).status_code == 403
    assert Job.objects.filter(pk=job.pk).exists()


def test_once_a_colleague_commented_only_an_administrator_may(client, ada, job):
    reviewing.comment_add(incident=job.incidents.get(), body="Seen it too.", by=make_user("bob", "engineer"))
    url = reverse("job-delete", args=[job.slug])
    page = client.get(url)
    assert "Others have worked on this job" in page_text(page)
    assert client.post(url, {"expected": page.context["losses"].form_value}).status_code == 403
    client.force_login(make_user("root", "admin"))
    assert delete(client, job).redirect_chain
    assert Activity.objects.get(kind="job_deleted").data["comments"] == 1


def test_a_sample_that_nobody_sent_may_be_deleted_by_any_engineer(client, ada):
    job = make_job("sample")
    assert delete(client, job).redirect_chain
    assert not Job.objects.filter(pk=job.pk).exists()


def api(user, *scopes):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token_create(user=user, name='t', scopes=list(scopes))[1]}")
    return client


def test_the_api_deletes_it_for_whoever_may_with_the_reason(ada, job):
    url = f"/api/v1/jobs/{job.slug}/"
    assert api(ada, "read").delete(url).status_code == 403
    refused = api(make_user("bob", "engineer"), "upload").delete(url)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:faultline:problem:not_yours")
    Run.objects.create(job=job, kind="parse")
    upload = resuming.upload_begin(job=job, path="c.log", size_bytes=10)
    assert (busy := api(ada, "upload").delete(url)).status_code == 409
    assert busy.json()["title"] == "job busy"
    upload.delete()
    assert api(ada, "upload").delete(f"{url}?reason=twice").status_code == 204
    assert Activity.objects.get(kind="job_deleted").data["reason"] == "twice"
    assert api(ada, "upload").delete(url).status_code == 404


def test_a_stranger_learns_nothing(ada):
    private = make_cluster("private")
    make_team("red", members=[ada], clusters=[private])
    job = make_job("secret", cluster=private, created_by=ada)
    stranger = Client()
    stranger.force_login(make_user("eve", "engineer"))
    assert stranger.get(reverse("job-delete", args=["secret"])).status_code == 404
    services.job_delete(job=job, user=ada)
    assert "deleted" not in page_text(stranger.get(reverse("job", args=["secret"])))


def test_the_administration_counts_refuses_and_records_similar(client, job):
    client.force_login(make_user("root", "admin", is_staff=True, is_superuser=True))
    url = reverse("admin:ingest_job_delete", args=[job.pk])
    Run.objects.create(job=job, kind="parse", state="running", tries=1)
    assert "Wrong run (mistake): 1 incidents, 0 files" in page_text(client.get(url))
    client.post(url, {"post": "yes"})
    assert not Job.objects.filter(pk=job.pk).exists()
    assert Activity.objects.get(kind="job_deleted").data["incidents"] == 1
    listed = page_text(client.get(reverse("admin:triage_activity_changelist")))
    assert "job_deleted" in listed
