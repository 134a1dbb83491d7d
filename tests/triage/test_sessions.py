"""Sessions end without use and after a time, and each person sees and ends their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from tests.factories import make_user
from tests.pages import page_text
from tests.triage.test_sign_in import is_in, sign_in
from triage.selectors.sessions import browser_name
from triage.services import sessions

pytestmark = pytest.mark.django_db
PAGE = "/account/sessions/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
EDGE = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36 Edg/142.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Mobile Safari/604.1"


@pytest.fixture(autouse=True)
def limits(settings: Any) -> None:
    cache.clear()
    settings.SESSION_IDLE_S, settings.SESSION_MAX_S = 3600, 4 * 3600


def signed_in(agent: str = FIREFOX, address: str = "203.0.113.7") -> Client:
    client = Client(HTTP_USER_AGENT=agent, REMOTE_ADDR=address)
    sign_in(client, "ada")
    return client


def test_a_session_ends_an_hour_after_its_last_use() -> None:
    make_user("ada", "engineer")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = signed_in()
        for _ in range(3):
            clock.shift(timedelta(minutes=50))
            assert is_in(client)
        clock.shift(timedelta(minutes=61))
        assert not is_in(client)


def test_it_ends_four_hours_after_the_sign_in_however_much_it_is_used() -> None:
    make_user("ada", "engineer")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = signed_in()
        for _ in range(7):
            clock.shift(timedelta(minutes=34))
            assert is_in(client)
        clock.shift(timedelta(minutes=4))
        assert not is_in(client)


def test_what_a_page_asks_for_by_itself_is_no_use() -> None:
    make_user("ada", "engineer")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = signed_in()
        is_in(client)
        for _ in range(2):
            clock.shift(timedelta(minutes=25))
            assert client.get("/running/", headers={"Faultline-Unattended": "1"}).status_code == 200
        clock.shift(timedelta(minutes=25))
        assert not is_in(client)


def test_a_page_soon_after_another_writes_nothing() -> None:
    make_user("ada", "engineer")
    client = signed_in()
    is_in(client)
    used = UserSession.objects.get().last_seen_at
    assert is_in(client)
    assert UserSession.objects.get().last_seen_at == used


def test_while_nothing_can_be_written_pages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("ada", "engineer")

    def locked(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    with time_machine.travel(timezone.now(), tick=False) as clock:
        client = signed_in()
        monkeypatch.setattr(type(UserSession.objects), "create_from_request", locked)
        clock.shift(timedelta(minutes=30))
        assert is_in(client)


def test_a_person_sees_where_and_signs_out_there_or_everywhere_else_after_proof() -> None:
    make_user("ada", "engineer")
    here, phone, office = signed_in(), signed_in(SAFARI, "203.0.113.8"), signed_in(EDGE, "203.0.113.9")
    page = page_text(here.get(PAGE))
    for said in ("Firefox on Linux", "Safari on iPhone", "Edge on Windows", "203.0.113.8", "this one"):
        assert said in page
    there = UserSession.objects.get(ip="203.0.113.8")
    asked = here.post(PAGE, {"end": there.pk})
    assert asked["Location"].startswith("/account/confirm/") and is_in(phone)
    said = page_text(here.post("/account/confirm/", {"password": "right horse", "next": PAGE}, follow=True))
    assert "signed out there" in said
    assert (is_in(here), is_in(phone), is_in(office)) == (True, False, True)
    assert "signed out in 1 other place" in page_text(here.post(PAGE, {"others": ""}, follow=True))
    assert (is_in(here), is_in(office)) == (True, False)
    assert "has ended already" in page_text(here.post(PAGE, {"end": there.pk}, follow=True))


def test_nobody_ends_the_session_of_somebody_else() -> None:
    make_user("ada", "engineer")
    client = signed_in()
    row = UserSession.objects.get()
    max_user = make_user("max", "engineer")
    assert not sessions.session_end(person=max_user, pk=str(row.pk))
    assert not sessions.session_end(person=max_user, pk="9" * 40) and not sessions.session_end(person=max_user, pk="x")
    assert is_in(client)


def test_an_administrator_who_deletes_the_row_ends_the_session() -> None:
    make_user("ada", "engineer")
    client, admin = signed_in(), Client()
    admin.force_login(make_user("root", "admin", is_superuser=True, is_staff=True))
    row = UserSession.objects.get()
    admin.post(f"/admin/usersessions/usersession/{row.pk}/delete/", {"post": "yes"})
    assert not is_in(client)


def test_a_person_has_so_many_sessions_and_the_oldest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    make_user("ada", "engineer")
    clients = [signed_in() for _ in range(3)]
    assert [is_in(client) for client in clients] == [False, True, True]


def test_ended_sessions_are_deleted() -> None:
    make_user("ada", "engineer")
    with time_machine.travel(timezone.now(), tick=False) as clock:
        signed_in()
        sessions.sessions_tidy()
        assert (Session.objects.count(), UserSession.objects.count()) == (1, 1)
        clock.shift(timedelta(hours=5))
        sessions.sessions_tidy()
        assert (Session.objects.count(), UserSession.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("agent", "name"),
    [("", "Unknown browser"), ("curl/8.5.0", "curl"), (EDGE, "Edge on Windows"), ("<b>x" * 60, "<b>x" * 10)],
)
def test_a_browser_is_named_as_far_as_it_says(agent: str, name: str) -> None:
    assert browser_name(agent) == name
