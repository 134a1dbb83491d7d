"""What a gate of changed code compares with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.measure import changes
from lab.measure.mutants import Sample


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file of three lines, committed once on main."""
    monkeypatch.setattr(changes, "_ROOT", tmp_path)
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "rules.py").write_text("a = 1\nb = 2\nc = 3\n", encoding="utf-8")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Change a number")


def test_a_branch_is_compared_with_where_it_left_main(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "branch")
    (clone / "rules.py").write_text("a = 1\nb = 5\nc = 3\nd = 4\n", encoding="utf-8")
    commit(clone)
    assert changes.changed_lines("recent") == {"rules.py": {2, 4}}
    assert changes.changed_paths("recent") == {"rules.py", "."}


def test_a_removed_line_is_no_line_to_change(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "branch")
    (clone / "rules.py").write_text("a = 1\nc = 3\n", encoding="utf-8")
    commit(clone)
    assert changes.changed_lines("recent") == {"rules.py": frozenset()}


def test_a_moved_file_has_only_the_lines_that_changed_with_it(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "branch")
    (clone / "rules.py").write_text("a = 1\n" * 20, encoding="utf-8")
    commit(clone)
    git(clone, "checkout", "-q", "-B", "main")
    git(clone, "checkout", "-q", "-b", "moves")
    git(clone, "mv", "rules.py", "laws.py")
    (clone / "laws.py").write_text("a = 1\n" * 19 + "a = 2\n", encoding="utf-8")
    (clone / "more.py").write_text("b = 1\n", encoding="utf-8")
    commit(clone)
    assert changes.changed_lines("recent") == {"laws.py": {20}, "more.py": {1}}


def test_main_is_compared_with_some_commits_ago(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_COMMITS", 1)
    (clone / "rules.py").write_text("a = 1\nb = 2\nc = 4\n", encoding="utf-8")
    commit(clone)
    assert changes.changed_lines("recent") == {"rules.py": {3}}


def test_a_clone_without_history_says_so(clone: Path) -> None:
    with pytest.raises(changes.NoHistory, match="no history"):
        changes.changed_lines("recent")


def test_a_folder_that_is_no_clone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(changes.NoHistory):
        changes.changed_paths("recent")


def test_only_changes_of_the_lines_are_chosen() -> None:
    source = "def f(a):\n    x = a < 3\n    return x and a > 5\n"
    chosen = Sample(most=9, seed=1, lines=frozenset({3})).choose("rules.py", source)
    assert {one.first_line for one in chosen} == {3}
    assert len(Sample(most=9, seed=1).choose("rules.py", source)) > len(chosen)
