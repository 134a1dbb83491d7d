"""Fixtures of the client's tests."""

from __future__ import annotations

from typing import Any

import pytest

from ingest import services, signals
from tests.factories import make_user


@pytest.fixture
def token(db: None, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    engineer = make_user("engineer", "engineer")
    _, secret = services.token_create(user=engineer, name="watch", scopes=["upload", "read"])
    monkeypatch.setattr(signals.artifact_ready, "receivers", [])
    for name, value in (("FAULTLINE_TOKEN", secret), ("FAULTLINE_URL", live_server.url), ("no_proxy", "*")):
        monkeypatch.setenv(name, value)
    return secret
