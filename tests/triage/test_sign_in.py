"""Signing in: limits by account and address, changed and reset passwords, tokens, and the second step."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from allauth.mfa.totp.internal import auth as totp
from django.core import mail
from django.core.cache import cache
from django.test import Client
from redis.exceptions import ConnectionError as Away

from ingest.models import Token
from ingest.services import token_create
from tests.factories import make_user
from tests.pages import page_text
from triage.cache import FaultTolerantCache

pytestmark = pytest.mark.django_db
NEW = "a longer horse than before"


@pytest.fixture(autouse=True)
def no_attempts_before() -> None:
    cache.clear()


def sign_in(client: Client, name: str, password: str = "right horse", **more: Any) -> Any:
    return client.post("/sign-in/", {"username": name, "password": password}, **more)


def is_in(client: Client) -> bool:
    return client.get("/jobs/").status_code == 200


def code_of(secret: str) -> str:
    return totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30))


def test_a_person_signs_in_and_comes_to_where_he_wanted_and_nowhere_else(client):
    make_user("ada", "engineer")
    assert sign_in(client, "ada")["Location"] == "/"
    client.logout()
    assert client.post("/sign-in/?next=/jobs/", {"username": "ada", "password": "right horse"})["Location"] == "/jobs/"
    client.logout()
    form = {"username": "ada", "password": "right horse", "next": "https://evil.example/"}
    assert client.post("/sign-in/", form)["Location"] == "/"


def test_a_wrong_password_an_unknown_name_and_a_closed_account_get_the_same_answer(client):
    make_user("ada", "engineer")
    make_user("gone", "engineer", is_active=False)
    said = set()
    for name, password in (("ada", "wrong"), ("nobody", "wrong"), ("gone", "right horse")):
        page = page_text(sign_in(client, name, password))
        said.add(re.search(r'role="alert">\s*<div>(.*?)</div>', page, re.DOTALL)[1].strip())
    assert said == {"<p>User name or password is wrong. Check both, also upper and lower case.</p>"}


def test_an_account_waits_after_ten_wrong_passwords_wherever_they_came_from(client):
    make_user("ada", "engineer")
    for n in range(10):
        sign_in(client, "ada", "wrong", REMOTE_ADDR=f"203.0.113.{n}")
    page = sign_in(client, "ada", REMOTE_ADDR="198.51.100.1")
    assert "Wait five minutes" in page_text(page) and not is_in(client)
    make_user("max", "engineer")
    assert sign_in(client, "max", REMOTE_ADDR="198.51.100.1").status_code == 302


def test_an_address_waits_after_twenty_wrong_passwords_whatever_the_accounts(client):
    for n in range(20):
        sign_in(client, f"guess{n}", "wrong", REMOTE_ADDR="203.0.113.7")
    make_user("ada", "engineer")
    assert "Wait five minutes" in page_text(sign_in(client, "ada", REMOTE_ADDR="203.0.113.7"))
    assert sign_in(client, "ada", REMOTE_ADDR="203.0.113.8").status_code == 302


def test_whoever_signs_in_rightly_is_not_counted(client):
    make_user("ada", "engineer")
    for _ in range(25):
        assert sign_in(client, "ada").status_code == 302
        client.logout()


def test_an_address_behind_our_proxy_is_recognised_by_what_the_proxy_says_and_not_by_the_sender(client, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    make_user("ada", "engineer")
    for n in range(20):
        sign_in(client, f"g{n}", "wrong", HTTP_X_FORWARDED_FOR=f"10.0.0.{n}, 203.0.113.7", REMOTE_ADDR="127.0.0.1")
    told = {"HTTP_X_FORWARDED_FOR": "203.0.113.9, 203.0.113.7", "REMOTE_ADDR": "127.0.0.1"}
    assert "Wait five minutes" in page_text(sign_in(client, "ada", **told))
    told["HTTP_X_FORWARDED_FOR"] = "203.0.113.7, 203.0.113.9"
    assert sign_in(client, "ada", **told).status_code == 302


def test_the_administration_is_entered_by_the_same_door(client):
    make_user("root", "admin", is_staff=True, is_superuser=True)
    page = client.get("/admin/login/?next=/admin/")
    assert (page.status_code, page["Location"]) == (302, "/sign-in/?next=%2Fadmin%2F")
    posted = client.post("/admin/login/", {"username": "root", "password": "right horse"})
    assert posted.status_code == 302 and posted["Location"].startswith("/sign-in/")
    assert not is_in(client)


def test_a_cache_that_is_away_locks_nobody_out(monkeypatch):
    quiet = FaultTolerantCache("redis://127.0.0.1:1", {})

    def away(*_: Any, **__: Any) -> None:
        raise Away("no route")

    monkeypatch.setattr(type(quiet), "_cache", property(away), raising=False)
    assert quiet.add("a", 1) is True and quiet.get("a", "none") == "none" and quiet.incr("a") == 1
    quiet.set("a", 1)
    assert quiet.delete("a") is False


def test_changing_a_password_ends_other_sessions_and_revokes_tokens_only_if_asked(client):
    ada = make_user("ada", "engineer")
    other = Client()
    for one in (client, other):
        sign_in(one, "ada")
    token_create(user=ada, name="t", scopes=["read"])
    form = {"oldpassword": "right horse", "password1": NEW, "password2": NEW}
    page = page_text(client.post("/account/password/", form, follow=True))
    assert "The new password is set" in page
    assert is_in(client) and not is_in(other)
    assert Token.objects.get().revoked_at is None
    form = {"oldpassword": NEW, "password1": NEW + "!", "password2": NEW + "!", "revoke_tokens": "on"}
    client.post("/account/password/", form)
    assert Token.objects.get().revoked_at is not None


@pytest.mark.parametrize(
    ("old", "new", "again", "said"),
    [
        ("wrong", NEW, NEW, "not your current password"),
        ("right horse", "short", "short", "too short"),
        ("right horse", NEW, NEW + "x", "same password"),
        ("right horse", "password1234", "password1234", "too common"),
    ],
)
def test_a_new_password_that_does_not_do_is_refused_with_why(client, old, new, again, said):
    make_user("ada", "engineer")
    sign_in(client, "ada")
    page = client.post("/account/password/", {"oldpassword": old, "password1": new, "password2": again})
    assert said in page_text(page)
    assert sign_in(Client(), "ada").status_code == 302


def test_a_forgotten_password_is_set_again_by_a_link_that_works_once(client, settings):
    settings.SITE_URL = "https://faultline.example"
    ada = make_user("ada", "engineer", email="ada@example.org")
    token_create(user=ada, name="t", scopes=["read"])
    client.post("/sign-in/forgotten/", {"email": "ADA@example.org"}, HTTP_HOST="localhost")
    (letter,) = mail.outbox
    assert letter.to == ["ada@example.org"] or letter.to == ["ADA@example.org"]
    assert letter.subject == "Faultline: a new password"
    link = re.search(r"https://faultline\.example(/sign-in/new-password/\S+)", letter.body)[1]
    page = client.get(link, follow=True)
    assert link not in page.request["PATH_INFO"], "the key must not stand in an address that is sent on"
    done = client.post(
        page.request["PATH_INFO"], {"password1": NEW, "password2": NEW, "revoke_tokens": "on"}, follow=True
    )
    assert "The new password is set" in page_text(done)
    assert Token.objects.get().revoked_at is not None
    assert sign_in(Client(), "ada", NEW).status_code == 302
    assert "used already or is too old" in page_text(Client().get(link, follow=True))


def test_asking_for_a_link_does_not_tell_who_has_an_account(client):
    make_user("ada", "engineer", email="ada@example.org")
    provided = make_user("olga", "engineer", email="olga@example.org")
    provided.set_unusable_password()
    provided.save()
    make_user("gone", "engineer", email="gone@example.org", is_active=False)
    pages = set()
    for address in ("ada@example.org", "olga@example.org", "gone@example.org", "nobody@example.org"):
        page = client.post("/sign-in/forgotten/", {"email": address}, follow=True)
        pages.add((page.status_code, page.request["PATH_INFO"]))
    assert pages == {(200, "/sign-in/forgotten/sent/")}
    assert [letter.to for letter in mail.outbox] == [["ada@example.org"]]


def test_links_for_one_address_are_limited(client):
    make_user("ada", "engineer", email="ada@example.org")
    answers = [client.post("/sign-in/forgotten/", {"email": "ada@example.org"}).status_code for _ in range(6)]
    assert answers == [302] * 5 + [429]


def test_somebody_of_a_provider_is_told_where_the_password_is(client):
    olga = make_user("olga", "engineer")
    olga.set_unusable_password()
    olga.save()
    client.force_login(olga)
    page = client.get("/account/password/", follow=True)
    assert page.status_code == 409 and "change your password there" in page_text(page)


def switched_on(client: Client) -> tuple[str, list[str]]:
    """The app's key and the recovery codes of whoever signed in with this client."""
    page = page_text(client.get("/account/second-step/on/"))
    assert client.get("/account/second-step/on/")["Location"].startswith("/account/confirm/?next=")
    confirm = {"password": "right horse", "next": "/account/second-step/on/"}
    page = page_text(client.post("/account/confirm/", confirm, follow=True))
    secret = re.search(r'id="totp-secret"[^>]*value="(\w+)"', page)[1]
    page = page_text(client.post("/account/second-step/on/", {"code": code_of(secret)}, follow=True))
    return secret, re.findall(r"<li><code>(\w+)</code>", page)


def test_a_second_step_asks_for_a_code_and_a_code_works_once(client):
    make_user("ada", "engineer")
    sign_in(client, "ada")
    secret, codes = switched_on(client)
    assert len(codes) == 10
    again = Client()
    assert sign_in(again, "ada")["Location"] == "/sign-in/code/"
    assert not is_in(again)
    assert "wrong or too old" in page_text(again.post("/sign-in/code/", {"code": "000000"}))
    assert again.post("/sign-in/code/", {"code": codes[0]}).status_code == 302 and is_in(again)
    third = Client()
    sign_in(third, "ada")
    assert "wrong or too old" in page_text(third.post("/sign-in/code/", {"code": codes[0]}))
    cache.clear()  # this code was used to switch it on, half a minute ago as far as anybody can tell
    assert third.post("/sign-in/code/", {"code": code_of(secret)}).status_code == 302 and is_in(third)


def test_codes_cannot_be_guessed_without_end(client):
    make_user("ada", "engineer")
    sign_in(client, "ada")
    _, codes = switched_on(client)
    guess = Client()
    sign_in(guess, "ada")
    pages = [page_text(guess.post("/sign-in/code/", {"code": f"{n:06}"})) for n in range(12)]
    assert "Too many" in pages[-1]
    guess.post("/sign-in/code/", {"code": codes[0]})
    assert not is_in(guess)


def test_the_second_step_is_switched_off_only_after_proof_and_says_so(client):
    make_user("ada", "engineer")
    sign_in(client, "ada")
    switched_on(client)
    session = client.session
    session["account_authentication_methods"] = []  # long ago
    session.save()
    assert client.post("/account/second-step/off/")["Location"].startswith("/account/confirm/")
    assert "not your password" in page_text(client.post("/account/confirm/", {"password": "wrong"}))
    assert sign_in(Client(), "ada")["Location"] == "/sign-in/code/"
    confirm = {"password": "right horse", "next": "/account/second-step/off/"}
    page = page_text(client.post("/account/confirm/", confirm, follow=True))  # what was asked for is done now
    assert "The second step is off" in page
    assert sign_in(Client(), "ada")["Location"] == "/"


def test_tokens_continue_without_a_code(client):
    ada = make_user("ada", "engineer")
    sign_in(client, "ada")
    switched_on(client)
    _, secret = token_create(user=ada, name="t", scopes=["read"])
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_a_former_secret_key_keeps_people_signed_in_until_it_is_removed(settings: Any) -> None:
    client = Client()
    client.force_login(make_user("mara", "engineer"))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new " * 12, [settings.SECRET_KEY]
    assert is_in(client)
    settings.SECRET_KEY = "newer " * 12
    settings.SECRET_KEY_FALLBACKS = []
    assert not is_in(client)
