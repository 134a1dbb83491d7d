"""The desk's API: the same search, the same rights, the same words as the pages."""

from __future__ import annotations

from datetime import date, timedelta

import pandas as pd
import pytest
from rest_framework.test import APIClient

from ingest.services import token_create
from tests.factories import make_attempt, make_incident, make_user
from tests.triage.report import sample
from triage.api import statistics
from triage.models import SavedView
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


@pytest.fixture
def incident():
    attempt = make_attempt()
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    return attempt.incidents.get()


def api(user, *scopes):
    client = APIClient()
    _, secret = token_create(user=user, name="test", scopes=list(scopes))
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def ada():
    return make_user("ada", "engineer")


def test_a_search_finds_what_the_list_finds(ada, incident):
    make_incident(category="network.link.down")
    answer = api(ada, "read").get("/api/v1/incidents/", {"q": "category:hardware"}).json()
    assert [row["number"] for row in answer["results"]] == [incident.pk]
    row = answer["results"][0]
    assert (row["category"], row["accused"], row["state"]) == ("hardware.gpu.off_bus", ["gpu-0412"], "awaiting_review")


def test_a_wrong_search_is_a_problem_that_names_the_keys(ada):
    answer = api(ada, "read").get("/api/v1/incidents/", {"q": "colour:red"})
    assert answer.status_code == 422
    assert answer["Content-Type"].startswith("application/problem+json")
    assert "category" in answer.json()["detail"]


def test_a_saved_view_works_here_too(ada, incident):
    SavedView.objects.create(slug="net", name="Net", query="category:network", owner=ada)
    assert api(ada, "read").get("/api/v1/incidents/?filter=net").json()["results"] == []
    assert api(ada, "read").get("/api/v1/incidents/?filter=nope").status_code == 422


def test_an_incident_comes_with_the_whole_report(ada, incident):
    answer = api(ada, "read").get(f"/api/v1/incidents/{incident.pk}/").json()
    assert answer["report"] == sample()
    findings = api(ada, "read").get(f"/api/v1/incidents/{incident.pk}/findings/").json()
    assert [row["role"] for row in findings] == ["root", "cascade"]


def test_a_decision_is_made_and_taken_back(ada, incident):
    client, url = api(ada, "read", "review"), f"/api/v1/incidents/{incident.pk}/decisions/"
    made = client.post(url, {"claim": "category", "word": "correct", "value": "hardware.gpu.ecc", "reason": "DCGM"})
    assert made.status_code == 201
    incident.refresh_from_db()
    assert incident.standing_category == "hardware.gpu.ecc"
    undone = client.post(f"{url}{made.json()['id']}/undo/")
    assert undone.status_code == 200
    assert client.post(f"{url}{made.json()['id']}/undo/").status_code == 422
    assert [row["word"] for row in client.get(url).json()["results"]] == ["correct"]
    incident.refresh_from_db()
    assert incident.state == "awaiting_review"


def test_a_decision_sent_again_with_its_key_is_one_decision(ada, incident):
    client, url = api(ada, "read", "review"), f"/api/v1/incidents/{incident.pk}/decisions/"
    word, headers = {"claim": "category", "word": "confirm"}, {"Idempotency-Key": "once"}
    first, second = (client.post(url, word, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert (second.status_code, second["Idempotency-Replayed"]) == (201, "true")
    assert incident.decisions.count() == 1
    other = make_incident()
    assert client.post(f"/api/v1/incidents/{other.pk}/decisions/", word, headers=headers).status_code == 422


def test_nonsense_is_refused_with_its_reason(ada, incident):
    url = f"/api/v1/incidents/{incident.pk}/decisions/"
    assert api(ada, "review").post(url, {"claim": "mood", "word": "confirm"}).status_code in (400, 422)
    answer = api(ada, "review").post(url, {"claim": "category", "word": "correct", "value": "x.y"})
    assert answer.status_code == 422
    assert "no category" in answer.json()["detail"]


def test_reading_needs_the_scope_and_deciding_needs_scope_and_role(ada, incident):
    url = f"/api/v1/incidents/{incident.pk}/decisions/"
    word = {"claim": "category", "word": "confirm"}
    assert api(ada, "upload").get("/api/v1/incidents/").status_code == 403
    assert api(ada, "read").post(url, word).status_code == 403
    vera = make_user("vera", "viewer")
    assert api(vera, "read", "review").post(url, word).status_code == 403
    assert api(vera, "read").get("/api/v1/incidents/").status_code == 200
    assert not incident.decisions.exists()


def test_statistics_are_the_tables_of_the_page_over_the_same_search(ada, incident):
    make_incident(category="network.link.down")
    answer = api(ada, "read").get("/api/v1/statistics/", {"q": "category:network"}).json()
    assert answer["total"] == 1
    assert [row["category"] for row in answer["tables"]["pareto"]] == ["network.link.down"]
    assert {figure["key"] for figure in answer["figures"]}
    assert date.fromisoformat(answer["until"]) - date.fromisoformat(answer["since"]) == timedelta(days=89)


def test_what_statistics_do_not_know_is_null():
    frame = pd.DataFrame({"n": [1, 2], "hours": [0.5, float("nan")], "at": [pd.Timestamp("2026-11-21"), pd.NaT]})
    assert statistics._rows(frame) == [
        {"n": 1, "hours": 0.5, "at": "2026-11-21T00:00:00"},
        {"n": 2, "hours": None, "at": None},
    ]


@pytest.mark.parametrize(
    "asked", [{"q": "colour:red"}, {"since": "soon"}, {"since": "2026-11-02", "until": "2026-11-01"}, {"by": "mood"}]
)
def test_statistics_refuse_what_they_cannot_read(ada, asked):
    assert api(ada, "read").get("/api/v1/statistics/", asked).status_code == 422


def test_statistics_are_not_for_viewers():
    assert api(make_user("vera", "viewer"), "read").get("/api/v1/statistics/").status_code == 403


def test_suggestions_complete_keys_and_values(ada):
    answer = api(ada, "read").get("/api/v1/search/", {"q": "cat"}).json()
    assert answer[0]["text"] == "category:"
