"""Common fixtures: an engineer with a token, a job, and files to send."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from ingest import services, signals
from tests.factories import make_user

LOG = b"".join(b"2026-11-21 03:%02d:00,000 INFO iteration %d loss 2.5\n" % (i % 60, i) for i in range(200))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests this layer alone: no receiver of the upper layer is connected, unless a real worker is part of the test."""
    if request.node.get_closest_marker("broker") is None:
        monkeypatch.setattr(signals.artifact_ready, "receivers", [])


@pytest.fixture
def engineer(db: None) -> Any:
    return make_user("engineer", "engineer")


@pytest.fixture
def job(db: None) -> Any:
    return services.job_create(name="Night run")


@pytest.fixture
def api(engineer: Any) -> APIClient:
    """A client with a token that may upload and read."""
    _, secret = services.token_create(user=engineer, name="epilog", scopes=["upload", "read"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


@pytest.fixture
def put(api: APIClient, job: Any) -> Callable[..., Any]:
    """``put("a.log", b"…")``: sends one file to the job by its digest."""

    def send(path: str, data: bytes, *, digest: str = "", attempt: int = 0) -> Any:
        url = f"/api/v1/jobs/{job.slug}/artifacts/{digest or sha(data)}?path={path}&attempt={attempt}"
        return api.put(url, data, content_type="application/octet-stream")

    return send


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Messages are sent, but nobody works."""
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
