"""Words and patterns looked for in all logs of a job: messages first, then bytes, in time linear in the text."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest import services, storage
from ingest.models import Artifact
from tests.factories import make_user
from tests.pages import page_text
from tests.patience import no_hang
from triage.selectors import logsearch
from triage.selectors.logsearch import TextSearch, UnreadablePattern, find, find_in_all, templates_of

pytestmark = pytest.mark.django_db(transaction=True)

LOGS = {
    "a/rank0.log": "2026-11-21 03:00:01 INFO step 1\n2026-11-21 03:00:02 ERROR peer rank 17 is gone (code 5)\n",
    "a/rank1.log": "2026-11-21 03:00:01 INFO step 1\n2026-11-21 03:00:03 ERROR peer rank 4 was lost\n",
    "b/agent.log": "2026-11-21 03:00:09 WARNING Rank 4 did not answer\n",
}


@pytest.fixture
def job():
    job = services.job_create(name="Searched", user=make_user("ada", "engineer"))
    for path, said in LOGS.items():
        services.artifact_receive(job=job, path=path, chunks=[said.encode()], user=job.created_by)
    return job


@pytest.fixture
def logs(job):
    return list(Artifact.objects.select_related("attempt", "blob").order_by("path"))


@pytest.fixture
def reader(client, job):
    client.force_login(make_user("bob", "engineer"))

    def get(piece="", **query):
        return client.get(f"/jobs/{job.slug}/search/0/{piece}", query)

    return get


def where(answer):
    return [(row["path"], row["line"]) for row in answer["lines"]]


def test_words_are_found_in_every_log_in_any_case(logs):
    answer = find_in_all(logs, TextSearch("RANK 4"))
    assert where(answer) == [("a/rank1.log", 2), ("b/agent.log", 1)]
    assert (answer["next"], answer["done"]) == (None, answer["size"])


def test_a_pattern_is_matched_line_by_line(logs):
    answer = find_in_all(logs, TextSearch(r"rank \d+ (is gone|was lost)$|code \d\)$", is_pattern=True).check())
    assert where(answer) == [("a/rank0.log", 2), ("a/rank1.log", 2)]
    # what is no pattern is looked for as it stands
    assert where(find_in_all(logs, TextSearch("(code 5)"))) == [("a/rank0.log", 2)]


def test_messages_of_all_logs_are_counted_together(logs):
    found = templates_of(logs, TextSearch("STEP"))
    assert [(row.count, row.files, row.path) for row in found.rows] == [(2, 2, "a/rank0.log")]
    assert templates_of(logs, TextSearch(r"^peer rank", is_pattern=True)).total == 2


def test_a_search_continues_where_it_stopped_and_finds_each_line_once(logs, monkeypatch):
    monkeypatch.setattr(logsearch, "MAX_FOUND", 1)
    monkeypatch.setattr(logsearch, "PATTERN_CHUNK_BYTES", 40)
    for wanted in (TextSearch("2026"), TextSearch(r"^2026.*\d", is_pattern=True)):
        cursor, found = "", []
        for _ in range(40):
            answer = find_in_all(logs, wanted, cursor=cursor)
            found += where(answer)
            if answer["next"] is None:
                break
            cursor = answer["next"]
        once = list(dict.fromkeys(found))
        assert [place for place in once if place[0] == "a/rank0.log"] == [("a/rank0.log", 1), ("a/rank0.log", 2)]
        assert len(once) == 5


def test_a_log_whose_bytes_are_lost_does_not_hide_the_others(logs):
    storage.blob_delete(logs[0].blob_id)
    answer = find_in_all(logs, TextSearch("rank"))
    assert where(answer) == [("a/rank1.log", 2), ("b/agent.log", 1)]
    assert answer["lost"] == ["a/rank0.log"]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(unclosed", "cannot be read"),
        (r"(a)\1", "Look-around and back-references"),
        ("(?=ahead)", "Look-around"),
        ("((a{90}){90}){90}", "repeats"),
        ("a" * 301, "more than 300"),
        (r"\w{1000000000}", "repeats"),
    ],
)
def test_a_pattern_outside_the_dialect_is_refused_in_words(reader, pattern, said):
    with pytest.raises(UnreadablePattern, match=said):
        TextSearch(pattern, is_pattern=True).check()
    response = reader(find=pattern, regex=1)
    assert response.status_code == 422
    assert reader("step/", words=pattern, regex=1).status_code == 422


def test_a_pattern_that_keeps_other_engines_busy_for_hours_takes_no_time():
    job = services.job_create(name="Hostile")
    services.artifact_receive(job=job, path="a.log", chunks=[b"a" * 200_000 + b"!\n"])
    artifact = Artifact.objects.select_related("attempt", "blob").get()
    with no_hang():
        assert find(artifact, TextSearch("(a+)+$", is_pattern=True))["lines"] == []


def test_the_page_shows_messages_and_walks_the_lines(reader, job):
    page = page_text(reader(find="rank 4"))
    assert "kinds of message" in page or "kind of message" in page
    assert f'data-find="/jobs/{job.slug}/search/0/step/"' in page
    assert where(reader("step/", words="rank 4").json()) == [("a/rank1.log", 2), ("b/agent.log", 1)]


def test_without_javascript_the_lines_are_a_link_away(reader, job):
    assert "Show the lines" in page_text(reader(find="rank 4"))
    page = page_text(reader(find="rank 4", cursor=""))
    assert f"/jobs/{job.slug}/logs/0/b/agent.log?line=1#L1" in page


def test_what_a_log_says_is_text_here_too(reader, job):
    services.artifact_receive(job=job, path="x.log", chunks=[b"rank 4 <script>alert(1)</script>\n"])
    page = page_text(reader(find="rank 4", cursor=""))
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_the_page_keeps_its_budget_of_queries(reader):
    reader(find="rank")
    with CaptureQueriesContext(connection) as queries:
        reader(find="rank", cursor="")
    assert len(queries) <= 8


def test_one_log_is_searched_by_a_pattern_too(client, job):
    client.force_login(make_user("bob", "engineer"))
    base = f"/jobs/{job.slug}"
    answer = client.get(f"{base}/find/0/a/rank0.log", {"words": r"rank \d\d", "regex": "1"}).json()
    assert [row["line"] for row in answer["lines"]] == [2]
    page = client.get(f"{base}/logs/0/a/rank0.log", {"find": "(", "regex": "1"})
    assert "cannot be read" in page_text(page)
