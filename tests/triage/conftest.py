"""The people and the receiver that tests of the desk share."""

import pytest

from tests.factories import make_user
from tests.triage.receiver import receiving
from triage.services import webhooks


@pytest.fixture(autouse=True)
def _charts_checked(monkeypatch):
    """Every figure that any test asks for is checked by plotly.py, property by property."""
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
def receiver(settings):
    """A program that listens for webhooks on this machine, where they may go."""
    settings.WEBHOOK_ALLOW = ["127.0.0.0/8"]
    with receiving() as found:
        yield found


@pytest.fixture
def hook(manager, receiver):
    return webhooks.webhook_save(by=manager, name="chat", url=receiver.url, events=webhooks.EVENTS)
