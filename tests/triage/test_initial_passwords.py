"""A password that Faultline makes opens one page: the one where its owner chooses another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from tests.factories import make_user
from tests.pages import page_text
from tests.triage.test_sign_in import NEW, is_in, sign_in
from triage.domain.wanted_setup import setup_of
from triage.models import InitialPassword
from triage.services.ensuring import Ensured, setup_ensure

pytestmark = pytest.mark.django_db
PAGE = "/account/password/"


@pytest.fixture(autouse=True)
def no_attempts_before() -> None:
    cache.clear()


def ensure(**more: Any) -> Ensured:
    (made,) = setup_ensure(setup=setup_of({"people": [{"username": "ada", "roles": ["engineer"], **more}]}))
    return made


def change(client: Client, old: str, new: str = NEW) -> str:
    return page_text(client.post(PAGE, {"oldpassword": old, "password1": new, "password2": new}, follow=True))


def test_who_has_it_can_do_nothing_before_choosing_another(client: Client) -> None:
    password = ensure().secret
    sign_in(client, "ada", password)
    for page in ("/", "/jobs/", "/account/tokens/", "/incidents/", "/account/second-step/"):
        assert client.get(page)["Location"] == PAGE, page
    assert client.get("/api/v1/jobs/").json()["code"] == "initial_password"
    assert client.get("/jobs/", HTTP_HX_REQUEST="true")["HX-Redirect"] == PAGE
    assert "choose your own" in page_text(client.get("/", follow=True))
    assert "the password that you have" in change(client, password, password)
    assert not is_in(client)
    assert "Queue" in change(client, password)
    assert is_in(client) and client.get("/api/v1/jobs/").status_code == 200
    again = Client()
    sign_in(again, "ada", NEW)
    assert is_in(again)


def test_it_expires_and_the_next_setup_makes_a_new_one(client: Client) -> None:
    password = ensure().secret
    assert ensure().state == "unchanged"
    InitialPassword.objects.update(made_at=timezone.now() - InitialPassword.VALID_FOR - timedelta(minutes=1))
    answer = sign_in(client, "ada", password)
    assert answer.status_code == 403 and "has expired" in page_text(answer)
    assert not is_in(client)
    renewed = ensure()
    assert (renewed.state, renewed.changes) == ("changed", ("password",))
    sign_in(client, "ada", renewed.secret)
    assert client.get("/jobs/")["Location"] == PAGE


def test_a_password_that_somebody_chose_is_none(client: Client) -> None:
    assert ensure(password=NEW).secret == ""
    sign_in(client, "ada", NEW)
    assert is_in(client)
    make_user("max", "engineer")
    InitialPassword.objects.create(
        user=get_user_model().objects.get(username="max"), digest="another", made_at=timezone.now()
    )
    other = Client()
    sign_in(other, "max")
    assert is_in(other), "an administrator set another password since"
