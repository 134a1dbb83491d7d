"""Every address that names a job, an incident or a node, found by itself: for a stranger there is nothing behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from ingest import services
from ingest.models import Artifact, Run
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user

pytestmark = pytest.mark.django_db

#: what a route begins with when it names something that belongs to a cluster
OWNED = re.compile(
    r"(api/v1/)?(jobs/<\w+:(slug|job)>|incidents/<int:number>|ingest/progress/<|ingest/runs/<|runs/<|nodes/<path)"
)
ANSWERS = {"path": "a.log", "other": "secret-job", "flow": "all", "form": "csv", "attempt": "0", "sha256": "0" * 64}


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if not route.startswith("admin"):
                yield from routes(pattern.url_patterns, route)
        elif OWNED.match(route):
            yield route


ROUTES = sorted(set(routes(get_resolver().url_patterns)))


@pytest.fixture
def secret():
    """Something of a team's own: a job with a run, a file, an incident that accuses a node."""
    owner, stranger = make_user("owner", "engineer"), make_user("stranger", "engineer", "manager")
    cluster = make_cluster("private")
    make_team("red", members=[owner], clusters=[cluster])
    make_team("blue", members=[stranger], clusters=[make_cluster("other")])
    job = make_job("secret-job", cluster=cluster, created_by=owner)
    attempt = make_attempt(job)
    services.artifact_receive(job=job, path="a.log", chunks=[b"a line\n"], user=owner)
    artifact = Artifact.objects.get()
    run = Run.objects.create(job=job, kind="parse", state="failed")
    incident = make_incident(attempt=attempt, accused=("gpu-secret",))
    given = {"number": incident.pk, "slug": "secret-job", "job": "secret-job", "name": "gpu-secret", "pk": artifact.pk}
    return {"owner": owner, "stranger": stranger, "run": run.pk, "given": ANSWERS | given}


def address(route: str, secret) -> str:
    given = secret["given"] | (
        {"pk": secret["run"], "run_id": secret["run"], "run": secret["run"]} if "runs/" in route else {}
    )

    def value(found: re.Match[str]) -> str:
        return str(given.get(found[2], 1))

    return "/" + re.sub(r"<(\w+):(\w+)>", value, route)


def test_the_search_for_addresses_finds_the_ones_that_matter():
    assert len(ROUTES) > 40
    for part in ("jobs/<slug:slug>/logs/", "incidents/<int:number>/decide/", "nodes/<path:name>/", "api/v1/incidents/"):
        assert any(part in route for route in ROUTES), part


def test_to_nobody_everything_is_closed(client, secret):
    for route in ROUTES:
        url = address(route, secret)
        for method in (client.get, client.post):
            answer = method(url)
            assert answer.status_code in (302, 401, 403, 405), (method.__name__, url, answer.status_code)
            assert answer.status_code != 302 or answer["Location"].startswith("/sign-in/"), url


def test_to_a_stranger_there_is_nothing_whatever_his_role(client, secret):
    """A form may be refused before anything is looked for; then it is refused in the same way where nothing is."""
    client.force_login(secret["stranger"])
    nothing = {**secret, "given": secret["given"] | dict.fromkeys(("number", "pk", "slug", "job", "name"), 10**9)}
    for route in ROUTES:
        url, elsewhere = address(route, secret), address(route, nothing)
        assert client.get(url).status_code in (404, 405), url
        for method in (client.post, client.put, client.patch, client.delete):
            kind = {"content_type": "application/json"} if url.startswith("/api/") else {}
            answer, other = method(url, {}, **kind), method(elsewhere, {}, **kind)
            assert answer.status_code in (400, 404, 405, 422), (method.__name__, url, answer.status_code)
            assert answer.status_code == other.status_code, (method.__name__, url, answer.status_code)


def test_to_a_team_mate_it_is_there(client, secret):
    """So that the test above does not pass because nothing answers at all."""
    client.force_login(secret["owner"])
    found = [url for url in (address(route, secret) for route in ROUTES) if client.get(url).status_code == 200]
    assert len(found) > 20, found
