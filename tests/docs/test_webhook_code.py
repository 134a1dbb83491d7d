"""The program of docs/webhooks.md, as it is printed, accepts what the site sends and nothing else."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest

from tests.docs.guides import fences
from triage.destinations.webhook import signatures

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
FORMER = "whsec_" + base64.b64encode(b"f" * 32).decode()
BODY = b'{"type": "incident.opened"}'


@pytest.fixture
def is_ours() -> Callable[..., bool]:
    (program,) = (text for language, text in fences("docs/webhooks.md") if language == "python")
    names: dict[str, Callable[..., bool]] = {}
    exec(program, names)
    return names["is_ours"]


def headers(*, age_s: int = 0) -> dict[str, str]:
    at = int(time.time()) - age_s
    signature = signatures(secrets=(SECRET, FORMER), message_id="m-1", timestamp=at, body=BODY)
    return {"webhook-id": "m-1", "webhook-timestamp": str(at), "webhook-signature": signature}


@pytest.mark.parametrize("secret", [SECRET, FORMER])
def test_what_the_site_signs_is_accepted_with_either_secret(is_ours: Callable[..., bool], secret: str) -> None:
    assert is_ours(secret, headers(), BODY)


def test_another_body_another_secret_and_an_old_message_are_refused(is_ours: Callable[..., bool]) -> None:
    assert not is_ours(SECRET, headers(), BODY + b" ")
    assert not is_ours("whsec_" + base64.b64encode(b"x" * 32).decode(), headers(), BODY)
    assert not is_ours(SECRET, headers(age_s=301), BODY)
