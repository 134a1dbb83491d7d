"""Every operation of the API refuses a field that it does not know: nothing is passed over in silence."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.models import Run
from scripts.openapi import SCHEMA
from tests import yamls
from tests.factories import api_of, make_attempt, make_job, make_user
from tests.triage.report import sample
from triage.destinations import ALL
from triage.models import Delivery, Route
from triage.services.diagnosing import diagnosis_store
from triage.services.reviewing import decision_make

pytestmark = pytest.mark.django_db


def operations_with_json() -> list[tuple[str, str]]:
    """Method and address of each operation that takes a JSON object of known fields, or no body."""
    found = []
    for address, methods in yamls.read(SCHEMA.read_text())["paths"].items():
        for method, operation in methods.items():
            kinds = operation.get("requestBody", {}).get("content", {"application/json": {}})
            is_free = (
                "application/json" in kinds and kinds["application/json"].get("schema", {}).get("type") == "object"
            )
            is_ours = "application/json" in kinds and not is_free and "uploads" not in address
            if method in ("post", "put", "patch") and is_ours:
                found.append((method, address))
    return found


@pytest.fixture
def names() -> dict[str, Any]:
    """What the addresses name: a job with an incident, a decision and a run, a route with a message."""
    admin = make_user("root", "admin")
    job = make_job("night")
    attempt = make_attempt(job)
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    incident = attempt.incidents.get()
    decision = decision_make(incident=incident, claim="category", word="confirm", by=admin)
    route = Route.objects.create(name="chat", kind="webhook", url="https://example.org/", owner=admin)
    delivery = Delivery.objects.create(route=route, event="ping", body={})
    run = Run.objects.create(job=job, kind=Run.Kind.PARSE, state=Run.State.FAILED)
    places = {"number": incident.pk, "decision": decision.pk, "delivery": delivery.pk}
    return {"admin": admin, "slug": "night", "name": "gpu-0412", **places, "route": route.pk, "run": run.pk}


def filled(address: str, names: dict[str, Any]) -> str:
    """The address with what is there in place of its parameters; an id is that of a run or of a route."""
    row = "run" if "/runs/" in address else "route"
    return address.format(**names, id=names[row])


def test_an_unknown_option_of_a_route_is_refused_with_those_that_there_are(names: dict[str, Any]) -> None:
    api = api_of(names["admin"], "read", "manage")
    address = {"url": "https://example.org/", "options": {"colour": "red"}}
    answer = api.post("/api/v1/routes/", {"name": "mine", "kind": "webhook", **address})
    assert answer.status_code == 422
    assert "has no field “colour”: there are url, format." in answer.json()["detail"]


def test_the_description_of_the_api_lists_the_options_of_every_kind_of_route() -> None:
    schema = yamls.read(SCHEMA.read_text())["components"]["schemas"]["RouteIn"]
    options = {name: row["description"] for name, row in schema["properties"]["options"]["properties"].items()}
    assert options["format"] == "webhook: Format (optional; one of standard, cloudevents)."
    for kind in ALL.values():
        for field in kind.form.values():
            is_column = field.name in ("url", "secret", "inbound_secret")
            assert is_column or f"{kind.id}: {field.label} (" in options[field.name]


def test_the_description_of_the_api_says_that_bodies_have_no_other_fields_and_answers_may() -> None:
    schemas = yamls.read(SCHEMA.read_text())["components"]["schemas"]
    closed = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    changes = {"PatchedJobChange", "PatchedRouteIn"}
    bodies = {"DecisionIn", "DiagnoseIn", "JobIn", "JobMove", "JobPut", "RouteIn", "TicketIn"}
    assert closed == bodies | changes


@pytest.mark.parametrize(("method", "address"), operations_with_json())
def test_every_operation_refuses_a_field_that_it_does_not_know(
    method: str, address: str, names: dict[str, Any]
) -> None:
    api = api_of(names["admin"], "upload", "read", "review", "manage")
    answer = getattr(api, method)(filled(address, names), {"colour": "red"})
    assert answer.status_code == 422, answer.content
    assert "colour" in [row["field"] for row in answer.json()["errors"]]
