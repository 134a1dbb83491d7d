"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultline import files
from faultline.following import Follower
from faultline.site import Site
from ingest import services, signals
from ingest.models import Job
from tests.factories import make_user


@pytest.fixture
def token(db: None, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    engineer = make_user("engineer", "engineer")
    _, secret = services.token_create(user=engineer, name="watch", scopes=["upload", "read"])
    monkeypatch.setattr(signals.artifact_ready, "receivers", [])
    for name, value in (("FAULTLINE_TOKEN", secret), ("FAULTLINE_URL", live_server.url), ("no_proxy", "*")):
        monkeypatch.setenv(name, value)
    return secret


@pytest.fixture
def job(db: None) -> Job:
    return services.job_create(name="Night run")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def follower(live_server: Any, token: str, job: Job, logs: Path, tmp_path: Path) -> Callable[[], Follower]:
    """Makes a follower of ``logs``; each has the state that the one before left."""

    def make() -> Follower:
        site = Site(live_server.url, token, retry_for_s=20)
        return Follower(site, job.slug, lambda: files.find_files([str(logs)]), state=tmp_path / "state.json")

    return make
