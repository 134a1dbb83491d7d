"""The content of reports can be stored for every kind of evidence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from diagnosis.__main__ import main
from diagnosis.plain import plain, text


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
