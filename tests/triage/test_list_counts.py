"""The list is shown before its matches are counted; total, facets and pages agree, and both ways of finding do."""

import re
from collections import Counter

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage import search
from triage.models import Incident
from triage.search import evidence_words
from triage.selectors import incidents
from triage.selectors.incidents import SORTS, incident_page

pytestmark = pytest.mark.django_db
QUERIES = (
    "",
    "nccl",
    '"watchdog caught"',
    "!nccl",
    "nccl OR disk",
    "!(nccl disk)",
    "*atchdo*",
    "said:*cau*ght*",
    "nccl category:network",
    "nobody",
)


@pytest.fixture
def seven(monkeypatch):
    """Seven incidents on pages of two."""
    monkeypatch.setattr(incidents, "PAGE_SIZE", 2)
    lines = ("NCCL watchdog caught a timeout", "disk full", "NCCL and disk")
    for n in range(7):
        make_incident(
            make_job(f"job-{n}"),
            headline=f"failure {n}",
            said=(lines[n % 3],),
            category=("network.link_down", "storage.full")[n % 2],
            state=("awaiting_review", "confirmed")[n % 2],
            confidence=n / 10,
            gpu_hours=n % 3 or None,
        )


def counts(page):
    """Facets as numbers by value."""
    return {key: {value.value: value.count for value in values} for key, values in page.facets.items()}


@pytest.mark.parametrize("common", [1, 10**6], ids=["walked", "looked up"])
def test_pages_totals_and_facets_are_those_of_all_matches(seven, ada, monkeypatch, common):
    monkeypatch.setattr(evidence_words, "_MIN_COMMON", common)
    for text in QUERIES:
        query = search.parse(text)
        matching = query.apply(Incident.objects.all())
        for sort, (_, order) in SORTS.items():
            cache.clear()
            expected = list(matching.order_by(*order).values_list("pk", flat=True))
            pages = [incident_page(ada, query, sort=sort, page=n) for n in range(1, len(expected) // 2 + 2)]
            assert [row.pk for page in pages for row in page.incidents][: len(expected)] == expected, (text, sort)
            assert pages[0].has_next == (len(expected) > 2)
            assert {page.total for page in pages} <= {None, len(expected)}
            assert pages[-1].total == len(expected)
        counted = incident_page(ada, query, is_counted=True)
        assert counted.total == len(expected)
        states = Counter("unreviewed" if row.state == "awaiting_review" else row.state for row in matching)
        assert counts(counted).get("is", {}) == states


def test_a_list_on_one_page_offers_no_further_matches(client, ada, incident):
    page = page_text(client.get("/incidents/"))
    assert "all on this page" in page
    assert "act on all" not in page and "choose all that match" not in page


def test_a_long_list_is_shown_before_it_is_counted(seven, client, ada):
    with CaptureQueriesContext(connection) as queries:
        page = page_text(client.get("/incidents/?q=failure"))
    assert not [q["sql"] for q in queries if 'GROUP BY "triage_incident"' in q["sql"]]
    assert "<b>2+</b> · Incidents containing “failure”." in page
    assert "1–2 of 2+" in page and "or act on all 2+:" in page
    link = re.search(r'<div id="facets"><a [^>]*href="([^"]*)" hx-get="([^"]*)" hx-trigger="load"', page)
    assert link and link[1] == link[2] == "?q=failure&amp;count=all"

    page = page_text(client.get("/incidents/?q=failure&count=all"))
    assert "<b>7</b> · Incidents" in page and "1–2 of 7" in page and "or act on all 7:" in page
    assert 'hx-trigger="load"' not in page
    assert "count=all" not in page[page.index('id="facets"') : page.index("</aside>")]

    second = page_text(client.get("/incidents/?q=failure&page=2"))  # the counts are kept
    assert "3–4 of 7" in second and 'hx-trigger="load"' not in second


def test_a_list_of_one_page_comes_with_its_counts(seven, client, ada):
    page = page_text(client.get('/incidents/?q="NCCL and disk"'))
    assert "<b>2</b> · Incidents" in page and "1–2 of 2" in page
    assert 'hx-trigger="load"' not in page and "<summary>State</summary>" in page


def test_a_page_behind_the_last_is_the_last(seven, ada):
    page = incident_page(ada, search.parse("failure"), page=900)
    assert (page.page, page.first, page.last, page.total, page.has_next) == (4, 7, 7, 7, False)
    assert incident_page(ada, search.parse("nobody"), page=9).total == 0


def test_nothing_is_counted_that_the_reader_may_not_see(seven, ada):
    theirs = make_cluster("theirs")
    make_team("them", clusters=[theirs])
    for n in range(3):
        make_incident(make_job(f"secret-{n}", cluster=theirs), headline="failure", said=("NCCL",))
    page = incident_page(ada, search.parse("failure"), is_counted=True)
    assert page.total == 7
    assert counts(page)["cluster"] == {"default": 7}
    assert incident_page(make_user("boss", "admin"), search.parse("failure"), is_counted=True).total == 10


def test_a_search_keeps_its_budget(seven, client, ada, django_assert_max_num_queries):
    client.get("/incidents/?q=failure")  # how common the word is, is known; four queries ask what it names
    with django_assert_max_num_queries(9):
        client.get("/incidents/?q=failure")
    with django_assert_max_num_queries(12):
        client.get("/incidents/?q=failure&count=all")


def plan(queryset):
    sql, parameters = queryset.query.sql_with_params()
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {sql}", parameters)
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_few_are_looked_up_in_the_index_and_many_are_walked_in_order(seven, monkeypatch):
    ordered = search.parse("nccl").apply(Incident.objects.all()).order_by("-opened_at", "-id")
    page = ordered.values_list("pk", flat=True)[:3]
    rare, sql = plan(page), str(page.query)
    assert '"triage_incident"."id" IN (SELECT' in sql and '+"triage_incident"."id"' not in sql
    monkeypatch.setattr(evidence_words, "_MIN_COMMON", 1)
    cache.clear()
    common = plan(page)
    if connection.vendor == "sqlite":
        # which index it takes first depends on its statistics; the sign forbids the look-up by key
        assert "triage_search_words VIRTUAL TABLE" in rare and "triage_search_words VIRTUAL TABLE" in common
        assert '+"triage_incident"."id" IN (SELECT' in str(page.query)
    else:
        assert "triage_search_found" in rare
        assert "triage_search_found" not in common
        assert "triage_search_found" in plan(ordered)  # all are wanted: no page would end the walk


@pytest.mark.skipif(connection.vendor == "sqlite", reason="a function of PostgreSQL")
def test_the_function_of_the_index_reads_it_whatever_the_planner_expects():
    with connection.cursor() as cursor:
        cursor.execute("SELECT proconfig FROM pg_proc WHERE proname = 'triage_search_found'")
        assert cursor.fetchall() == [(["enable_seqscan=off"],)] * 2
        cursor.execute("SET LOCAL enable_seqscan = off")
        for condition, index in (("words @@ 'a'", "search_words"), ("about LIKE '%abc%'", "search_about")):
            cursor.execute(f"EXPLAIN SELECT incident_id FROM triage_searchentry WHERE {condition}")
            assert f"triage_{index}" in str(cursor.fetchall())
