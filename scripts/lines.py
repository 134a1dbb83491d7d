"""``python -m scripts.lines``: checks that no line of templates, styles and scripts is longer than 120 columns, and
that no tag of a template is broken over lines.

No formatter of templates breaks lines without adding visible white space, so they are broken by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from triage.places import ROOT

MAX_COLUMNS = 120
FOLDERS = ("templates", "static/css", "static/js")


def long_lines(root: Path = ROOT) -> Iterator[str]:
    """``path:line: columns`` of each line that is too long; reads each file once."""
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {MAX_COLUMNS} are allowed"


def broken_tags(root: Path = ROOT) -> Iterator[str]:
    """``path:line: …`` of each tag or comment that begins in one line and ends in another: Django prints it as text."""
    for path in sorted((root / "templates").rglob("*.*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for begin, end in (("{%", "%}"), ("{{", "}}"), ("{#", "#}")):
                if begin in line and end not in line[line.rindex(begin) :]:
                    yield f"{path.relative_to(root)}:{number}: {begin} is not closed in its line"


if __name__ == "__main__":
    found = [*long_lines(), *broken_tags()]
    print(*found, sep="\n")
    sys.exit(1 if found else 0)
