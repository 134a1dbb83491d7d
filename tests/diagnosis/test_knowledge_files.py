"""A table is read from its text once, and later from what is kept beside the modules."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from diagnosis.knowledge import knowledge_files

TEXT = 'title = "words"\n[[row]]\nid = 3\nshare = 0.5\nnames = ["a", "b"]\nis_known = true\n'


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(knowledge_files, "_KEPT", tmp_path / "kept")
    return tmp_path / "kept"


def refuse(text: str) -> None:
    raise AssertionError("the text is read again")


def test_what_is_kept_is_what_the_text_says(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tomllib.loads(TEXT)
    assert knowledge_files.parsed(TEXT) == expected
    monkeypatch.setattr(tomllib, "loads", refuse)
    assert knowledge_files.parsed(TEXT) == expected


def test_another_text_or_a_damaged_file_is_read_again(kept: Path) -> None:
    knowledge_files.parsed(TEXT)
    assert knowledge_files.parsed(TEXT.replace("3", "4"))["row"][0]["id"] == 4
    for one in kept.iterdir():
        one.write_bytes(one.read_bytes()[:-1])
    assert knowledge_files.parsed(TEXT) == tomllib.loads(TEXT)


def test_a_folder_that_may_not_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(knowledge_files, "_KEPT", tmp_path / "file" / "below")
    assert knowledge_files.parsed(TEXT) == tomllib.loads(TEXT)


def test_a_text_that_is_no_table_is_refused_and_not_kept(kept: Path) -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        knowledge_files.parsed("title = ")
    assert not kept.exists()


class Row(msgspec.Struct, frozen=True):
    id: str
    pattern: re.Pattern[str]
    names: tuple[str, ...] = ()


def test_rows_of_a_table_become_records_with_their_patterns_compiled() -> None:
    rows = [{"id": "a", "pattern": "x+", "names": ["n"]}, {"id": "b", "pattern": "y"}]
    first, second = knowledge_files.records(Row, rows, re.IGNORECASE)
    assert first.pattern.fullmatch("XX")
    assert (first.names, second.names) == (("n",), ())


def test_a_row_without_a_field_that_it_needs_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        knowledge_files.records(Row, [{"id": "a"}])
