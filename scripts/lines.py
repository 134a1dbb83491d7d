"""``python -m scripts.lines``: checks that no line of templates, styles and scripts is longer than 120 columns.

No formatter of templates breaks lines without adding visible white space, so they are broken by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.services import ROOT

LONGEST = 120
FOLDERS = ("templates", "static/css", "static/js")


def too_long(root: Path = ROOT) -> Iterator[str]:
    """``path:line: columns`` of each line that is too long; reads each file once."""
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LONGEST:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {LONGEST} are allowed"


if __name__ == "__main__":
    found = list(too_long())
    print(*found, sep="\n")
    sys.exit(1 if found else 0)
