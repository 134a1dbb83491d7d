"""A site may ask managers, or everybody, for a second step at sign-in; the site's keys and its log keep it safe."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.password_validation import validate_password
from django.core import mail
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.test import Client

from ingest.services import token_create
from tests.factories import make_user
from tests.pages import page_text
from tests.patience import WORK_S
from tests.triage.test_sign_in import is_in, sign_in, switched_on
from triage.places import ROOT
from triage.sealing import SealBroken, seal, unseal
from triage.services.resealing import secrets_reseal
from triage.unsent_mail import Backend

pytestmark = pytest.mark.django_db
ON = "/account/second-step/on/"


@pytest.fixture(autouse=True)
def no_attempts_before() -> None:
    cache.clear()


def test_who_needs_a_second_step_can_open_nothing_else_before_it_is_on(client: Client, settings: Any) -> None:
    settings.SECOND_STEP = "managers"
    make_user("mara", "manager")
    sign_in(client, "mara")
    for page in ("/", "/jobs/", "/account/tokens/", "/admin/", "/incidents/"):
        assert client.get(page)["Location"] == ON, page
    assert client.get("/api/v1/jobs/").json()["code"] == "second_step"
    assert client.get("/jobs/", HTTP_HX_REQUEST="true")["HX-Redirect"] == ON
    switched_on(client)
    assert is_in(client) and client.get("/api/v1/jobs/").status_code == 200
    assert "Switch off" not in page_text(client.get("/account/second-step/"))
    off = client.post("/account/second-step/off/", follow=True)
    assert "it stays on" in off.content.decode()
    assert Authenticator.objects.filter(type="totp").exists()


def test_others_and_tokens_need_none(client: Client, settings: Any) -> None:
    settings.SECOND_STEP = "managers"
    make_user("ada", "engineer")
    sign_in(client, "ada")
    assert is_in(client)
    settings.SECOND_STEP = "everybody"
    assert not is_in(client)
    _, secret = token_create(user=make_user("mara", "manager"), name="t", scopes=["read"])
    assert Client().get("/api/v1/jobs/", HTTP_AUTHORIZATION=f"Bearer {secret}").status_code == 200
    session = client.session
    session["account_authentication_methods"] = [{"method": "socialaccount", "provider": "oidc"}]
    session.save()
    assert is_in(client), "the provider asks for its own"


def test_the_key_of_an_app_is_encrypted_in_the_database(client: Client, settings: Any) -> None:
    make_user("ada", "engineer")
    sign_in(client, "ada")
    secret, _ = switched_on(client)
    for row in Authenticator.objects.all():
        assert all(str(value).startswith("sealed:") for key, value in row.data.items() if key in ("secret", "seed"))
        assert secret not in str(row.data)
    sealed = Authenticator.objects.get(type="totp").data["secret"]
    old = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [old]
    assert unseal(sealed) == secret and unseal("plain before") == "plain before"
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(SealBroken, match="FAULTLINE_SECRET_KEY_FORMER"):
        unseal(sealed)
    assert seal("x") != seal("x")


def test_a_former_secret_key_can_go_after_the_next_preparation(client: Client, settings: Any) -> None:
    make_user("ada", "engineer")
    sign_in(client, "ada")
    secret, _ = switched_on(client)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]
    assert secrets_reseal() == 2 and secrets_reseal() == 0
    settings.SECRET_KEY_FALLBACKS = []
    assert unseal(Authenticator.objects.get(type="totp").data["secret"]) == secret
    settings.SECRET_KEY = "a lost one"
    assert secrets_reseal() == 0, "what no key opens stays as it is"


def test_acts_of_sign_in_and_refusals_are_lines_of_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="triage.security_log")
    make_user("ada", "viewer")
    sign_in(client, "ada\n\u202eroot", "wrong", REMOTE_ADDR="203.0.113.7")
    sign_in(client, "ada")
    client.get("/upload/")
    Client().get("/api/v1/jobs/")
    client.post("/sign-out/")
    said = [record.getMessage() for record in caplog.records if record.name == "triage.security_log"]
    assert said == [
        "sign-in failed: who=ada [U+202E]root from=203.0.113.7",
        "signed in: who=ada from=127.0.0.1",
        "refused with 403: GET /upload/: who=ada from=127.0.0.1",
        "refused with 401: GET /api/v1/jobs/: who=- from=127.0.0.1",
        "signed out: who=ada from=127.0.0.1",
    ]


def test_other_sites_cannot_embed_an_answer(client: Client) -> None:
    answer = client.get("/sign-in/")
    assert answer["Cross-Origin-Resource-Policy"] == answer["Cross-Origin-Opener-Policy"] == "same-origin"


def test_without_a_mail_server_the_log_says_so_without_the_text(caplog: pytest.LogCaptureFixture) -> None:
    message = mail.EmailMessage("Faultline: new password", "https://secret-link", to=["ada@example.org"])
    assert Backend().send_messages([message]) == 0
    assert "FAULTLINE_SMTP_HOST" in caplog.text and "secret-link" not in caplog.text


def test_djangos_check_of_deployments_has_nothing_to_say_without_a_mail_server(tmp_path: Path) -> None:
    ours = ("DATABASE_URL", "REDIS_URL", "PATH", "HOME")
    env = {name: os.environ[name] for name in ours if name in os.environ}
    env |= {"FAULTLINE_TLS": "1", "FAULTLINE_SECRET_KEY": "k" * 25 + "0123456789abcdefghijklmnopq"}
    env |= {"FAULTLINE_ALLOWED_HOSTS": "faultline.example", "FAULTLINE_DATA_DIR": str(tmp_path)}
    argv = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.parametrize(
    ("password", "is_taken"),
    [("faultline2026!", False), ("Admin-Admin-1", False), ("example-admin", False), ("tall faultline of rocks", True)],
)
def test_a_password_of_the_sites_own_words_is_refused(password: str, is_taken: bool, settings: Any) -> None:
    settings.SITE_URL = "https://faultline.example"
    try:
        validate_password(password)
    except ValidationError as error:
        assert not is_taken and "guessed first" in str(error)
    else:
        assert is_taken
