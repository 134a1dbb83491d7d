"""Who may call what: each address of the site and each operation of the API, by each kind of person.

The table of rules (`access_rules.py`) is compared with the addresses that there are: a new one without a rule fails
here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
import yaml
from django.db import connection, transaction
from django.test import Client

from ingest.models import Run
from ingest.services import artifact_receive, resuming, token_create
from tests.docs.test_addresses import ours
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.triage.access_rules import ALL, OPEN, OPERATIONS, OWNER, RULES, TEAM, Rule
from tests.triage.report import sample
from triage.models import Activity, CustomRule, Route, SavedView
from triage.services import outbox, reviewing
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

#: statuses that say "you may not", "there is nothing for you", "not like that", "it broke"
_CLOSED = {401, 403, 404, 405, 500}
#: on the second database: who may what is decided above it, so these show that each address works there
_FEW = ("owner", "stranger", "nobody")
#: words that only the team's people may read
_SECRETS = ("gpu-secret", "secret-job", "Secret view")


def test_every_address_and_every_operation_has_a_rule() -> None:
    pages = {address for address in ours() if not address.startswith("/api/v1/")}
    ruled = {name.partition(" ")[2] for name in RULES if " " in name}
    assert sorted(pages - ruled) == [], "say in RULES who may call it"
    assert sorted(ruled - pages) == [], "these are gone"
    assert sorted(OPERATIONS.keys() ^ {name for name in RULES if " " not in name}) == []


@pytest.fixture
def cast(settings: Any, django_capture_on_commit_callbacks: Any) -> dict[str, Any]:
    """A private cluster of one team with everything that an address can name, and people around it."""
    settings.ROUTES_ALLOW = ["127.0.0.1"]
    private = make_cluster("private")
    owner, mate, stranger = (make_user(name, "engineer", "manager") for name in ("owner", "mate", "stranger"))
    viewer, admin = make_user("viewer", "viewer"), make_user("root", "admin")
    make_team("red", members=[owner, mate, viewer], clusters=[private])
    make_team("blue", members=[stranger], clusters=[make_cluster("other")])
    job, other = (make_job(slug, cluster=private, created_by=owner) for slug in ("secret-job", "secret-job-2"))
    attempt = make_attempt(job)
    make_attempt(other)
    report = yaml.safe_load(yaml.safe_dump(sample()).replace("gpu-0412", "gpu-secret"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    incident = attempt.incidents.get()
    decision = reviewing.decision_make(incident=incident, claim="category", word="confirm", by=owner)
    with django_capture_on_commit_callbacks(execute=True):
        log = b"".join(b"2026-11-21 03:%02d:00,000 INFO iteration %d\n" % (i % 60, i) for i in range(60))
        artifact = artifact_receive(job=job, path="a.log", chunks=[log]).artifact
    route = Route.objects.create(owner=owner, name="x", url="http://127.0.0.1:9/", events=["ping"], secret="whsec_AAAA")
    people = {"owner": owner, "mate": mate, "stranger": stranger, "viewer": viewer, "admin": admin}
    return {
        "people": (*people, "nobody"),
        "cookies": {name: _signed_in(person) for name, person in people.items()},
        "tokens": {
            name: token_create(user=person, name="t", scopes=["read", "upload", "review", "manage", "administer"])[1]
            for name, person in people.items()
        },
        "number": incident.pk,
        "decision": decision.pk,
        "act": Activity.objects.create(incident=incident, job=job, kind="tried", actor=owner, data={}).pk,
        "slug": job.slug,
        "other": other.slug,
        "attempt": 0,
        "path": "a.log",
        "flow": "none",
        "form": "steps.csv",
        "name": "gpu-secret",
        "table": "pareto",
        "username": "viewer",
        "request_id": uuid.uuid4(),
        "uidb36": "1",
        "key": "none",
        "sha256": "0" * 64,
        "delivery": outbox.ping(route=route).pk,
        "files.pk": artifact.pk if artifact else 0,
        "files.path": "x.log",
        "runs.pk": Run.objects.create(job=job, kind="parse", state="failed").pk,
        "rules.pk": CustomRule.objects.create(rule_id="site.x", body="", created_by=admin).pk,
        "routes.pk": route.pk,
        "kind": "webhook",
        "pictures.name": "linear.svg",
        "help.name": "keys",
        "views.slug": SavedView.objects.create(slug="own", name="Secret view", query="", owner=owner).slug,
        "uploads.pk": resuming.upload_begin(job=job, path="c.log", size_bytes=10).pk,
    }


def _signed_in(person: Any) -> SimpleCookie:
    client = Client()
    client.force_login(person)
    return client.cookies


def filled(address: str, cast: dict[str, Any]) -> str:
    """The address with the cast's rows in place of its parameters."""

    def value(found: re.Match[str]) -> str:
        name = found[1].replace("id", "pk") if found[1] == "id" else found[1]
        owned = next(
            (key for key in cast if key.endswith(f".{name}") and f"/{key.partition('.')[0]}/" in address), name
        )
        return str(cast[owned])

    return re.sub(r"[<{](\w+)[>}]", value, address)


def status_for(who: str, name: str, rule: Rule, cast: dict[str, Any]) -> tuple[int, str, str]:
    """What that person is answered, undone afterwards: status, place it leads to, text."""
    method, address = OPERATIONS.get(name) or tuple(name.split(" ", 1))
    client = Client()
    options: dict[str, Any] = {"headers": {}}
    send: Any = {
        key: [filled(v, cast) for v in value] if isinstance(value, list) else value for key, value in rule.send.items()
    }
    if name in OPERATIONS:
        if who in cast["tokens"]:
            options["headers"]["Authorization"] = f"Bearer {cast['tokens'][who]}"
        options["content_type"] = "application/json"
        if name == "uploads_create":
            options["headers"] |= {"Upload-Length": "1", "Upload-Metadata": "job c2VjcmV0LWpvYg==,path YS5sb2c="}
        if name == "uploads_append":
            options |= {"content_type": "application/offset+octet-stream"}
            options["headers"]["Upload-Offset"] = "0"
        if name in ("artifacts_put", "files_put", "uploads_append"):
            send = b"x"
    elif who in cast["cookies"]:
        client.cookies.load(cast["cookies"][who].output(header=""))
    url = filled(address, cast) + (f"?{rule.query}" if rule.query else "")
    with transaction.atomic():
        answer = (
            getattr(client, method.lower())(url, send or None, **options)
            if method != "GET"
            else client.get(url, **options)
        )
        transaction.set_rollback(True)
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return answer.status_code, answer.get("Location", ""), text.decode("utf-8", "replace")


def broken(name: str, cast: dict[str, Any]) -> Iterator[str]:
    """Where the answers are not what the rule says."""
    rule, is_api = RULES[name], name in OPERATIONS or name == "GET /api/schema/"
    people = cast["people"] if connection.vendor == "sqlite" else _FEW
    people = people if name != "GET /api/schema/" else ("owner", "nobody")  # it takes a while to make
    answers = {who: status_for(who, name, rule, cast) for who in people}
    status = {who: answer[0] for who, answer in answers.items()}
    is_sent_away = status["nobody"] == 401 if is_api else answers["nobody"][1].startswith("/sign-in/?next=")
    if is_sent_away == (rule.seen_by == OPEN):
        yield f"nobody gets {answers['nobody'][:2]}"
    expected: dict[str, bool | None] = dict.fromkeys(cast["people"], True)  # open to them; None: either way
    expected["nobody"] = None
    if rule.seen_by in (TEAM, OWNER):
        expected["stranger"] = False
    if rule.seen_by == OWNER:
        expected |= {"mate": False, "viewer": False, "admin": None}
    if rule.ability:
        expected |= {"viewer": False, "admin": True if expected["admin"] else None}
    if rule.ability == "administer":
        expected |= {"owner": False, "mate": False, "stranger": False}
    if rule.is_bare:
        expected |= {"owner": None, "mate": None, "admin": None, "viewer": None}
        expected["stranger"] = None if rule.seen_by == ALL else expected["stranger"]
    for who, code in status.items():
        if code >= 500 or (expected[who] is not None and expected[who] != (code not in _CLOSED)):
            yield f"{who} gets {answers[who][:2]}"
    is_hidden = rule.seen_by in (TEAM, OWNER) and rule.ability != "administer"
    if is_hidden and status.get("stranger") != 404:
        yield f"to a stranger it is not there, but {status['stranger']}"
    if rule.ability and not rule.is_bare and status.get("viewer", 403) != 403:
        yield f"a viewer is refused, not told {status['viewer']}"
    told = answers.get("stranger", (0, "", ""))[2]
    # a refusal may repeat what the caller wrote: the address, or the job of an upload
    sent = filled(" ".join(OPERATIONS.get(name, (name,))), cast) + (" secret-job" if name == "uploads_create" else "")
    yield from (f"a stranger reads {word}" for word in _SECRETS if word in told and word not in sent)


@pytest.mark.parametrize("part", ["pages", "API"])
def test_each_person_may_what_the_rules_say(part: str, cast: dict[str, Any]) -> None:
    wrong = [
        f"{name}: {text}" for name in RULES if (name in OPERATIONS) == (part == "API") for text in broken(name, cast)
    ]
    assert wrong == []
