"""One moment in all logs: one list in the order of time, counted from a chosen line, suspects first in a tie."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest import services
from ingest.models import Artifact
from tests.factories import make_incident, make_user
from tests.pages import page_text
from triage.models import Diagnosis

pytestmark = pytest.mark.django_db(transaction=True)


def lines_of(node: str, *said: tuple[float, str, str]) -> bytes:
    """A log of a node: seconds after 03:00, level, words."""
    return "".join(
        f"2026-11-21T03:00:{at:06.3f} {node} {level} {words} of {node}\n" for at, level, words in said
    ).encode()


LOGS = {
    "n1.log": lines_of("n1", (1.0, "INFO", "step 1"), (5.0, "ERROR", "lost"), (5.5, "INFO", "later")),
    "n2.log": lines_of("n2", (1.2, "INFO", "step 1"), (5.0, "ERROR", "lost"), (30.0, "INFO", "far")),
    "n3.log": lines_of("n3", (4.9, "WARNING", "slow"), (5.2, "ERROR", "timeout")),
}


@pytest.fixture
def job():
    job = services.job_create(name="Instant", user=make_user("ada", "engineer"))
    for path, said in LOGS.items():
        services.artifact_receive(job=job, path=path, chunks=[said], user=job.created_by)
    return job


@pytest.fixture
def page(client, job):
    client.force_login(make_user("bob", "engineer"))

    def get(path="n1.log", **query):
        return client.get(f"/jobs/{job.slug}/instant/0/{path}", query)

    return get


def rows(response) -> list[tuple[str, str, str]]:
    """After, file and line, what was said; in the order of the page."""
    text = re.search(r"<tbody>(.*)</tbody>", page_text(response), re.S)
    assert text
    found = []
    for row in text[1].split("<tr")[1:]:
        cells = [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        found.append((cells[0], cells[3], cells[4].split(" ", 2)[-1]))
    return found


def test_lines_of_all_logs_are_one_list_in_the_order_of_time(page):
    assert [(after, where) for after, where, _ in rows(page(line=2))] == [
        ("−0.100 s", "n3.log:1"),
        ("0", "n1.log:2"),
        ("0", "n2.log:2"),
        ("+0.200 s", "n3.log:2"),
        ("+0.500 s", "n1.log:3"),
    ]


def test_times_count_from_the_line_that_was_chosen_and_any_other_can_be(page):
    response = page(line=2)
    assert "/instant/0/n3.log?line=2" in page_text(response)
    other = rows(page("n3.log", line=2))
    assert ("0", "n3.log:2") in [row[:2] for row in other]
    assert ("−0.200 s", "n1.log:2") in [row[:2] for row in other]


def test_lines_of_a_suspect_come_first_where_times_are_equal(job, page):
    make_incident(attempt=job.attempts.get(), accused=("n2",))
    tied = [where for after, where, _ in rows(page(line=2)) if after == "0"]
    assert tied == ["n2.log:2", "n1.log:2"]


def test_lines_are_narrowed_by_level_and_by_node(page):
    assert {where for _, where, _ in rows(page(line=2, level=4))} == {"n1.log:2", "n2.log:2", "n3.log:2"}
    assert {where for _, where, _ in rows(page(line=2, who="n3"))} == {"n3.log:1", "n3.log:2"}
    silence = page_text(page(line=2, who="nobody"))
    assert "Silence" in silence and "show every line" in silence


def test_a_wider_reach_finds_more(page):
    assert len(rows(page(line=2, within=60))) == 8


def test_clocks_that_are_off_are_put_right(job, page):
    attempt = job.attempts.get()
    report = {"clocks": [{"node": "n3", "file": None, "kind": "skew", "skew_s": 3600.0}]}
    Diagnosis.objects.create(job=job, attempt=attempt, revision=1, engine="test", report=report)
    assert "n3.log:1" not in [where for _, where, _ in rows(page(line=2))]
    assert "Corrected clocks" in page_text(page(line=2))
    # a line of the node whose clock is off is met where the others are at that moment
    assert page("n3.log", line=2).context["moment"].hour == 2


def test_a_time_that_is_none_is_refused_in_words(page):
    assert page(at="soon").status_code == 400


def test_the_page_keeps_its_budget_of_queries(page):
    page(line=2)
    with CaptureQueriesContext(connection) as queries:
        page(line=2)
    assert len(queries) <= 8, [query["sql"][:120] for query in queries]


def test_only_so_many_lines_of_one_writer_are_shown(page, job):
    many = lines_of("n9", *((5.0 + n / 1000, "INFO", f"line {n}") for n in range(200)))
    services.artifact_receive(job=job, path="n9.log", chunks=[many], user=job.created_by)
    assert Artifact.objects.count() == 4
    assert sum(where.startswith("n9") for _, where, _ in rows(page(line=2))) == 4
    assert sum(where.startswith("n9") for _, where, _ in rows(page(line=2, who="n9"))) == 60
