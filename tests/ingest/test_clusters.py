"""Which cluster a job belongs to, by every way in; and requests that name fields which nobody can set."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ingest.models import Cluster, Job
from tests.factories import api_of, make_cluster, make_job, make_team, make_user

pytestmark = pytest.mark.django_db

NOW_NS = 1_795_226_000_000_000_000


@pytest.fixture
def engineer() -> Any:
    return make_user("ada", "engineer")


@pytest.fixture
def api(engineer: Any) -> Any:
    return api_of(engineer, "upload", "read", "review")


def by_form(api: Any, user: Any) -> Any:
    api.credentials()
    api.force_login(user)
    headers = {"accept": "application/json"}
    return api.post("/upload/", {"name": "run", "outcome": "unknown"}, format="multipart", headers=headers)


def by_post(api: Any, user: Any) -> Any:
    return api.post("/api/v1/jobs/", {"name": "run"})


def by_put(api: Any, user: Any) -> Any:
    return api.put("/api/v1/jobs/run/", {"name": "run"})


def by_lines(api: Any, user: Any) -> Any:
    headers = {"Faultline-Job": "run"}
    return api.post("/api/v1/lines/", '{"message": "x"}', content_type="application/x-ndjson", headers=headers)


def by_loki(api: Any, user: Any) -> Any:
    body = {"streams": [{"stream": {"job": "run"}, "values": [[str(NOW_NS), "x"]]}]}
    headers = {"Faultline-Job": "run"}
    return api.post("/loki/api/v1/push", json.dumps(body), content_type="application/json", headers=headers)


def by_otlp(api: Any, user: Any) -> Any:
    record = {"timeUnixNano": str(NOW_NS), "body": {"stringValue": "x"}}
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    headers = {"Faultline-Job": "run"}
    return api.post("/v1/logs", json.dumps(body), content_type="application/json", headers=headers)


WAYS = (by_form, by_post, by_put, by_lines, by_loki, by_otlp)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("own", "place"), [(None, "default"), ((), None), (("h100",), "h100"), (("h100", "a100"), None)]
)
def test_a_job_that_names_no_cluster_is_never_shown_to_other_teams(
    api: Any, engineer: Any, way: Callable[..., Any], own: Any, place: str | None
) -> None:
    if own is not None:
        make_team("llm", members=[engineer], clusters=[make_cluster(slug) for slug in own])
    answer = way(api, engineer)
    assert [job.cluster.slug for job in Job.objects.all()] == ([place] if place else [])
    if own == ("h100", "a100"):
        assert "name one of a100, h100" in answer.content.decode()


def test_health_monitors_speak_of_the_jobs_of_their_teams_cluster(api: Any, engineer: Any) -> None:
    make_team("llm", members=[engineer], clusters=[make_cluster("h100"), make_cluster("a100")])
    body = {"events": [{"node": "gpu-7", "message": "Xid 79"}]}
    answer = api.post("/api/v1/node-events/", json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cluster")


def test_the_open_cluster_must_be_named_by_who_has_a_team(api: Any, engineer: Any) -> None:
    make_team("llm", members=[engineer], clusters=[make_cluster("h100")])
    assert api.post("/api/v1/jobs/", {"name": "run", "cluster": "default"}).json()["cluster"] == "default"


def test_a_stated_team_decides_among_the_clusters_of_several(api: Any, engineer: Any) -> None:
    for name in ("red", "blue"):
        make_team(name, members=[engineer], clusters=[make_cluster(f"of-{name}")])
    assert api.post("/api/v1/jobs/", {"name": "run", "team": "blue"}).json()["cluster"] == "of-blue"


def test_the_same_id_put_twice_is_the_same_job_under_both_of_its_ids(api: Any, engineer: Any) -> None:
    make_team("llm", members=[engineer], clusters=[make_cluster("h100")])
    first = api.put("/api/v1/jobs/night/", {"comment": "one"})
    again = api.put("/api/v1/jobs/night/", {"outcome": "failed"})
    assert [first.status_code, again.status_code] == [201, 200]
    assert first.json()["slug"] == again.json()["slug"] == "h100--night"
    assert (again.json()["comment"], again.json()["outcome"]) == ("one", "failed")
    assert api.get("/api/v1/jobs/night/").json()["slug"] == "h100--night"
    assert Job.objects.count() == 1


def test_an_open_job_of_the_same_id_gets_nothing_that_is_put_by_who_has_a_team(api: Any, engineer: Any) -> None:
    make_team("llm", members=[engineer], clusters=[make_cluster("h100")])
    make_job("night")
    assert api.put("/api/v1/jobs/night/", {}).json()["slug"] == "h100--night"
    assert api.get("/api/v1/jobs/night/").json()["cluster"] == "h100"


@pytest.mark.parametrize("field", ["cluster", "time_zone", "slug", "found_outcome", "revision", "colour"])
def test_a_field_that_cannot_be_changed_is_refused_by_its_name(api: Any, field: str) -> None:
    job = make_job("night")
    answer = api.patch("/api/v1/jobs/night/", {"comment": "new", field: "x"})
    assert answer.status_code == 422
    assert [row["field"] for row in answer.json()["errors"]] == [field]
    job.refresh_from_db()
    assert job.comment == "", "nothing of a refused request is stored"


def test_the_default_cluster_is_made_when_it_is_first_needed(api: Any) -> None:
    assert not Cluster.objects.exists()
    assert api.post("/api/v1/jobs/", {"name": "run"}).json()["cluster"] == "default"
