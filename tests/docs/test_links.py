"""A document that names a file of this repository names one that is there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
#: `docs/settings.md`, `deploy/nginx.conf`, `scripts/…`; not var/, which a start makes
NAMED = re.compile(r"[`(]((?:docs|deploy|samples|scripts|static|tests)/[\w./-]+\w)[`)#]")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = set(NAMED.findall(document.read_text()))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_is_named_exists(document: Path) -> None:
    text = document.read_text()
    files = re.findall(r"pytest ((?:tests/[\w./-]*\w ?)+)", text)
    modules = re.findall(r"python -m ((?:measure [a-z_]+|(?:tests|scripts|diagnosis)[\w.]*))", text)
    commands = re.findall(r"(?:manage\.py|faultline manage) (\w+)", text)
    missing = [name for named in files for name in named.split() if not (ROOT / name).exists()]
    missing += [name for name in modules if find_spec(name.replace(" ", ".")) is None]
    missing += [name for name in commands if name not in get_commands()]
    assert missing == []


def test_the_readme_leads_to_every_guide() -> None:
    readme = (ROOT / "README.md").read_text()
    guides = {f"docs/{path.name}" for path in (ROOT / "docs").iterdir()}
    assert sorted(guide for guide in guides if guide not in readme) == []
