"""A job's pages: what they cost, how they follow the work on its evidence, how its events and files are handled."""

from __future__ import annotations

import pytest
from django.urls import reverse

from ingest.models import Artifact, Blob, Run
from tests.factories import make_incident, make_job, make_user
from tests.pages import budget, page_text

pytestmark = pytest.mark.django_db


def test_the_job_pages_keep_their_budget(client, ada, incident):
    attempt = incident.attempt
    for n in range(30):
        blob = Blob.objects.create(sha256=f"{n:064d}", size_bytes=n)
        Artifact.objects.create(attempt=attempt, path=f"logs/{n}.log", blob=blob, state="parsed")
        Run.objects.create(job=attempt.job, kind="parse", state="succeeded")
        make_incident(make_job(f"job-x{n}"))
    assert incident.headline in budget(client, "/jobs/llama/")
    assert "logs/29.log" in budget(client, "/jobs/llama/files/", 9)
    assert "llama" in budget(client, "/jobs/")


def test_a_job_that_is_worked_on_keeps_its_budget_and_asks_for_its_progress(client, ada, incident):
    fragment = 'hx-get="/ingest/progress/llama/'
    assert fragment not in budget(client, "/jobs/llama/")
    run = Run.objects.create(job=incident.job, kind="diagnose", state="running", stage="cross_job")
    page = budget(client, "/jobs/llama/")
    assert f'{fragment}"' in page and 'data-state="active"' in page
    assert "cross job" in budget(client, "/ingest/progress/llama/", 10)
    assert "cross job" in page_text(client.get("/jobs/llama/work/")), "without JavaScript it is read here"
    Run.objects.filter(pk=run.pk).update(state="failed", error="The worker died.")
    page = budget(client, "/jobs/llama/")
    assert f'{fragment}?was=settled"' in page and 'data-state="done"' in page


def test_what_was_wrong_with_settled_evidence_is_one_line_and_does_not_reload_the_page(client, ada, incident):
    blob = Blob.objects.create(sha256="2" * 64, size_bytes=3)
    Artifact.objects.create(
        attempt=incident.attempt, path="photo.jpg", blob=blob, state="skipped", problem="It is a picture."
    )
    assert "was=settled" in page_text(client.get("/jobs/llama/"))
    told = client.get("/ingest/progress/llama/?was=settled", headers={"HX-Request": "true"})
    assert "HX-Refresh" not in told.headers
    assert "1 message about the evidence" in page_text(told)
    assert "photo.jpg" in page_text(told)


def test_a_job_whose_files_were_all_taken_out_waits_for_nothing(client, ada, incident):
    incident.job.revision += 1
    incident.job.save()
    assert "ingest/progress" not in page_text(client.get("/jobs/llama/"))


def test_events_of_a_job_can_be_filtered_by_role_words_node_and_level(client, ada, incident):
    assert "Watchdog caught" in page_text(client.get("/jobs/llama/?role=cascade"))
    assert "Watchdog caught" not in page_text(client.get("/jobs/llama/?role=root"))
    assert "Watchdog caught" not in page_text(client.get("/jobs/llama/?words=fallen"))
    assert "No event passes" in page_text(client.get("/jobs/llama/?node=gpu-9999"))
    assert "No event passes" not in page_text(client.get("/jobs/llama/?level=error"))
    assert "No event passes" in page_text(client.get("/jobs/llama/?level=fatal"))


def test_a_file_can_be_taken_out_by_an_engineer_only(client, ada, incident):
    blob = Blob.objects.create(sha256="1" * 64, size_bytes=3)
    artifact = Artifact.objects.create(attempt=incident.attempt, path="wrong.log", blob=blob, state="parsed")
    url = reverse("file-delete", args=["llama", artifact.pk])
    client.force_login(make_user("mona", "manager"))
    assert client.post(url).status_code == 403
    client.force_login(ada)
    client.post(url)
    assert not Artifact.objects.filter(pk=artifact.pk).exists()
    assert client.post(url).status_code == 404


def test_the_files_page_says_what_was_read_and_what_was_not_and_why(client, ada, incident):
    attempt, diagnosis = incident.attempt, incident.diagnosis
    kinds = {"gpu-19/nvidia-smi.txt": "state", "ps.txt": "log", "train.log": "log", "flows.csv": "flow"}
    for number, (path, kind) in enumerate(kinds.items()):
        blob = Blob.objects.create(sha256=f"{number:064d}", size_bytes=number)
        Artifact.objects.create(attempt=attempt, path=path, blob=blob, state="parsed", kind=kind, lines=1200)
    Artifact.objects.filter(path="gpu-19/nvidia-smi.txt").update(notes=["nvidia-smi -q: 14 facts were read."])
    why = "Not recognised: a table of 1,200 lines."
    inputs = [{"path": path, "kind": kind, "skipped": None, "unread": None} for path, kind in kinds.items()]
    inputs[1]["unread"] = why
    inputs[2]["notes"] = ["Read as a log: 1,200 lines of 2 writers; no progress."]
    diagnosis.report["inputs"] = inputs
    diagnosis.save()
    page = budget(client, "/jobs/llama/files/", 9)
    for words in ("report of a machine", "nvidia-smi -q: 14 facts were read.", "network flows", "1,200 records", why):
        assert words in page
    assert "Read as a log: 1,200 lines of 2 writers; no progress." in page
    assert page.count("not recognised</span>") == 1
    assert "Nothing was concluded from 1 of 4 files" in page_text(client.get("/jobs/llama/"))
    unused = page_text(client.get("/jobs/llama/files/?state=unused"))
    assert "ps.txt" in unused and "train.log" not in unused
    parsed = page_text(client.get("/jobs/llama/files/?state=parsed"))
    assert "train.log" in parsed and 'title="ps.txt"' not in parsed


def test_the_folder_of_all_files_is_said_once_and_the_others_are_muted(client, ada, incident):
    for number, path in enumerate(("run/logs/a/out.log", "run/logs/b/out.log", "run/logs/job.json")):
        blob = Blob.objects.create(sha256=f"{number:064d}", size_bytes=1)
        Artifact.objects.create(attempt=incident.attempt, path=path, blob=blob, state="parsed", kind="log", lines=1)
    page = page_text(client.get("/jobs/llama/files/"))
    assert 'Path in <span class="mono break">run/logs/</span>' in page
    assert '<span class="muted">a/</span>out.log</a>' in " ".join(page.split())
    alone = page_text(client.get("/jobs/llama/files/?words=job.json"))
    assert '<span class="muted">run/logs/</span>job.json</a>' in " ".join(alone.split())


def test_a_file_of_a_former_attempt_has_the_reason_of_its_own_diagnosis(client, ada, incident):
    attempt, diagnosis = incident.attempt, incident.diagnosis
    blob = Blob.objects.create(sha256="0" * 64, size_bytes=1)
    Artifact.objects.create(attempt=attempt, path="ps.txt", blob=blob, state="parsed", kind="log", lines=1)
    diagnosis.report["inputs"] = [{"path": "ps.txt", "kind": "log", "skipped": None, "unread": "Not recognised: text."}]
    diagnosis.save()
    later = attempt.job.attempts.create(number=attempt.number + 1)
    Artifact.objects.create(attempt=later, path="ps.txt", blob=blob, state="parsed", kind="log", lines=1)
    assert budget(client, "/jobs/llama/files/", 10).count("Not recognised: text.") == 1
