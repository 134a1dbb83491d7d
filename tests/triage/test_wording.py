"""Small words and marks of every page."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from diagnosis.values.plain import percent as plain_percent
from triage.models import Activity
from triage.places import ROOT
from triage.selectors.incident import activity_words, log_url
from triage.templatetags.desk import category_path, highlight, markdown, state_chip, utc
from triage.wording import ago, amount, duration, elapsed, number, percent, score, size

NOW = datetime(2026, 11, 21, 3, 12, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.25, "250 ms"),
        (59, "59 s"),
        (60, "1 min"),
        (5400, "1.5 h"),
        (36000, "10 h"),
        (200000, "2.3 d"),
    ],
)
def test_durations_have_one_unit(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "0:00"), (43.9, "0:43"), (725, "12:05"), (11242, "3:07:22"), (200000, "2.3 d")]
)
def test_a_time_without_progress_is_shown_as_a_clock(time_machine, seconds, words):
    time_machine.move_to(NOW, tick=False)
    assert elapsed(NOW - timedelta(seconds=seconds)) == words


#: a number and the sign, with a space where a line may break
BREAKS = re.compile(r"(?:^|[\d}]) %(?![\w{(%}])")


def test_no_line_breaks_before_the_sign_of_a_share() -> None:
    assert percent(1) == "100\u00a0%"
    assert plain_percent(0.256, 1) == "25.6\u00a0%"
    said = {path: texts_of(path) for folder in ("diagnosis", "triage") for path in (ROOT / folder).rglob("*.py")}
    said |= {path: [path.read_text()] for path in (ROOT / "templates").rglob("*.html")}
    said |= {path: re.findall(r"`[^`]*`|\"[^\"]*\"", path.read_text()) for path in (ROOT / "static/js").glob("*.js")}
    found = [(path, text) for path, texts in said.items() for text in texts if BREAKS.search(text)]
    assert found == []


def texts_of(path: Path) -> list[str]:
    """The texts of a module that are not its documentation."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documents]
    return [node.value for node in nodes if isinstance(node.value, str)]


def test_numbers_and_sizes_are_for_people():
    assert number(1234567) == "1,234,567"
    assert number(None) == "–"
    assert (size(999), size(1000), size(1500), size(123456789)) == ("999 B", "1.0 kB", "1.5 kB", "123 MB")
    assert (size(999_999), size(10**15), size(None)) == ("1.0 MB", "1000.0 TB", "0 B")
    assert (score(0.97), score(1.0)) == (".97", "1.00")


def test_costs_are_as_exact_as_they_are_small():
    assert [amount(value) for value in (None, 0, 0.004, 9.994, 10, 12345.6)] == [
        "–",
        "0.00",
        "<0.01",
        "9.99",
        "10",
        "12,346",
    ]
    assert [percent(value) for value in (None, 0, 0.456, 1)] == ["–", "0\u00a0%", "46\u00a0%", "100\u00a0%"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "just now"), (59, "just now"), (61, "1 min ago"), (7300, "2.0 h ago")]
)
def test_what_has_just_been_needs_no_number(seconds, words, time_machine):
    time_machine.move_to(NOW, tick=False)
    assert ago(NOW - timedelta(seconds=seconds)) == words


def test_a_time_is_shown_in_utc_whatever_its_zone():
    moment = datetime(2026, 11, 21, 3, 12, 7, tzinfo=timezone(timedelta(hours=8)))
    html = utc(moment, "second")
    assert ">2026-11-20 19:12:07</time>" in html
    assert 'datetime="2026-11-20T19:12:07+00:00"' in html
    assert utc(datetime(2026, 1, 1, tzinfo=UTC).timestamp(), "date").endswith(">2026-01-01</time>")
    assert utc(None) == "–"


def test_telling_words_are_marked_and_everything_is_escaped():
    html = highlight(
        "<b> GPU has fallen off at 0000:9b:00", [{"text": "GPU has fallen off", "parameters": {"pci": "0000:9b:00"}}]
    )
    assert "<mark>GPU has fallen off</mark>" in html
    assert '<mark class="parameter">0000:9b:00</mark>' in html
    assert html.startswith("&lt;b&gt;")
    assert highlight("<i>", []) == "&lt;i&gt;"


def test_a_comment_may_be_formatted_and_do_nothing_else():
    html = markdown("**a** `b`\n\n[c](https://d.example) <img src=x onerror=y> [e](javascript:f)")
    assert "<strong>a</strong>" in html and "<code>b</code>" in html
    assert 'href="https://d.example"' in html
    assert "<img" not in html and 'href="javascript' not in html
    assert "noopener" in html


def test_a_state_is_recognised_by_word_and_shape_not_by_colour_alone():
    chip = state_chip("awaiting_review")
    assert "awaiting review" in chip and "<svg" in chip


def test_a_category_is_a_path_of_titles_and_an_unknown_one_is_itself():
    assert category_path("hardware.gpu.off_bus") == "Hardware › GPU › GPU lost from the PCIe bus"
    assert category_path("") == "–"


def test_a_line_of_evidence_has_a_permalink_for_readers_with_and_without_javascript():
    assert log_url("j", 2, "a/b c#1.log", 12, 14) == "/jobs/j/logs/2/a/b%20c%231.log?line=12#L12-L14"


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("decided", {"claim": "stage", "word": "confirm", "after": "training"}, "confirmed the stage: training"),
        ("decided", {"claim": "category", "word": "reject"}, "rejected the category"),
        ("assigned", {"after": "ada"}, "assigned it to ada"),
        ("assigned", {"before": "ada"}, "removed the assignee"),
        ("resolved", {}, "set it to resolved"),
    ],
)
def test_activity_reads_as_a_sentence(kind, data, words):
    assert activity_words(Activity(kind=kind, data=data)) == words
