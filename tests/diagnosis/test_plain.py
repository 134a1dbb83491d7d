"""The content of reports can be stored for every kind of evidence."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from diagnosis.__main__ import main
from diagnosis.values.plain import HIDDEN, csv_cell, duration, listed, plain, text, visible, visible_json
from faultline import words


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("plain", "plain"),
        ("größer ☃", "größer ☃"),
        ("a\0b", "a␀b"),
        ("a\ud800b", "a?b"),
        ("\ud83d\ude00", "??"),
        ("", ""),
    ],
)
def test_text_has_a_sign_where_no_database_keeps_what_stood(value: str, kept: str) -> None:
    assert text(value) == kept


def test_values_become_json_of_finite_numbers_lists_and_text() -> None:
    value = {1: (np.int64(2), np.float64("nan"), float("inf")), "a\0": {"b", "a"}, "path": Path("x/y"), "n": None}

    assert plain(value) == {"1": [2, None, None], "a␀": ["a", "b"], "path": "x/y", "n": None}


def test_a_description_of_broken_text_is_diagnosed_with_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"2026-01-01 00:00:{i:02d} INFO iteration {i}/100 loss 1.0" for i in range(20)]
    lines += ["2026-01-01 00:01:00 ValueError: bad \0 step"]
    (tmp_path / "n-1").mkdir()
    (tmp_path / "n-1" / "rank-0.log").write_text("\n".join(lines) + "\n")
    nodes = ["n-1", "n-\\u0000-2", "n-\\ud800-3"]
    (tmp_path / "job.json").write_text(f'{{"job_id": "x\\ud800", "nodes": ["{'", "'.join(nodes)}"]}}')

    assert main([str(tmp_path), "--json"]) == 0

    said = capsys.readouterr().out
    assert json.loads(said)["logs"]["is_failure"] is True
    assert "n-␀-2" in json.dumps(json.loads(said), ensure_ascii=False)
    assert not any(half in said for half in ("\\u0000", "\\ud800"))


def _characters(expression: str) -> set[str]:
    return {one for one in map(chr, range(0x110000)) if re.match(f"[{expression}]", one)}


def test_every_mark_that_nobody_sees_is_shown() -> None:
    """By Unicode's own categories, so that a new one of its kind fails here."""
    hidden = _characters(HIDDEN)
    by_category = {one for one in map(chr, range(0x110000)) if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    assert by_category - set("\t\n\r") <= hidden
    others = hidden - by_category
    assert {unicodedata.category(one) for one in others} <= {"Cn", "Lo", "Mn"}, "only what Unicode calls ignorable"
    assert not {"\t", "\n", "\r", "\xa0", "\u202f", "\u3000"} & hidden
    assert HIDDEN == words.HIDDEN, "the client's copy"
    for one in hidden:
        assert visible(f"gpu{one}1") != f"gpu{one}1", hex(ord(one))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("node\u200b1", "node[U+200B]1"),
        ("\ufeffRANK\u2028x\u2060", "[U+FEFF]RANK[U+2028]x[U+2060]"),
        ("\u200ea\u200fb\u061c", "[U+200E]a[U+200F]b[U+061C]"),
        ("gpu\U000e0041", "gpu[U+E0041]"),
        ("soft\xadhyphen", "soft[U+00AD]hyphen"),
        ("gpu\u200d1 gpu\ufe0f1 gpu\u200c1", "gpu[U+200D]1 gpu[U+FE0F]1 gpu[U+200C]1"),
        ("⚠\ufe0f 👨\u200d💻 🏳\ufe0f\u200d🌈", "⚠\ufe0f 👨\u200d💻 🏳\ufe0f\u200d🌈"),
        ("می\u200cخواهم क\u094d\u200dष", "می\u200cخواهم क\u094d\u200dष"),
    ],
)
def test_marks_are_signs_except_where_writing_needs_them(value: str, shown: str) -> None:
    assert visible(value) == shown and visible(shown) == shown
    for is_ascii in (True, False):
        document = json.dumps({value: [f"\\u200b {value}"]}, ensure_ascii=is_ascii)
        assert json.loads(visible_json(document)) == {shown: [f"\\u200b {shown}"]}


@pytest.mark.parametrize("first", "=+-@＝＋－＠﹦﹢﹣﹫\t\r\n")
def test_a_cell_that_a_spreadsheet_could_read_as_a_formula_is_text(first: str) -> None:
    assert csv_cell(f"{first}cmd|' /C calc'!A0").startswith("'")
    assert csv_cell(f"a{first}") == f"a{first}" and csv_cell(-1) == -1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0.00 s"),
        (3.2e-5, "32.0 µs"),
        (0.412, "412 ms"),
        (0.9998, "1.00 s"),
        (2.433, "2.43 s"),
        (2433.2, "2,433 s"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_fits(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_of_many_names_the_first_are_named_and_the_others_counted() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed([str(n) for n in range(1_202)], 2) == "0, 1 and 1,200 more"
    assert listed([], 2) == ""
