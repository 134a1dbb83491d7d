"""A document that names a file of this repository names one that is there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import get_commands

from triage.manual.rendering import Target, render

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "lab").rglob("*.md")])
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
    modules = re.findall(r"python -m ((?:lab.measure [a-z_]+|(?:tests|scripts|diagnosis)[\w.]*))", text)
    commands = re.findall(r"(?:manage\.py|faultline manage) (\w+)", text)
    missing = [name for named in files for name in named.split() if not (ROOT / name).exists()]
    missing += [name for name in modules if find_spec(name.replace(" ", ".")) is None]
    missing += [name for name in commands if name not in get_commands()]
    assert missing == []


def test_the_contents_lead_to_every_document() -> None:
    folder = ROOT / "docs"
    contents = (folder / "README.md").read_text()
    documents = {path.name for path in folder.iterdir()} - {"README.md"}
    assert sorted(name for name in documents if f"]({name}" not in contents) == ["incident.webp"]


def _anchors(document: Path) -> set[str]:
    rendered = render(document.stem, document.read_text(), Target)
    return {section.heading.anchor for section in rendered.sections}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_anchor_of_a_link_is_a_heading(document: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", document.read_text())
    missing = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in _anchors(document.parent / file if file else document)
    ]
    assert missing == []
