"""What is not read is not called healthy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.__main__ import main

TABLE = "alpha beta gamma\n" + "".join(f"{n} {n * 7 % 13} {n * 5 % 11}\n" for n in range(40))


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([str(path), "--json"]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_a_text_without_any_sign_of_a_log_is_named_as_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text(TABLE)
    report = told(path, capsys)
    assert any("numbers.txt was not recognised" in str(line) for line in report["missing"])  # type: ignore[attr-defined]
    assert "Not enough evidence" in str(report["headline"])


def test_a_log_with_times_is_not_called_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"2026-03-02 08:15:{n:02d} INFO loading shard {n}\n" for n in range(40)))
    report = told(path, capsys)
    assert not any("not recognised" in str(line) for line in report["missing"])  # type: ignore[attr-defined]


def test_a_known_message_without_a_header_is_not_called_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.txt"
    path.write_text(f"{TABLE}RuntimeError: CUDA error: an illegal memory access was encountered\n")
    report = told(path, capsys)
    assert not any("not recognised" in str(line) for line in report["missing"])  # type: ignore[attr-defined]
