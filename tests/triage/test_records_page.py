"""A flow capture opened from the Files page: its records as a table, with what reading found out."""

from __future__ import annotations

import pytest

from ingest.services import artifact_receive
from tests.factories import make_job, make_user
from tests.pages import page_text

pytestmark = pytest.mark.django_db
HEAD = "start_time,duration,src,dst,src_port,dst_port,bytes,path\n"
ROWS = "".join(
    f"2026-11-21 03:00:{n % 60:02d}.{125 + n % 2},0.0005,10.0.0.{n % 4 + 1},10.0.0.{n % 4 + 5},"
    f"4{n:04d},4791,{(n + 1) * 1000},leaf1;spine2\n"
    for n in range(450)
)
PAGES = ("logs", "context", "map", "templates", "find", "raw")


@pytest.fixture
def job(client, django_capture_on_commit_callbacks):
    job = make_job("night-run")
    with django_capture_on_commit_callbacks(execute=True):
        artifact_receive(job=job, path="net/flows.csv", chunks=[(HEAD + ROWS).encode()])
    client.force_login(make_user("ada", "engineer"))
    return job


def test_no_page_that_a_log_has_breaks_on_a_flow_capture(client, job):
    for page in PAGES:
        query = {"words": "10.0.0.1"} if page == "find" else {"line": 3}
        assert client.get(f"/jobs/night-run/{page}/0/net/flows.csv", query).status_code == 200, page
    instant = client.get("/jobs/night-run/instant/0/net/flows.csv?at=2026-11-21T03:00:00Z")
    assert instant.status_code == 200


def test_the_files_page_leads_to_a_table_of_records(client, job):
    assert "/jobs/night-run/logs/0/net/flows.csv" in page_text(client.get("/jobs/night-run/files/"))
    page = page_text(client.get("/jobs/night-run/logs/0/net/flows.csv"))
    for said in (
        "10.0.0.1:40000",
        "10.0.0.5:4791",
        "leaf1 → spine2",
        "1.0 kB",
        "0.5 ms",
        "450 records",
        "a millisecond",
    ):
        assert said in page, said
    assert page.count('<tr id="r') == 200


def test_the_records_continue_to_their_last_page_and_no_further(client, job):
    for asked in ("3", "99999", "9" * 20):
        page = page_text(client.get(f"/jobs/night-run/logs/0/net/flows.csv?page={asked}"))
        assert ('<tr id="r450"' in page) == (asked != "9" * 20)
        assert page.count('<tr id="r') == (50 if asked != "9" * 20 else 200)


def test_records_can_be_narrowed_to_an_address_or_a_switch(client, job):
    page = page_text(client.get("/jobs/night-run/logs/0/net/flows.csv?who=10.0.0.8"))
    assert "112 of 450 records" in page and "10.0.0.1:" not in page
    assert "450 of 450 records" in page_text(client.get("/jobs/night-run/logs/0/net/flows.csv?who=SPINE2"))
    none = page_text(client.get("/jobs/night-run/logs/0/net/flows.csv?who=<script>"))
    assert "No record has" in none and "<script>”" not in none


def test_lines_around_one_of_a_capture_are_its_text(client, job):
    page = page_text(client.get("/jobs/night-run/context/0/net/flows.csv?line=2"))
    assert "start_time,duration" in page and "2026-11-21 03:00:00.125" in page
    alone = page_text(client.get("/jobs/night-run/context/0/net/flows.csv?line=2&around=0"))
    assert "2026-11-21 03:00:00.125" in alone and alone.count("<tr") == 1
    most = page_text(client.get("/jobs/night-run/context/0/net/flows.csv?line=200&around=999"))
    assert most.count("<tr") == 11


def test_a_capture_without_a_record_says_why_and_shows_its_text(client, django_capture_on_commit_callbacks):
    job = make_job("empty-run")
    with django_capture_on_commit_callbacks(execute=True):
        artifact_receive(job=job, path="flows.csv", chunks=[HEAD.encode()])
    client.force_login(make_user("ada", "engineer"))
    page = page_text(client.get("/jobs/empty-run/logs/0/flows.csv"))
    assert "header but no rows" in page and "start_time,duration" in page
