"""Writes the version of a release into each file that names it: `python -m scripts.release 0.2.0`.

CONTRIBUTING.md says what a person does before and after.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime

from scripts.version import PLACE, ROOT, stated_version

#: file -> pattern, whose groups are what stands before and behind the version there
PLACES = {
    PLACE: r'^(__version__ = ")[\d.]+(")$',
    "diagnosis/pipeline.py": r'^(ENGINE: Final = ")[\d.]+(")$',
    "deploy/compose.yaml": r"(faultline:)\d[\d.]*\d()",
    "deploy/helm/Chart.yaml": r"^((?:version|appVersion): ).+()$",
    "docs/openapi.yaml": r"^(  version: ).+()$",
    "docs/install.md": r"(faultline:)\d[\d.]*\d()",
    "docs/settings.md": r"(faultline:)\d[\d.]*\d()",
}


def release(version: str) -> list[str]:
    """Write it everywhere; returns the files that changed. Raises SystemExit if there is nothing to release."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) <= _numbers(stated_version()):
        raise SystemExit(f"A release is newer than {stated_version()}, and written like 1.2.3.")
    changed = []
    for name, pattern in PLACES.items():
        text = (ROOT / name).read_text()
        (ROOT / name).write_text(re.sub(pattern, rf"\g<1>{version}\g<2>", text, flags=re.M))
        changed.append(name)
    log = ROOT / "CHANGELOG.md"
    today = datetime.now(UTC)
    title = f"## {version} ({today.day} {today:%B %Y})"
    log.write_text(log.read_text().replace("## Unreleased\n", f"## Unreleased\n\n{title}\n", 1))
    return [*changed, "CHANGELOG.md"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    for name in release(*sys.argv[1:2] or [""]):
        print(name)
    print(f"Then: RELEASES in tests/upgrades.py, docs/upgrading.md, commit, git tag v{sys.argv[1]}.")
