"""People and the route receiver for tests of triage."""

import pytest

from tests.factories import make_user
from tests.patience import PATIENCE_S
from tests.triage.receiver import receiving
from triage.services import outbound, routes


@pytest.fixture(autouse=True)
def _charts_checked(monkeypatch):
    """plotly.py validates every property of every figure in a test."""
    monkeypatch.setattr("triage.charts.IS_CHECKED", True)


@pytest.fixture
def ada(client):
    """An engineer, signed in."""
    user = make_user("ada", "engineer")
    client.force_login(user)
    return user


@pytest.fixture
def manager():
    return make_user("mara", "manager")


@pytest.fixture
def receiver(settings, monkeypatch):
    """A program that receives routes on this machine, on an allowed address."""
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setattr(outbound, "TIMEOUT_S", PATIENCE_S)
    with receiving() as found:
        yield found


@pytest.fixture
def route(manager, receiver):
    return routes.route_save(by=manager, name="chat", url=receiver.url, events=routes.EVENTS)
