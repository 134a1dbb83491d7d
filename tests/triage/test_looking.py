"""Two people with one incident open: each sees that the other is there, and what the other did."""

from __future__ import annotations

import re
import time

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_user
from tests.pages import page_text, words_of
from triage.services import looking
from triage.services.reviewing import comment_add, decision_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob():
    return make_user("bob", "engineer")


def news(client, incident, since=None):
    address = reverse("incident-news", args=[incident.pk])
    return words_of(client.get(address, {"since": time.time() if since is None else since}).content.decode())


def test_who_has_an_incident_open_sees_who_else_has_and_not_oneself(client, ada, bob, incident, monkeypatch):
    other = Client()
    other.force_login(bob)
    assert news(client, incident) == ""
    assert news(other, incident) == "ada has it open, too"
    assert news(client, incident) == "bob has it open, too"
    monkeypatch.setattr(looking, "SEEN_S", 0)
    assert news(client, incident) == "", "a page that asks no more is closed"


def test_a_page_that_stays_open_tells_what_others_did_and_never_what_oneself_did(client, ada, bob, incident):
    page = page_text(client.get(reverse("incident", args=[incident.pk])))
    since = re.search(r"/news/\?since=([\d.]+)", page)[1]
    assert news(client, incident, since) == ""
    decision_make(incident=incident, claim="category", word="confirm", by=bob)
    told = news(client, incident, since)
    assert told.startswith("bob confirmed the category: ") and told.endswith("just now – show it")
    comment_add(incident=incident, body="Mine.", by=ada)
    assert news(client, incident, since) == told
    assert news(client, incident) == "", "a page that was loaded since shows it already"


@pytest.mark.parametrize("since", ["", "nan", "-1e300", "1e300", "²"])
def test_a_time_that_is_none_breaks_nothing(client, ada, incident, since):
    assert client.get(reverse("incident-news", args=[incident.pk]), {"since": since}).status_code == 200


def test_an_open_page_costs_few_queries(client, ada, bob, incident, django_assert_max_num_queries):
    decision_make(incident=incident, claim="category", word="confirm", by=bob)
    news(client, incident)
    with django_assert_max_num_queries(6):
        news(client, incident, 0)
