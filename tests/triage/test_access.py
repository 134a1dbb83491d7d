"""Each page with owner, team-mate, stranger and anonymous; each act with each role."""

from __future__ import annotations

import pytest
from django.urls import reverse

from ingest.models import Artifact, Blob
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    """A private cluster of one team with a job and its incident."""
    owner, mate, stranger = (make_user(name, "engineer") for name in ("owner", "mate", "stranger"))
    cluster = make_cluster("private")
    make_team("red", members=[owner, mate], clusters=[cluster])
    make_team("blue", members=[stranger], clusters=[make_cluster("other")])
    job = make_job("secret-job", cluster=cluster, created_by=owner)
    attempt = make_attempt(job)
    incident = make_incident(attempt=attempt, headline="Secret failure", accused=("gpu-secret",))
    blob = Blob.objects.create(sha256="0" * 64, size_bytes=0)
    Artifact.objects.create(attempt=attempt, path="a.log", blob=blob, state="parsed")
    return {"owner": owner, "mate": mate, "stranger": stranger, "incident": incident, "job": job}


def objects(incident):
    number = incident.pk
    return [
        f"/incidents/{number}/",
        f"/incidents/{number}.md",
        "/jobs/secret-job/",
        "/jobs/secret-job/files/",
        "/jobs/secret-job/work/",
        "/jobs/secret-job/timeline/0/",
        "/jobs/secret-job/logs/0/a.log",
        "/jobs/secret-job/context/0/a.log",
        "/jobs/secret-job/find/0/a.log?words=x",
        "/jobs/secret-job/instant/0/a.log?at=2026-11-01T00:00:00Z",
        "/jobs/secret-job/raw/0/a.log",
        f"/api/v1/incidents/{number}/",
        f"/api/v1/incidents/{number}/findings/",
        f"/api/v1/incidents/{number}/decisions/",
    ]


@pytest.mark.parametrize("who", ["owner", "mate"])
def test_a_team_sees_its_objects(client, cast, who, settings, tmp_path):
    client.force_login(cast[who])
    for url in objects(cast["incident"]):
        if "/a.log" not in url:
            assert client.get(url).status_code == 200, url


def test_to_a_stranger_the_objects_do_not_exist(client, cast):
    client.force_login(cast["stranger"])
    for url in objects(cast["incident"]):
        assert client.get(url).status_code == 404, url
    for url in ("/", "/incidents/", "/incidents/?q=secret", "/jobs/", "/nodes/", "/api/v1/incidents/"):
        page = page_text(client.get(url))
        assert "Secret failure" not in page and "secret-job" not in page and "gpu-secret" not in page, url
    assert "gpu-secret" not in page_text(client.get("/incidents/suggest/?q=node:gpu&cursor=8"))


def test_anonymous_is_sent_to_sign_in_everywhere(client, cast):
    pages = [
        "/",
        "/incidents/",
        "/jobs/",
        "/statistics/",
        "/nodes/",
        "/upload/",
        "/incidents.csv",
        *objects(cast["incident"]),
    ]
    for url in pages:
        response = client.get(url)
        if url.startswith("/api/"):
            assert response.status_code in (401, 403), url
        else:
            assert response.status_code == 302, url
            assert response["Location"].startswith("/sign-in/"), url


def test_a_stranger_cannot_act_on_what_he_cannot_see(client, cast):
    client.force_login(cast["stranger"])
    number = cast["incident"].pk
    for name in ("decide", "incident-act", "assign", "comment", "incident-group"):
        assert client.post(reverse(name, args=[number]), {"claim": "category", "word": "confirm"}).status_code == 404, (
            name
        )
    client.post(reverse("bulk"), {"act": "confirm", "id": number})
    cast["incident"].refresh_from_db()
    assert cast["incident"].state == "awaiting_review"
    assert client.post(reverse("job-diagnose", args=["secret-job"])).status_code == 404


def test_nobody_merges_in_what_he_cannot_see(client, cast):
    client.force_login(cast["stranger"])
    own = make_incident()
    client.post(reverse("incident-group", args=[own.pk]), {"numbers": str(cast["incident"].pk)})
    cast["incident"].refresh_from_db()
    assert cast["incident"].group is None


@pytest.mark.parametrize(
    ("role", "may_review", "may_export", "may_diagnose"),
    [
        ("viewer", False, False, False),
        ("engineer", True, False, True),
        ("manager", True, True, False),
        ("admin", True, True, True),
    ],
)
def test_each_role_may_what_it_may(client, role, may_review, may_export, may_diagnose):
    client.force_login(make_user(role, role))
    incident = make_incident(make_job("shared-job"))
    judged = client.post(reverse("decide", args=[incident.pk]), {"claim": "category", "word": "confirm"})
    assert judged.status_code == (302 if may_review else 403)
    assert client.get("/incidents.csv").status_code == (200 if may_export else 403)
    assert client.post(reverse("job-diagnose", args=["shared-job"])).status_code == (302 if may_diagnose else 403)
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    assert ('data-testid="confirm-category"' in page) == may_review


def test_a_refusal_names_the_role_that_may(client):
    client.force_login(make_user("vera", "viewer"))
    incident = make_incident()
    page = client.post(reverse("decide", args=[incident.pk]), {"claim": "category", "word": "confirm"})
    assert "engineer or manager" in page_text(page)


def test_acts_need_a_token_against_forgery():
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("ada", "engineer"))
    incident = make_incident()
    assert (
        client.post(reverse("decide", args=[incident.pk]), {"claim": "category", "word": "confirm"}).status_code == 403
    )
    assert not incident.decisions.exists()


def test_reading_never_changes_anything_and_leads_to_the_page_of_the_act(client, cast):
    client.force_login(cast["owner"])
    incident = cast["incident"]
    for name in ("decide", "incident-act", "assign", "comment", "incident-group"):
        answer = client.get(reverse(name, args=[incident.pk]))
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/incidents/{incident.pk}/"), name
    assert client.get(reverse("undo-last")).headers["Location"] == "/"
    assert not incident.decisions.exists()
    assert not incident.activities.filter(actor=cast["owner"]).exists()


def test_a_group_that_is_no_role_neither_gives_nor_breaks_anything(client):
    person = make_user("nina", "engineer", "book club")
    client.force_login(person)
    assert client.get("/").status_code == 200
    assert client.get("/incidents.csv").status_code == 403
