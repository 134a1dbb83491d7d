"""Who may call what: each address of the site and each operation of the API, by each kind of person.

The table below is compared with the addresses that there are: a new one without a rule fails here.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

import pytest
import yaml
from django.db import connection, transaction
from django.test import Client

from ingest.models import Run
from ingest.services import artifact_receive, resuming, token_create
from scripts.openapi import SCHEMA
from tests import yamls
from tests.docs.test_addresses import ours
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.triage.report import sample
from triage.models import Activity, CustomRule, Route, SavedView
from triage.services import outbox, reviewing
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

OPEN, ALL, TEAM, OWNER = "open", "all", "team", "owner"
#: statuses that say "you may not", "there is nothing for you", "not like that", "it broke"
_CLOSED = {401, 403, 404, 405, 500}
#: on the second database: who may what is decided above it, so these show that each address works there
_FEW = ("owner", "stranger", "nobody")
#: words that only the team's people may read
_SECRETS = ("gpu-secret", "secret-job", "Secret view")


@dataclass(frozen=True)
class Rule:
    """Who sees it, what a role must allow, and a request that does something."""

    seen_by: str
    ability: str = ""
    send: dict[str, Any] = field(default_factory=dict)
    query: str = ""
    #: the evidence of this cast holds nothing to show there; its own tests do
    is_bare: bool = False


def post(seen_by: str, ability: str = "", **send: Any) -> Rule:
    return Rule(seen_by, ability, send)


_LOG = "<attempt>/<path>"
RULES: dict[str, Rule] = {
    "GET /": Rule(ALL),
    "GET /account/confirm/": Rule(ALL),
    "GET /account/confirm/code/": Rule(ALL),
    "GET /account/password/": Rule(ALL),
    "GET /account/password/none/": Rule(ALL, is_bare=True),
    "GET /account/second-step/": Rule(ALL),
    "GET /account/second-step/on/": Rule(ALL),
    "GET /account/second-step/off/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/new/": Rule(ALL, is_bare=True),
    "GET /account/second-step/codes/download/": Rule(ALL, is_bare=True),
    "GET /account/services/": Rule(ALL, "administer"),
    "GET /account/sessions/": Rule(ALL),
    "POST /account/sessions/": post(ALL, end="1"),
    "GET /account/tokens/": Rule(ALL),
    "POST /account/tokens/": post(ALL, name="x", scopes=["read"]),
    "GET /api/docs/": Rule(ALL),
    "GET /api/schema/": Rule(ALL),
    "GET /faultline.pyz": Rule(OPEN),
    "GET /glossary/": Rule(ALL),
    "GET /healthz": Rule(OPEN),
    "GET /help/": Rule(ALL, query="find=token"),
    "GET /help/<name>/": Rule(ALL),
    "GET /help/pictures/<name>": Rule(ALL),
    "GET /incidents.csv": Rule(ALL, "export"),
    "GET /incidents/": Rule(ALL),
    "GET /incidents/<number>.md": Rule(TEAM),
    "GET /incidents/<number>.png": Rule(TEAM, is_bare=True),
    "GET /incidents/<number>/": Rule(TEAM),
    "GET /incidents/<number>/assignees/": Rule(TEAM, "review"),
    "GET /incidents/<number>/grouping/": Rule(TEAM),
    "GET /incidents/<number>/next/": Rule(TEAM),
    "GET /incidents/<number>/previous/": Rule(TEAM),
    "POST /incidents/<number>/act/": post(TEAM, "review", act="actioned"),
    "POST /incidents/<number>/assign/": post(TEAM, "review", assignee="owner"),
    "POST /incidents/<number>/comment/": post(TEAM, "review", body="x"),
    "POST /incidents/<number>/decide/": post(TEAM, "review", claim="category", word="confirm"),
    "POST /incidents/<number>/decisions/<decision>/undo/": post(TEAM, "review"),
    "POST /incidents/<number>/group/": post(TEAM, "review", act="split"),
    "POST /incidents/<number>/check/": post(TEAM, "upload", output="nothing", target="gpu-0412"),
    "POST /incidents/<number>/tried/": post(TEAM, "review", action="reboot", outcome="failed"),
    "POST /incidents/<number>/tried/<act>/undo/": post(TEAM, "review"),
    "POST /incidents/bulk/": post(ALL, "review", act="confirm", id=["<number>"]),
    "GET /incidents/suggest/": Rule(ALL, query="q=node:gpu&cursor=8"),
    "GET /ingest/progress/<slug>/": Rule(TEAM),
    "POST /ingest/runs/<pk>/retry/": post(TEAM, "upload"),
    "POST /ingest/runs/<slug>/cancel/": post(TEAM, "upload"),
    "POST /ingest/runs/<slug>/resume/": post(TEAM, "upload"),
    "GET /jobs/": Rule(ALL),
    **{f"GET /jobs/<slug>/{tab}": Rule(TEAM) for tab in ("", "compare/", "cost/", "events/", "facts/", "flows/")},
    **{
        f"GET /jobs/<slug>/{tab}": Rule(TEAM)
        for tab in ("files/", "stacks/", "work/", "timeline/<attempt>/", "curves/<other>/")
    },
    "GET /jobs/<slug>/facts.csv": Rule(TEAM, is_bare=True),
    **{f"GET /jobs/<slug>/{act}/{_LOG}": Rule(TEAM) for act in ("logs", "context", "raw", "map", "templates")},
    f"GET /jobs/<slug>/find/{_LOG}": Rule(TEAM, query="words=iteration"),
    "GET /jobs/<slug>/search/<attempt>/": Rule(TEAM, query="find=iteration&cursor="),
    "GET /jobs/<slug>/search/<attempt>/step/": Rule(TEAM, query="words=iteration"),
    f"GET /jobs/<slug>/instant/{_LOG}": Rule(TEAM, query="at=2026-11-21T03:00:00Z"),
    **{f"GET /jobs/<slug>/search/<attempt>/{step}": Rule(TEAM, query="words=iteration") for step in ("", "step/")},
    "GET /jobs/<slug>/timeline/<attempt>/trace.json.gz": Rule(TEAM),
    "GET /jobs/<slug>/flows/<attempt>/<flow>/": Rule(TEAM, is_bare=True),
    "GET /jobs/<slug>/flows/<attempt>/<flow>/<form>": Rule(TEAM, is_bare=True),
    "POST /jobs/<slug>/flows-attach/": dataclasses.replace(post(TEAM, "upload", job="secret-job"), is_bare=True),
    "POST /jobs/<slug>/flows-detach/<act>/": dataclasses.replace(post(TEAM, "upload"), is_bare=True),
    "POST /jobs/<slug>/diagnose/": post(TEAM, "upload"),
    "GET /jobs/<slug>/describe/": Rule(TEAM, "upload"),
    "POST /jobs/<slug>/move/": post(TEAM, "move", cluster="default"),
    "POST /jobs/<slug>/describe/": post(TEAM, "upload", name="x", outcome="unknown"),
    "GET /jobs/<slug>/delete/": Rule(TEAM, "upload"),
    "POST /jobs/<slug>/delete/": post(OWNER, "upload"),
    "POST /jobs/<slug>/files/<pk>/delete/": post(TEAM, "upload"),
    "GET /metrics": Rule(OPEN),
    "GET /nodes/": Rule(ALL),
    "GET /nodes/<name>/": Rule(TEAM),
    "GET /replay/": Rule(ALL),
    "GET /rules/": Rule(ALL),
    "GET /running/": Rule(ALL),
    "GET /jobs/<slug>/live/<attempt>/": Rule(TEAM),
    "GET /jobs/<slug>/live/<attempt>/lines/": Rule(TEAM),
    "GET /jobs/<slug>/live/<attempt>/state/": Rule(TEAM),
    "GET /rules/<pk>/": Rule(ALL, "administer"),
    "GET /rules/new/": Rule(ALL, "administer"),
    "GET /sign-in/": Rule(OPEN),
    "POST /demonstration/remove/": post(ALL, "demonstration"),
    "GET /sign-in/code/": Rule(OPEN),
    "GET /sign-in/forgotten/": Rule(OPEN),
    "GET /sign-in/forgotten/sent/": Rule(OPEN),
    "GET /sign-in/new-password/<uidb36>/<key>/": Rule(OPEN),
    "GET /sign-in/new-password/done/": Rule(OPEN),
    "GET /people/": Rule(ALL, "organise"),
    "POST /people/": post(ALL, "administer", username="new-person", roles=["viewer"]),
    "GET /people/<username>/": Rule(ALL, "organise"),
    "POST /people/<username>/": post(ALL, "administer", is_active="on"),
    "GET /teams/": Rule(ALL, "organise"),
    "POST /teams/": post(ALL, "administer", slug="new-team"),
    "GET /clusters/": Rule(ALL, "organise"),
    "POST /clusters/": post(ALL, "administer", slug="new-cluster", gpus_per_node="8"),
    "POST /samples/load/": post(ALL, "upload"),
    "POST /sign-out/": post(ALL),
    "GET /statistics/": Rule(ALL, "statistics"),
    "GET /statistics/<table>.csv": Rule(ALL, "statistics"),
    "GET /statistics/planning/": Rule(ALL, "statistics"),
    "POST /undo/last/": post(ALL, "review"),
    "POST /undo/<request_id>/": post(ALL, "review"),
    "GET /upload/": Rule(ALL, "upload"),
    "POST /upload/": post(ALL, "upload", name="x", outcome="unknown"),
    "POST /views/": post(ALL, name="x", query="is:unreviewed"),
    "POST /views/<slug>/delete/": post(ALL),  # one of another person is left alone
    "GET /incidents/<number>/summary/": Rule(TEAM, is_bare=True),
    "POST /incidents/<number>/summary/make/": Rule(TEAM, "review", is_bare=True),
    "GET /incidents/<number>/tickets/": Rule(TEAM),
    "POST /incidents/<number>/ticket/": post(TEAM, "review", route="0"),
    "GET /nodes/<name>/tickets/": Rule(TEAM),
    "POST /nodes/<name>/ticket/": post(TEAM, "review", route="0"),
    "GET /routes/": Rule(ALL, "routes"),
    "GET /routes/new/<kind>/": Rule(ALL, "routes"),
    "POST /routes/new/<kind>/": post(ALL, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "GET /routes/<pk>/": Rule(OWNER, "routes"),
    "POST /routes/<pk>/": post(OWNER, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "POST /routes/<pk>/act/": post(OWNER, "routes", act="delete"),
    "GET /routes/<pk>/deliveries/<delivery>/": Rule(OWNER, "routes"),
    "POST /routes/<pk>/deliveries/<delivery>/redeliver/": post(OWNER, "routes"),
    # the API, by operation
    "incidents_list": Rule(ALL),
    "incidents_read": Rule(TEAM),
    "incidents_findings": Rule(TEAM),
    "incidents_decisions_list": Rule(TEAM),
    "incidents_decisions_create": post(TEAM, "review", claim="category", word="confirm"),
    "incidents_decisions_undo": post(TEAM, "review"),
    "jobs_list": Rule(ALL),
    "jobs_create": post(ALL, "upload", name="x"),
    "jobs_read": Rule(TEAM),
    "jobs_change": post(TEAM, "upload", outcome="failed"),
    "jobs_put": post(ALL, "upload", outcome="failed"),  # others get a job of their own in their cluster
    "jobs_move": post(TEAM, "move", cluster="default"),
    "jobs_delete": Rule(OWNER, "upload"),
    "jobs_artifacts": Rule(TEAM),
    "artifacts_put": Rule(TEAM, "upload", query="path=b.log"),
    "jobs_diagnose": post(TEAM, "upload"),
    "jobs_restart": Rule(TEAM),
    "jobs_runs": Rule(TEAM),
    "runs_cancel": post(TEAM, "upload"),
    "runs_retry": post(TEAM, "upload"),
    "jobs_uploads": Rule(TEAM),
    "jobs_wanted": Rule(TEAM),
    "me_read": Rule(ALL),
    "me_token_revoke": Rule(ALL),
    "search_suggest": Rule(ALL, query="q=node:gpu&cursor=8"),
    "statistics_read": Rule(ALL, "statistics"),
    "lines_push": Rule(ALL, "upload"),
    "node_events_push": Rule(ALL, "upload"),
    "uploads_create": Rule(TEAM, "upload"),
    "uploads_append": Rule(TEAM, "upload"),
    "uploads_delete": Rule(TEAM, "upload"),
    "uploads_offset": Rule(TEAM),
    "uploads_capabilities": Rule(ALL),
    "routes_list": Rule(ALL, "routes"),
    "routes_create": post(ALL, "routes", name="x", url="http://127.0.0.1:9/", events=["incident.opened"]),
    "routes_read": Rule(OWNER, "routes"),
    "routes_change": post(OWNER, "routes", is_active=False),
    "routes_delete": Rule(OWNER, "routes"),
    "routes_deliveries": Rule(OWNER, "routes"),
    "routes_redeliver": post(OWNER, "routes"),
    "incidents_tickets": Rule(TEAM),
    "incidents_ticket_make": post(TEAM, "review", route=1_000_000),
    "nodes_tickets": Rule(TEAM),
    "nodes_ticket_make": post(TEAM, "review", route=1_000_000),
    # its signature says who it is: PagerDuty, never a person
    "routes_pagerduty": Rule(ALL, is_bare=True),
    "routes_ping": post(OWNER, "routes"),
    "routes_rotate": post(OWNER, "routes"),
    "setup_ensure": post(ALL, "administer", teams=[]),
}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, methods in yamls.read(SCHEMA.read_text())["paths"].items()
    for method, operation in methods.items()
}


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
        if name in ("artifacts_put", "uploads_append"):
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
