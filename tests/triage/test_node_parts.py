"""The page of a node: its parts as reports state them, and the machines on its switch."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from diagnosis.facts import fact_table
from diagnosis.facts.fact_table import FactRow, compare_places
from tests.factories import make_incident, make_user
from tests.pages import page_text
from triage.diagnosis_tables import tables_store
from triage.selectors import node_parts

pytestmark = pytest.mark.django_db
SWITCHES = {"n1": "leaf0", "n2": "leaf0", "n3": "leaf0", "n4": "leaf1"}


@pytest.fixture(autouse=True)
def _engineer(client):
    client.force_login(make_user("eng", "engineer"))


def accused(name, *, days=1, facts=None, **report):
    at = timezone.now() - timedelta(days=days)
    if facts:
        report["facts"] = {"table": fact_table.FILE_NAME}
    incident = make_incident(accused=(name,), at=at, report={"job": {"switch_of": SWITCHES}, **report})
    if facts:
        folder, rates = facts
        rows = [FactRow(node, "mlx5_2", "Rate", rate, "ibstat.txt", 7) for node, rate in rates.items()]
        compare_places(rows).write_parquet(folder / fact_table.FILE_NAME)
        tables_store(incident.diagnosis, folder)
    return incident


def part_of(client, testid, name="n1"):
    page = page_text(client.get(reverse("node", args=[name])))
    return page.partition(f'data-testid="{testid}"')[2].partition("</section>")[0]


def test_neighbours_are_those_on_the_same_switch_with_the_accused_ones_first(client):
    accused("n3"), accused("n3"), accused("n2"), accused("n4"), accused("n2", days=60)
    accused("n1")
    told = part_of(client, "neighbours")
    assert "leaf0" in told and "n4" not in told
    assert told.index(">n3") < told.index(">n2")
    assert "<b>2×</b>" in told and "<b>1×</b>" in told


def test_parts_show_what_reports_state_and_mark_what_differs(client, tmp_path):
    accused("n1", facts=(tmp_path, {"n1": "100", "n2": "400", "n3": "400"}))
    told = part_of(client, "parts")
    assert "mlx5_2" in told and "≠ 100" in told and "400" in told
    assert "?words=n1" in told


def test_a_node_without_reports_and_switch_shows_neither(client):
    make_incident(accused=("n1",))
    page = page_text(client.get(reverse("node", args=["n1"])))
    assert "On the same switch" not in page and "Parts and measures" not in page


def test_of_many_facts_and_neighbours_the_first_are_shown_with_the_number(client, tmp_path, monkeypatch):
    monkeypatch.setattr(node_parts, "MAX_FACTS", 0)
    monkeypatch.setattr(node_parts, "MAX_NEIGHBOURS", 1)
    accused("n2"), accused("n3"), accused("n1", facts=(tmp_path, {"n1": "1", "n2": "1", "n3": "1"}))
    assert "of 2" in " ".join(part_of(client, "neighbours").split())


def test_the_page_asks_few_questions_for_them(client, tmp_path, django_assert_max_num_queries):
    accused("n2"), accused("n1", facts=(tmp_path, {"n1": "1", "n2": "1", "n3": "1"}))
    with django_assert_max_num_queries(14):
        client.get(reverse("node", args=["n1"]))
