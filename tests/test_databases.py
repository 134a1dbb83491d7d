"""Which tests run on SQLite alone, what keeps a file from being one of them, and the migrated database that is kept."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests import migrated
from tests.conftest import ON_SQLITE_ALONE, TESTS_ON_SQLITE_ALONE
from tests.statements import SENSITIVE, source_of

TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(ON_SQLITE_ALONE))
def test_a_file_that_runs_on_sqlite_alone_asks_nothing_that_depends_on_the_database(name: str) -> None:
    assert sorted(set(SENSITIVE.findall((TESTS / name).read_text()))) == []


def test_tests_that_run_on_sqlite_alone_are_there_and_ask_nothing_that_depends_on_the_database() -> None:
    words = {test: sorted(set(SENSITIVE.findall(source_of(test)))) for test in TESTS_ON_SQLITE_ALONE}
    assert {test: found for test, found in words.items() if found} == {}
    assert [test for test in TESTS_ON_SQLITE_ALONE if not source_of(test)] == []


def test_a_kept_database_serves_equal_code_and_equal_apps_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrated, "_FOLDER", tmp_path / "kept")
    with contextlib.closing(sqlite3.connect(tmp_path / "made.sqlite3")) as made:
        made.execute("create table here (id)")
    assert not migrated.restore(tmp_path / "copy.sqlite3")
    migrated.keep(tmp_path / "made.sqlite3")
    assert migrated.restore(tmp_path / "copy.sqlite3")
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.sqlite3")) as copy:
        assert copy.execute("select name from sqlite_master").fetchall() == [("here",)]
    with monkeypatch.context() as patched:
        patched.setattr("django.conf.settings.INSTALLED_APPS", ["another"])
        assert not migrated.restore(tmp_path / "copy.sqlite3")
    assert migrated.restore(tmp_path / "copy.sqlite3")
    monkeypatch.setattr(migrated, "ROOT", _another_checkout(tmp_path))
    assert not migrated.restore(tmp_path / "copy.sqlite3")


def _another_checkout(folder: Path) -> Path:
    (folder / "triage").mkdir()
    (folder / "triage" / "models.py").write_text("changed = True\n")
    (folder / "requirements-dev.lock").write_text("")
    return folder
