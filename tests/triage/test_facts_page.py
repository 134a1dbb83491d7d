"""The Facts tab: nodes by properties, the odd one out, and the last healthy job."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from django.urls import reverse

from diagnosis.facts import fact_table
from diagnosis.facts.fact_table import FactRow, compare_places
from ingest.models import Job
from ingest.models.outcome import Outcome
from tests.factories import make_attempt, make_incident, make_job, make_user
from tests.pages import page_text
from triage.diagnosis_tables import tables_store
from triage.selectors import job_facts
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engineer(client):
    client.force_login(make_user("eng", "engineer"))


def make_job_with_facts(slug, rates, folder: Path, **values):
    """A job whose nodes state the rates of a port, and a temperature each."""
    job = make_job(slug, **values)
    rows = [FactRow(node, "mlx5_2", "Rate", rate, f"{node}/ibstat.txt", 7) for node, rate in rates.items()]
    rows += [FactRow(node, "", "Temperature", str(n), f"{node}/smi.txt", 3) for n, node in enumerate(rates)]
    table = compare_places(rows)
    target = folder / slug
    target.mkdir()
    table.write_parquet(target / fact_table.FILE_NAME)
    facts = {"facts": len(rows), "places": len(rates), "properties": 2, "odd": int(table["is_odd"].sum())}
    facts |= {"left_out": 0, "table": fact_table.FILE_NAME}
    stored = diagnosis_store(attempt=make_attempt(job), revision=1, report={"engine": "t", "facts": facts})
    tables_store(stored, target)
    Job.objects.filter(pk=job.pk).update(**values)
    return job


@pytest.fixture
def odd_job(tmp_path):
    return make_job_with_facts("odd", {"gpu-1": "400", "gpu-2": "400", "gpu-3": "100"}, tmp_path)


def page_of(client, slug, **params):
    return page_text(client.get(reverse("job-facts", args=[slug]), params))


def test_two_places_that_state_different_values_are_said_to_differ(client, tmp_path):
    make_job_with_facts("pair", {"gpu-1": "400", "gpu-2": "100"}, tmp_path)
    make_job_with_facts("alike", {"gpu-1": "400", "gpu-2": "400"}, tmp_path)
    assert ">2 values differ</span>" in page_of(client, "pair", words="Rate")
    assert "the same on all" in " ".join(page_of(client, "alike", words="Rate").split())


def test_the_place_that_differs_is_named_first_with_what_most_places_state(client, odd_job):
    page = page_of(client, "odd")
    assert "1 value differs from what most places state" in page
    assert page.index("gpu-3") < page.index(">gpu-1<")
    assert "≠ 100" in page


def test_each_value_leads_to_its_line(client, odd_job):
    assert "gpu-3/ibstat.txt?line=7#L7" in page_of(client, "odd")


def test_only_what_differs_can_be_shown(client, odd_job):
    assert "Temperature" in page_of(client, "odd")
    assert "Temperature" not in page_of(client, "odd", differs="1")


def test_words_find_a_place_a_property_and_a_value(client, odd_job):
    assert "1 property" in page_of(client, "odd", words="RATE gpu-3")
    assert "No fact matches" in page_of(client, "odd", words="voltage")


def test_a_change_since_the_last_healthy_job_is_marked(client, tmp_path):
    usual = dict.fromkeys(("gpu-1", "gpu-2", "gpu-3"), "400")
    well = make_job_with_facts("well", usual, tmp_path, outcome=Outcome.SUCCEEDED, family="llm")
    make_job_with_facts("slow", dict.fromkeys(usual, "100"), tmp_path, family="llm")
    page = page_of(client, "slow")
    assert "The last healthy job with facts is" in page
    assert "<mark>400</mark>" in page
    make_incident(job=well)
    assert "The last healthy job with facts is" not in page_of(client, "slow"), "it has an incident that stands"


def test_a_failed_job_is_no_example_of_good_values(client, tmp_path, odd_job):
    make_job_with_facts("later", {"gpu-1": "400"}, tmp_path)
    assert "The last healthy job" not in page_of(client, "later")


def test_a_job_without_reports_says_what_to_add(client):
    make_job("bare")
    assert "No report of a machine was read, and the logs state no set-up" in page_of(client, "bare")
    assert client.get(reverse("job-facts-csv", args=["bare"])).status_code == 404


def test_all_facts_are_exported(client, odd_job):
    response = client.get(reverse("job-facts-csv", args=["odd"]), {"words": "rate"})
    rows = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))
    assert [row["place"] for row in rows if row["differs"] == "True"] == ["gpu-3"]
    assert {row["usual_value"] for row in rows} == {"400"}


def test_the_page_needs_few_queries(client, odd_job, django_assert_max_num_queries):
    client.get(reverse("job-facts", args=["odd"]))
    with django_assert_max_num_queries(16):
        client.get(reverse("job-facts", args=["odd"]))


def test_a_long_list_of_properties_has_pages(client, odd_job, monkeypatch):
    monkeypatch.setattr(job_facts, "PAGE_SIZE", 1)
    assert "Temperature" not in page_of(client, "odd")
