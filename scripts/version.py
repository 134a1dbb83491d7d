"""The version of a wheel. A release has the version that `client/faultline/__init__.py` states. What is built later has
`.postN`, with the number of commits since then: each build is newer than the one before, so that `pip install -U`
replaces it. Standard library only; hatchling runs this file.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = "client/faultline/__init__.py"


def stated_version() -> str:
    """The version of the last release."""
    found = re.search(r'^__version__ = "(.+)"', (ROOT / PLACE).read_text(), re.M)
    assert found, f"{PLACE} states no version"
    return found[1]


def build_version() -> str:
    """The version of what is built now: of a source archive the one that it states itself."""
    archive = ROOT / "PKG-INFO"
    if archive.exists():
        return archive.read_text().partition("\nVersion: ")[2].partition("\n")[0]
    released = _git("log", "-1", "--format=%H", "-G", "^__version__", "--", PLACE)
    later = _git("rev-list", "--count", f"{released}..HEAD") if released else ""
    return stated_version() + (f".post{later}" if later not in ("", "0") else "")


def _git(*arguments: str) -> str:
    """What git prints; empty without git, or outside of a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return ""
    return done.stdout.strip()
