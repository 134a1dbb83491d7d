"""The live log: the newest lines of all growing files by time, from where the page has read to."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ingest.models import Attempt, Upload, Watch
from ingest.services import resuming
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from triage.domain.live_lines import level_of, lines_of, merge, order_of
from triage.selectors import tail as tails
from triage.selectors.tail import LineFilter, tail

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt() -> Attempt:
    return make_attempt(make_job("night-run"))


def grow(attempt: Attempt, path: str, data: bytes) -> Upload:
    """The file grows; its bytes are confirmed."""
    upload = Upload.objects.filter(attempt=attempt, path=path).first()
    if upload is None:
        upload = resuming.upload_begin(job=attempt.job, path=path, size_bytes=None, attempt=attempt.number)
    with resuming.part_path_of(upload).open("ab") as file:
        file.write(data)
    upload.offset_bytes += len(data)
    upload.save()
    return upload


def texts(attempt: Attempt, cursor: str = "", **wanted: Any) -> tuple[list[str], str]:
    found = tail(attempt, cursor=cursor, line_filter=LineFilter(**wanted))
    return [line.text for line in found.lines], found.cursor


def test_lines_of_all_nodes_are_merged_by_time(attempt: Attempt) -> None:
    grow(attempt, "node-1/train.log", b"2026-11-22 03:00:01,000 a\n  of a\n2026-11-22 03:00:03,000 c\n")
    grow(attempt, "node-2/train.log", b"2026-11-22T03:00:02.500Z b\n2026-11-22T03:00:04Z d\n")
    lines, cursor = texts(attempt)
    assert [line[-1:] for line in lines] == ["a", "a", "b", "c", "d"]
    assert texts(attempt, cursor) == ([], cursor)


def test_each_answer_goes_on_where_the_last_one_ended_and_cuts_no_line(attempt: Attempt) -> None:
    grow(attempt, "a.log", b"03:00:01 a\n03:00:0")
    lines, cursor = texts(attempt)
    assert lines == ["03:00:01 a"]
    grow(attempt, "a.log", b"2 b\n")
    grow(attempt, "late.log", b"03:00:00 appeared later\n03:00:03 c\n")
    lines, cursor = texts(attempt, cursor)
    assert lines == ["03:00:00 appeared later", "03:00:02 b", "03:00:03 c"]
    assert texts(attempt, cursor)[0] == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_shown_as_text_wherever_its_pieces_end(attempt: Attempt, encoding: str) -> None:
    said = [f"03:00:0{n} Grüße ਊ {n}" for n in range(1, 8)]  # a character with a newline's byte
    data = "\ufeff".encode(encoding) + "".join(f"{line}\n" for line in said).encode(encoding)
    seen, cursor = [], ""
    for at in range(0, len(data), 33):
        grow(attempt, "a.log", data[at : at + 33])
        lines, cursor = texts(attempt, cursor)
        seen += lines
    assert seen == said
    assert texts(attempt)[0][-1] == said[-1]


def test_the_first_answer_shows_the_end_of_a_long_file(attempt: Attempt, monkeypatch: Any) -> None:
    monkeypatch.setattr(tails, "MAX_FIRST_BYTES", 50)
    grow(attempt, "a.log", b"".join(b"03:00:%02d line\n" % n for n in range(60)))
    assert texts(attempt)[0] == ["03:00:57 line", "03:00:58 line", "03:00:59 line"]


def test_many_files_share_one_answer_and_a_filter_by_file_gives_it_to_fewer(attempt: Attempt, monkeypatch: Any) -> None:
    monkeypatch.setattr(tails, "MAX_FIRST_ANSWER_BYTES", 80)
    monkeypatch.setattr(tails, "MIN_FILE_BYTES", 10)
    for node in range(4):
        grow(attempt, f"node-{node}/a.log", b"".join(b"03:00:%02d line\n" % n for n in range(60)))
    assert len(texts(attempt)[0]) == 4
    assert len(texts(attempt, who="node-2")[0]) == 5


def test_a_page_that_is_far_behind_skips_and_says_how_much(attempt: Attempt, monkeypatch: Any) -> None:
    monkeypatch.setattr(tails, "MAX_FILE_BYTES", 100)
    grow(attempt, "a.log", b"03:00:00 first\n")
    _, cursor = texts(attempt)
    grow(attempt, "a.log", b"03:00:01 more\n" * 100)
    found = tail(attempt, cursor=cursor, line_filter=LineFilter())
    assert (len(found.lines), found.skipped) == (7, 1300)


def test_unconfirmed_bytes_are_not_shown(attempt: Attempt) -> None:
    upload = grow(attempt, "a.log", b"03:00:00 a\n")
    with resuming.part_path_of(upload).open("ab") as file:
        file.write(b"03:00:01 may be cut off\n")
    assert texts(attempt)[0] == ["03:00:00 a"]


def test_filters_take_level_file_and_words(attempt: Attempt) -> None:
    grow(attempt, "node-1/a.log", b"03:00:00 INFO fine\n03:00:01 ERROR NCCL timeout\n03:00:02 WARN slow\n")
    grow(attempt, "node-2/a.log", b"03:00:03 ERROR disk\n")
    assert texts(attempt, level=4)[0] == ["03:00:01 ERROR NCCL timeout", "03:00:03 ERROR disk"]
    assert texts(attempt, who="NODE-2")[0] == ["03:00:03 ERROR disk"]
    assert texts(attempt, words="nccl")[0] == ["03:00:01 ERROR NCCL timeout"]


@pytest.mark.parametrize("cursor", ["x", "00000000-99999999999999", "é" * 9000, "00000000-1." * 5000])
def test_no_cursor_breaks_the_answer(attempt: Attempt, cursor: str) -> None:
    upload = grow(attempt, "a.log", b"03:00:00 a\n")
    assert texts(attempt, cursor)[0] == ["03:00:00 a"]
    assert texts(attempt, f"{upload.pk.hex[:8]}-99999999")[0] == []


def test_hostile_lines_are_shown_as_plain_text(attempt: Attempt, client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    grow(attempt, "a.log", b"03:00:00 </script><b>x\n\x1b[31m\xff\x00\n" + b"y" * 10_000 + b"\n")
    page = client.get(f"/jobs/{attempt.job.slug}/live/0/").content.decode()
    assert "</script><b>x" not in page
    lines = client.get(f"/jobs/{attempt.job.slug}/live/0/lines/").json()["lines"]
    assert lines[1][2] == "\u241b[31m\ufffd\u2400"
    assert lines[2][2].endswith("… (10,000 bytes)")


def test_the_page_costs_few_queries_and_the_wall_leads_to_it(attempt: Attempt, client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    for n in range(20):
        grow(attempt, f"node-{n}/a.log", b"03:00:00 a\n")
    url = f"/jobs/{attempt.job.slug}/live/0/"
    with CaptureQueriesContext(connection, ) as page:  # fmt: skip
        assert client.get(url).status_code == 200
    with CaptureQueriesContext(connection) as lines:
        assert client.get(f"{url}lines/").json()["growing"] == 20
    assert len(page) <= 9
    assert len(lines) <= 8
    assert f'href="{url}"' in client.get("/running/").content.decode()
    assert f'href="{url}"' in client.get(f"/jobs/{attempt.job.slug}/").content.decode()


def test_a_job_that_does_not_grow_says_so(attempt: Attempt, client: Any) -> None:
    client.force_login(make_user("ada", "engineer"))
    Watch.objects.create(attempt=attempt, alarm="hang", alarm_text="No progress after iteration 40.")
    page = client.get(f"/jobs/{attempt.job.slug}/live/0/").content.decode()
    assert "No file of this attempt grows" in page
    assert "No progress" not in page, "nothing holds any more"
    assert client.get(f"/jobs/{attempt.job.slug}/live/7/").status_code == 404
    assert "/live/" not in client.get(f"/jobs/{attempt.job.slug}/").content.decode()


def test_other_teams_see_nothing_of_it(client: Any) -> None:
    make_team("llm", clusters=[cluster := make_cluster("h100")])
    attempt = make_attempt(make_job("secret", cluster=cluster))
    client.force_login(make_user("eve", "engineer"))
    for end in ("", "lines/"):
        assert client.get(f"/jobs/{attempt.job.slug}/live/0/{end}").status_code == 404


def test_a_time_that_goes_back_moves_no_line_before_its_file_neighbours() -> None:
    lines = lines_of(0, b"03:00:05 a\n03:00:01 b\n")
    assert [line.text[-1] for line in merge([lines])] == ["a", "b"]


def test_times_and_levels_are_told_from_the_beginning_of_a_line() -> None:
    assert order_of("[2026/11/22 03:00:00,5] x") == "2026-11-22 03:00:00.5"
    assert order_of("x" * 300 + "03:00:00") == ""
    levels = {"ERROR x": 4, "RuntimeError: x": 4, "x FATAL": 5, "FutureWarning: y": 3, "DEBUG": 1, "no errors": 2}
    assert {text: level_of(text) for text in levels} == levels
