"""Addresses and secrets of routes are encrypted in the database with the site's secret key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.db import connection
from django.test import Client
from django.utils import timezone

from ingest.signals import swept
from tests.pages import page_text
from tests.triage.receiver import verify
from triage.models import Delivery, Route
from triage.models.route import SEALED
from triage.services import doctor, outbox, routes
from triage.services.backup_rows import rows_write
from triage.services.resealing import secrets_reseal

pytestmark = pytest.mark.django_db(transaction=True)
INBOUND = "made by PagerDuty"


@pytest.fixture(autouse=True)
def allowed(settings: Any) -> None:
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]


def in_the_database(table: str = "triage_route") -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return str(cursor.fetchall())


def change_key(settings: Any, former: list[str]) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another secret key", former


def test_neither_the_database_nor_a_backup_shows_an_address_or_a_secret(
    route: Route, manager: Any, receiver: Any, tmp_path: Path
) -> None:
    inbound = {"inbound_secret": INBOUND}
    routes.route_save(by=manager, name="p", kind="pagerduty", url=receiver.url, secret="k" * 32, options=inbound)
    hidden = [route.opened("secret"), "k" * 32, INBOUND]
    rows_write(tmp_path / "rows")
    with (tmp_path / "rows").open("rb") as file:
        backup = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    for secret in hidden:
        assert secret not in in_the_database() and secret not in backup
    assert receiver.url not in in_the_database(), "of chats whoever has the address may post"


def test_an_equal_value_keeps_its_seal_so_that_nothing_is_changed(route: Route, manager: Any) -> None:
    before = {name: getattr(route, name) for name in SEALED}
    routes.route_change(route=route, by=manager, given={"url": route.opened("url"), "query": "rank 7"})
    assert {name: getattr(Route.objects.get(), name) for name in SEALED} == before


def test_what_was_stored_readable_before_is_sent_and_sealed_by_the_next_preparation(
    route: Route, receiver: Any
) -> None:
    secret = "whsec_" + "A" * 44
    Route.objects.update(url=receiver.url, secret=secret)
    outbox.ping(route=Route.objects.get())
    _, headers, body = receiver.got[0]
    assert verify(secret, headers, body)
    assert (secrets_reseal(), secrets_reseal()) == (1, 0)
    assert receiver.url not in in_the_database() and secret not in in_the_database()
    assert Route.objects.get().opened("secret") == secret


def test_a_former_secret_key_can_go_after_the_next_preparation(route: Route, receiver: Any, settings: Any) -> None:
    secret = route.opened("secret")
    change_key(settings, [settings.SECRET_KEY])
    assert secrets_reseal() == 1
    settings.SECRET_KEY_FALLBACKS = []
    outbox.ping(route=Route.objects.get())
    _, headers, body = receiver.got[0]
    assert verify(secret, headers, body)


def test_with_a_lost_key_messages_wait_and_every_page_says_why(
    route: Route, receiver: Any, settings: Any, manager: Any, client: Client
) -> None:
    former = settings.SECRET_KEY
    change_key(settings, [])
    outbox.ping(route=route)
    assert not receiver.got
    waiting = Delivery.objects.get()
    assert waiting.state == "waiting" and "FAULTLINE_SECRET_KEY_FORMER" in waiting.attempts[0]["error"]
    client.force_login(manager)
    for address in ("/routes/", f"/routes/{route.pk}/"):
        assert "cannot be read" in page_text(client.get(address))
    found = doctor.seals()
    assert found.state == "problem" and "route chat" in found.sentence
    settings.SECRET_KEY_FALLBACKS = [former]
    Delivery.objects.update(due_at=timezone.now())
    Route.objects.update(resume_at=None, claimed_until=None)
    swept.send(sender=None)
    assert [path for path, _, _ in receiver.got] == ["/hook"]
    assert doctor.seals().state == "ok"


def test_with_a_lost_key_the_secrets_can_be_entered_again(
    route: Route, receiver: Any, settings: Any, manager: Any
) -> None:
    change_key(settings, [])
    routes.route_change(route=route, by=manager, given={"url": receiver.url})
    routes.secret_rotate(route=route, by=manager)
    outbox.ping(route=route)
    assert [path for path, _, _ in receiver.got] == ["/hook"]


def test_a_webhook_that_cannot_be_checked_is_asked_for_again(
    manager: Any, receiver: Any, settings: Any, client: Client
) -> None:
    options = {"inbound_secret": INBOUND}
    made = routes.route_save(by=manager, name="p", kind="pagerduty", url=receiver.url, secret="k" * 32, options=options)
    change_key(settings, [])
    answer = client.post(f"/api/v1/routes/{made.pk}/pagerduty/", "{}", content_type="application/json")
    assert (answer.status_code, answer.json()["title"]) == (503, "unreadable secret")
