"""What differs from another revision of git, for gates that judge changed code alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]
#: Where main may be found, the copy of the clone's origin first.
_MAINS: Final = ("origin/main", "main")
#: On main itself the last so many commits are the change.
_COMMITS: Final = 100
_FILE: Final = re.compile(r"^\+\+\+ b/(.+)\n((?:(?!diff --git ).*\n?)*)", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


class NoHistory(Exception):
    """There is no revision to compare with."""


def changed_paths(revision: str) -> set[str]:
    """The files that differ, and the folders that hold one."""
    found = _git("diff", "--name-only", _known(revision)).split()
    return {*found, *(str(folder) for path in found for folder in Path(path).parents)}


def changed_lines(revision: str) -> dict[str, frozenset[int]]:
    """Of each module, by path: its lines, from 1, that the revision has not. A file that was moved has few."""
    text = _git("diff", "--find-renames", "--unified=0", "--no-color", _known(revision), "--", "*.py")
    return {path: _lines_of(hunks) for path, hunks in _FILE.findall(text)}


def _lines_of(hunks: str) -> frozenset[int]:
    found = _HUNK.findall(hunks)
    ranges = [range(int(first), int(first) + int(count or 1)) for first, count in found]
    return frozenset().union(*ranges)


def _known(revision: str) -> str:
    """``recent`` is the commit where this branch left main; on main, some commits ago."""
    if revision != "recent":
        return revision
    head = _found("HEAD")
    for main in _MAINS:
        left = _found_base(main)
        if left and left != head:
            return left
    return _found(f"HEAD~{_COMMITS}") or _refuse()


def _refuse() -> str:
    raise NoHistory("This clone has no history to compare with, so no changed line is tried.")


def _found(revision: str) -> str:
    """The commit, or an empty text."""
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except NoHistory:
        return ""


def _found_base(main: str) -> str:
    try:
        return _git("merge-base", "HEAD", main).strip()
    except NoHistory:
        return ""


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(f"git cannot compare with another revision: {error}") from error
    return done.stdout
