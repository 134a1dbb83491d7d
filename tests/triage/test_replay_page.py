"""The replay planner's page: machines by name or by range, two phases, and the machine that both name."""

from __future__ import annotations

import pytest

from tests.factories import make_user
from tests.pages import page_text
from triage.views.replay import MAX_MACHINES, _machines

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "machines"),
    [
        ("a, b\nc", ["a", "b", "c"]),
        ("n[08-10] x", ["n08", "n09", "n10", "x"]),
        ("gpu-[1,3-4].rack", ["gpu-1.rack", "gpu-3.rack", "gpu-4.rack"]),
        (" , ", []),
    ],
)
def test_machines_are_named_one_by_one_or_by_range(text, machines):
    assert _machines(text) == machines


@pytest.mark.parametrize("text", ["n[]", "n[a-b]", "n[1-2][3-4]", "n[1-", "n[0-999999999]", "n[1-12000] m[1-12000]"])
def test_what_is_no_range_or_too_many_is_reported_and_not_planned_for(client, text):
    client.force_login(make_user("ada", "engineer"))
    page = page_text(client.get("/replay/", {"machines": text}))
    assert "write it as node-" in page or "write ranges as node-" in page or f"More than {MAX_MACHINES:,}" in page


def test_the_failing_group_of_each_phase_names_one_machine(client):
    client.force_login(make_user("ada", "engineer"))
    asked = {"machines": "gpu-[00-05]", "pp": "1", "k": "2", "h": "1", "v": "0"}
    page = page_text(client.get("/replay/", asked))
    assert "<b>gpu-03</b>" in page


def test_an_empty_list_of_machines_plans_nothing(client):
    client.force_login(make_user("ada", "engineer"))
    response = client.get("/replay/", {"machines": ","})
    assert response.status_code == 200
