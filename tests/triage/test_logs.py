"""The log viewer: the right lines, quickly, and nothing in them acts."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

import pytest

from ingest import services, storage
from ingest.models import Artifact
from tests.archives import tar_of
from tests.factories import make_user
from tests.pages import page_text
from triage.models import Incident
from triage.selectors import logs, logsearch
from triage.selectors.logmap import log_map
from triage.selectors.logs import Filter, visible_text, window
from triage.selectors.logsearch import TextSearch, find, templates_of

pytestmark = pytest.mark.django_db(transaction=True)

LINES = [f"2026-11-21 03:{n // 60 % 60:02d}:{n % 60:02d},000 INFO iteration {n} loss 2.5" for n in range(1, 1001)]
LINES[499] = "2026-11-21 03:08:20,000 ERROR something <script>alert(1)</script> \x1b[31mred\x1b[0m \u202etrap"
LINES[700] = "x" * 10_000


@pytest.fixture
def artifact():
    user = make_user("ada", "engineer")
    job = services.job_create(name="Log job", user=user)
    services.artifact_receive(job=job, path="node/a b#1.log", chunks=["\n".join(LINES).encode() + b"\n"], user=user)
    return Artifact.objects.select_related("attempt__job", "blob").get()


@pytest.fixture
def page(client, artifact):
    client.force_login(make_user("bob", "engineer"))
    job = artifact.attempt.job

    def get(kind="logs", **query):
        return client.get(f"/jobs/{job.slug}/{kind}/0/node/a%20b%231.log", query)

    return get


def numbers(response):
    return [int(n) for n in re.findall(r'<tr id="L(\d+)"', page_text(response))]


def test_a_window_holds_the_lines_as_an_editor_numbers_them(artifact):
    found = window(artifact, start=10, count=3)
    assert [(line.no, line.text) for line in found.lines] == [(n, LINES[n - 1]) for n in (10, 11, 12)]
    assert found.total == 1000
    assert found.has_before and found.has_after


def test_the_header_of_a_line_is_dimmed_and_the_whole_line_is_there(page):
    shown = page_text(page(line=10))
    row = shown.partition('<tr id="L10"')[2].partition("</tr>")[0]
    assert f'<span class="prefix">{LINES[9][:29]}</span>{LINES[9][29:]}' in row


@pytest.mark.parametrize(
    ("paths", "who", "how"),
    [
        (["run/rank_5.log", "run/rank_6.log"], "rank 5", "rank from the file's path"),
        (
            ["sigkill_rank5/gpu-node-02/a.log", "sigkill_rank5/gpu-node-03/a.log"],
            "gpu-node-02",
            "node from the file's path",
        ),
        (["sigkill_rank5/a.log", "sigkill_rank5/b.log"], "", ""),
    ],
)
def test_a_log_says_how_the_writer_of_a_line_is_known(client, paths, who, how):
    """Before, all lines below a directory `sigkill_rank5` were labelled "rank 5", without a reason."""
    user = make_user("ada", "engineer")
    job = services.job_create(name="Paths", user=user)
    for path in paths:
        services.artifact_receive(job=job, path=path, chunks=["\n".join(LINES[:9]).encode()], user=user)
    client.force_login(user)
    page = html.unescape(page_text(client.get(f"/jobs/{job.slug}/logs/0/{paths[0]}")))
    assert re.findall(r'<td class="who" title="([^"]*)">([^<]*)</td>', page)[:1] == ([(how, who)] if who else [])
    assert "rank 5<" not in page or who == "rank 5"


def test_a_permalink_opens_around_its_line_also_without_javascript(page):
    response = page(line=500)
    assert numbers(response)[0] == 440
    assert 'id="L500" data-cursor class="level-4 is-marked' in page_text(response)


def test_what_a_log_says_is_text_and_its_control_characters_are_visible(page):
    text = page_text(page(line=500))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "␛[31m" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_a_long_line_is_cut_and_says_how_much_is_left_out(artifact):
    line = window(artifact, start=701, count=1).lines[0]
    assert len(line.text) == logs.MAX_LINE_BYTES
    assert line.cut_bytes == 10_000 - logs.MAX_LINE_BYTES


def test_lines_can_be_filtered_by_level(artifact):
    assert [line.no for line in window(artifact, start=1, only=Filter(level=4)).lines] == [500]


def test_repeats_of_one_template_fold_into_a_count_beyond_the_page(artifact):
    found = window(artifact, start=1, count=3, fold=True)
    assert [(line.no, line.folded) for line in found.lines] == [(1, 498), (500, 0), (501, 199)]
    assert found.last == 700
    rest = window(artifact, start=701, count=100, fold=True)
    assert sum(line.folded + 1 for line in rest.lines) == 300
    assert rest.last == 1000 and not rest.has_after


def test_folding_continues_where_lines_are_filtered(artifact):
    lines = window(artifact, start=600, only=Filter(level=2), fold=True).lines
    assert [(line.no, line.folded) for line in lines] == [(600, 399)]


def test_evidence_is_never_folded_away(artifact, monkeypatch):
    monkeypatch.setattr(logs, "evidence_lines", lambda _: [50])
    lines = window(artifact, start=1, count=4, fold=True).lines
    assert [(line.no, line.folded) for line in lines] == [(1, 48), (50, 0), (51, 448), (500, 0)]


def test_a_folded_run_opens_in_place_by_its_count(page):
    assert numbers(page(**{"from": 20, "count": 5})) == [20, 21, 22, 23, 24]


def test_a_line_without_a_time_leads_to_the_instant_of_its_neighbour(page):
    assert "at=2026-11-21T03%3A11%3A40%2B00%3A00" in page_text(page(line=701))


def test_columns_can_be_hidden_and_the_address_says_so(page):
    assert '<td class="at">' in page_text(page(line=5))
    assert '<td class="at">' not in page_text(page(line=5, hide="at"))


def test_the_end_of_the_file_is_the_end(page):
    response = page(line=99999)
    assert response.status_code == 200
    assert numbers(response) == [1000]


def test_search_walks_the_bytes_in_steps_and_finds_every_line_once(artifact, monkeypatch):
    monkeypatch.setattr(logsearch, "FIND_CHUNK_BYTES", 7000)
    found, offset, steps = [], 0, 0
    while offset is not None:
        answer = find(artifact, TextSearch("ITERATION 9"), offset=offset)
        found += [hit["line"] for hit in answer["lines"]]
        offset, steps = answer["next"], steps + 1
    assert found == [n for n in range(1, 1001) if str(n).startswith("9")]
    assert steps > 5


def test_a_match_across_two_steps_is_found(artifact, monkeypatch):
    at = "\n".join(LINES).index("iteration 77 ") + 4
    monkeypatch.setattr(logsearch, "FIND_CHUNK_BYTES", at)
    assert [hit["line"] for hit in find(artifact, TextSearch("iteration 77 "), offset=0)["lines"]] == [77]


def test_templates_are_found_by_their_fixed_words_and_say_how_often(artifact):
    found = templates_of([artifact], TextSearch("ITERATION"))
    assert found.total == 1
    assert (found.rows[0].count, found.rows[0].first_line) == (998, 1)
    assert templates_of([artifact], TextSearch("something")).rows[0].level_word == "error"
    assert templates_of([artifact], TextSearch("iteration 77")).rows == []
    assert templates_of([artifact]).total == 3


def test_a_search_is_in_the_address_and_its_messages_come_with_the_page(page):
    text = page_text(page(find="iteration"))
    assert "occurs in 1 kind of message (998 lines)" in text
    assert "<mark>iteration</mark> 1 loss" in text
    assert "No message has these words" in page_text(page(find="nowhere"))


def test_a_search_for_markup_stays_text(page):
    text = page_text(page(find="<script>", line=500))
    assert "<mark>&lt;script&gt;</mark>alert(1)" in text
    assert "<script>alert" not in text


def test_the_map_counts_errors_where_they_stand(artifact, page):
    bins = log_map(artifact)
    assert (bins[0].first, bins[-1].last) == (1, 1000)
    assert [(part.first <= 500 <= part.last, part.errors) for part in bins if part.errors] == [(True, 1)]
    text = page_text(page("map", first=440, last=839))
    assert 'role="slider"' in text and 'aria-valuenow="440"' in text
    assert text.count('class="errors"') == 1


def test_the_messages_of_a_file_are_a_piece_of_its_page(page):
    text = page_text(page("templates"))
    assert "<html" not in text
    assert re.search(r"998</td>.*iteration &lt;NUM&gt; loss", text, re.S)


def test_the_same_instant_in_all_logs_names_file_and_line(page):
    response = page("instant", at=datetime(2026, 11, 21, 3, 5, 0, tzinfo=UTC).isoformat())
    text = page_text(response)
    assert "iteration 299 " in text
    assert "?line=299#L299" in text
    assert page("instant", at="soon").status_code == 400


def test_downloads_are_the_very_bytes_and_never_a_page(page):
    whole = page("raw")
    assert b"".join(whole.streaming_content) == "\n".join(LINES).encode() + b"\n"
    assert whole["Content-Type"] == "application/octet-stream"
    assert whole["Content-Disposition"].startswith("attachment")
    assert whole["X-Content-Type-Options"] == "nosniff"
    part = page("raw", **{"from": 3, "to": 4})
    assert b"".join(part.streaming_content) == "\n".join(LINES[2:4]).encode() + b"\n"


def test_context_is_a_fragment_around_the_line(page):
    text = page_text(page("context", line=500, find="something"))
    assert "<mark>something</mark>" in text
    assert "What all logs said then" in text
    assert "iteration 495 " in text and "iteration 505 " in text
    assert "<html" not in text


def test_a_file_that_is_not_there_says_so(client, artifact):
    client.force_login(make_user("bob", "engineer"))
    response = client.get(f"/jobs/{artifact.attempt.job.slug}/logs/0/nope.log")
    assert response.status_code == 404
    assert "has no file “nope.log”" in page_text(response)


def test_what_was_not_read_as_a_log_is_still_shown_from_its_beginning(artifact):
    artifact.parsed_key = ""
    assert window(artifact, start=2, count=2).lines[0].text == LINES[1]


def test_what_is_no_text_is_offered_for_download_and_not_drawn_as_signs(client, artifact):
    job, user = artifact.attempt.job, make_user("eve", "engineer")
    program = b"\x7fELF\x02\x01\x01" + bytes(64)
    services.artifact_receive(job=job, path="train.bin", chunks=[program], user=user)
    client.force_login(user)
    text = page_text(client.get(f"/jobs/{job.slug}/logs/0/train.bin"))
    assert "Not a text" in text
    assert "␀" not in text and "Download the file" in text


def test_an_empty_file_says_that_it_is_empty(client, artifact):
    job, user = artifact.attempt.job, make_user("eve", "engineer")
    services.artifact_receive(job=job, path="rank3.log", chunks=[b""], user=user)
    client.force_login(user)
    text = page_text(client.get(f"/jobs/{job.slug}/logs/0/rank3.log"))
    assert "The file is empty" in text
    assert 'id="L1"' not in text


def test_bytes_of_any_encoding_become_text():
    assert visible_text(b"caf\xe9\r\n") == "caf\ufffd"
    assert visible_text("grün".encode("utf-16-le"), "utf-16-le") == "grün"
    assert visible_text(b"a\x00b\x07\tc") == "a␀b␇\tc"


def test_evidence_goes_all_the_way_from_bytes_to_an_incident(client):
    """Upload, parse and diagnose in one process: the thread that everything hangs on."""
    ada = make_user("ada", "engineer")
    client.force_login(ada)
    rows = [f"2026-11-21 03:00:{n:02d} [rank0]: iteration {n}/1000 loss 2.5" for n in range(40)]
    rows += [
        "2026-11-21 03:00:41 [rank0]: Traceback (most recent call last):",
        '2026-11-21 03:00:41 [rank0]:   File "train.py", line 3, in <module>',
        "2026-11-21 03:00:41 [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ]
    job = services.job_create(name="Small job", user=ada)
    services.artifact_receive(job=job, path="train.log", chunks=["\n".join(rows).encode()], user=ada)
    services.diagnosis_request(job=job, user=ada)
    incident = Incident.objects.get(job=job)
    assert incident.category.startswith("user")
    page = page_text(client.get(f"/incidents/{incident.pk}/"))
    assert "CUDA out of memory" in page
    assert f"/jobs/{job.slug}/logs/0/train.log?line=43#L43" in page
    assert job.runs.filter(kind="diagnose", state="succeeded").exists()


@pytest.mark.parametrize("kind", ["logs", "context", "find", "raw"])
def test_a_log_whose_bytes_are_lost_says_what_to_do_and_is_back_after_the_upload(page, artifact, kind):
    sentence, query = "no longer in the storage", {"words": "iteration"}
    job, user = artifact.attempt.job, artifact.attempt.job.created_by
    storage.blob_delete(artifact.blob_id)
    response = page(kind, **query)
    assert response.status_code == 410
    assert sentence in page_text(response)
    assert f"/jobs/{job.slug}/files/" in page_text(response)
    services.artifact_receive(job=job, path=artifact.path, chunks=["\n".join(LINES).encode() + b"\n"], user=user)
    assert page(kind, **query).status_code == 200


def test_a_piece_of_a_page_says_in_place_that_the_bytes_are_lost(client, page, artifact):
    storage.blob_delete(artifact.blob_id)
    client.defaults["HTTP_HX_REQUEST"] = "true"
    response = page("context", line=3)
    assert response.status_code == 410
    assert "no longer in the storage" in page_text(response)
    assert "<html" not in page_text(response)


def test_one_lost_log_does_not_hide_what_the_others_said(page, artifact):
    job = artifact.attempt.job
    services.artifact_receive(job=job, path="other.log", chunks=["\n".join(LINES[:9]).encode()], user=job.created_by)
    storage.blob_delete(artifact.blob_id)
    text = page_text(page("instant", at="2026-11-21T03:00:05+00:00"))
    assert "other.log" in text and "iteration 5" in text
    assert "no longer in the storage" in text


def test_an_archive_sent_again_brings_lost_members_back(artifact):
    job, sent = artifact.attempt.job, tar_of({"n0/a.log": b"line one\n", "n0/b.log": b"line two\n"})
    services.artifact_receive(job=job, path="logs.tar", chunks=[sent])
    lost, kept = Artifact.objects.filter(path__startswith="n0/").order_by("path")
    storage.blob_delete(lost.blob_id)
    services.artifact_receive(job=job, path="logs.tar", chunks=[sent])
    assert [window(one, start=1).lines[0].text for one in (lost, kept)] == ["line one", "line two"]
    assert Artifact.objects.filter(path__startswith="n0/").count() == 2
