"""Every operation of the API answers as docs/openapi.yaml says, whatever it is sent, and never with a 500.

What the schema allows is never called malformed (400), what it forbids is never done (2xx), and walks from one
operation to the next, by what the first gave, hold it too. A few examples each here; more by
`FAULTLINE_CONTRACT_EXAMPLES=200 python -m pytest tests/triage/test_contract.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from ingest.models import Artifact, Blob, Run, RunLog, Token, Upload
from ingest.services import resuming, token_create
from scripts.openapi import SCHEMA as SCHEMA_FILE
from tests.factories import make_attempt, make_job, make_user
from tests.triage.report import sample
from triage.models import Route
from triage.services import outbox, reviewing
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db
#: operations of one walk
STEPS = 6
EXAMPLES = int(os.environ.get("FAULTLINE_CONTRACT_EXAMPLES", "4"))
SCHEMA = schemathesis.openapi.from_path(str(SCHEMA_FILE))
SCHEMA.app = get_wsgi_application()
for _kind in ("application/offset+octet-stream", "application/x-ndjson"):
    schemathesis.serializer.alias(_kind, "application/octet-stream")
OPERATIONS = {f"{found.ok().method.upper()} {found.ok().path}": found.ok() for found in SCHEMA.get_all_operations()}
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
DIGEST = "0" * 64


@pytest.fixture(autouse=True)
def one_connection(db: None) -> Iterator[None]:
    """Requests leave the connection open, as those of Django's own test client do: rows live in its transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(autouse=True)
def allowed(settings: Any) -> None:
    settings.API_PER_MINUTE = settings.UPLOADS_PER_MINUTE = 1_000_000
    settings.ROUTES_ALLOW = ["127.0.0.1"]


@pytest.fixture(scope="module")
def rows(kept_rows: None) -> dict[str, Any]:
    """One of everything, and what stands for it in addresses."""
    admin = make_user("root", "admin", "manager")
    job = make_job("night-run", nodes_text="n1\nn2")
    attempt = make_attempt(job)
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    incident = attempt.incidents.get()
    decision = reviewing.decision_make(incident=incident, claim="category", word="confirm", by=admin)
    blob = Blob.objects.create(sha256=DIGEST, size_bytes=3)
    Artifact.objects.create(attempt=attempt, path="a.log", blob=blob, state="skipped", problem="It is empty.")
    run = Run.objects.create(job=job, kind="parse", state="failed", error="It broke.")
    RunLog.objects.create(run=run, level="error", message="It broke.", path="a.log")
    Upload.objects.create(job=job, attempt=attempt, path="b.log", state="refused", problem="Too large.")
    upload = resuming.upload_begin(job=job, path="c.log", size_bytes=10)
    route = Route.objects.create(
        owner=admin, name="x", url="http://127.0.0.1:9/", events=["incident.opened"], secret="whsec_AAAA"
    )
    sent = outbox.ping(route=route)
    _, secret = token_create(user=admin, name="contract", scopes=Token.Scope.values)
    return {
        "secret": secret,
        "slug": job.slug,
        "number": incident.pk,
        "decision": decision.pk,
        "sha256": DIGEST,
        "path": "node-1/train.log",
        "name": "gpu-0412",
        "delivery": str(sent.pk),
        "/api/v1/uploads/": str(upload.pk),
        "/api/v1/routes/": route.pk,
        "/runs/": run.pk,
    }


def real(rows: dict[str, Any], path: str, name: str) -> Any:
    """What makes the parameter name a row that is there."""
    if name in rows:
        return rows[name]
    return next(value for part, value in rows.items() if part.startswith("/") and part in path)


def check_agreement(case: Any, response: Any, mode: GenerationMode) -> None:
    """Requests too are what the schema says. Refused otherwise is only what no schema tells: a search that cannot be
    read, a time zone that nobody knows.
    """
    if mode == GenerationMode.POSITIVE:
        # a layout is whatever programs print: only that it holds text which a database keeps is asked of it
        problem = response.json() if response.status_code == 422 else {}
        named = {row["field"] for row in problem.get("errors", [])}
        is_mismatch = problem.get("detail") == "Some fields are wrong; see errors." and named != {"layout"}
        assert response.status_code not in (400, 415) and not is_mismatch, f"fits, but {response.text}"
    elif wrong_in(case) & {"body", "query"}:  # headers that nobody knows are passed over, and tokens are ours
        assert response.status_code >= 300, f"does not fit, but was done: {case.as_curl_command()}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_answers_as_described_what_fits(name: str, rows: dict[str, Any]) -> None:
    send_some(OPERATIONS[name], GenerationMode.POSITIVE, rows)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_refuses_as_described_what_does_not_fit(name: str, rows: dict[str, Any]) -> None:
    try:
        send_some(OPERATIONS[name], GenerationMode.NEGATIVE, rows)
    except Unsatisfiable:
        pytest.skip("nothing that does not fit can be sent")


def send_some(operation: Any, mode: GenerationMode, rows: dict[str, Any]) -> None:
    """Send requests that fit the schema, or that do not, and check the answers."""
    there = {parameter.name: real(rows, operation.path, parameter.name) for parameter in operation.path_parameters}
    quiet = [
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ]
    turns = iter(range(10**9))

    @given(case=operation.as_strategy(generation_mode=mode))
    @examples(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=quiet,
        phases=[Phase.generate],
    )
    def check(case: Any) -> None:
        if next(turns) % 4:  # the rest asks for rows that are not there
            case.path_parameters = {**(case.path_parameters or {}), **there}
        response = case.call(headers={"Authorization": f"Bearer {rows['secret']}"})
        case.validate_response(response, checks=CHECKS)
        check_agreement(case, response, mode)

    check()


def wrong_in(case: Any) -> set[str]:
    """The parts of a request that were made not to fit."""
    components = case.meta.components if case.meta else {}
    return {str(kind.value) for kind, info in components.items() if info.mode == GenerationMode.NEGATIVE}


def test_walks_from_one_operation_to_the_next_hold_what_each_promises(rows: dict[str, Any]) -> None:
    followed: list[str] = []

    class Walk(SCHEMA.as_state_machine()):  # type: ignore[misc]
        def step(self, input: Any) -> Any:
            if input.transition and input.is_applied:
                followed.append(input.case.operation.label)
            return super().step(input)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {rows['secret']}"}}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    run_state_machine_as_test(
        Walk,
        settings=examples(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )
    assert followed, "no operation was called with what another one gave"


def test_every_operation_is_refused_without_a_token(rows: dict[str, Any]) -> None:
    client = Client()
    for name, operation in OPERATIONS.items():
        path = operation.path
        for parameter in operation.path_parameters:
            path = path.replace(f"{{{parameter.name}}}", str(real(rows, operation.path, parameter.name)))
        answer = client.generic(operation.method.upper(), path)
        assert answer.status_code == 401, name
        assert answer["Content-Type"] == "application/problem+json", name
        challenge = "Bearer" if operation.definition.raw.get("security") else "PagerDuty-Signature"
        assert answer["WWW-Authenticate"] == challenge, name
