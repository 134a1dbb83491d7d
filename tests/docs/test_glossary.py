"""The glossary: short enough to be read, the same in the document as on the pages."""

import re
from pathlib import Path

from diagnosis import evidence
from scripts import glossary
from triage.glossary import terms

ROOT = Path(__file__).resolve().parents[2]


def test_the_document_says_what_the_pages_say() -> None:
    assert glossary.DOCUMENT.read_text() == glossary.document(), "run `.venv/bin/python -m scripts.glossary`"


def test_it_can_be_read_in_two_minutes() -> None:
    assert 20 <= len(terms()) <= 40
    assert all(len(term.meaning) <= 140 for term in terms().values())


def test_every_word_that_a_page_explains_is_in_it() -> None:
    used = set()
    for page in (ROOT / "templates").rglob("*.html"):
        used |= set(re.findall(r'{% term "([^"]+)"', page.read_text()))
    assert used <= set(terms())
    assert len(used) >= 10


def test_the_engine_explains_its_nouns_where_its_types_are() -> None:
    rows = re.findall(r"(?m)^([a-z]+) +\S.*$", evidence.__doc__ or "")
    assert len(rows) >= 30
    assert {"fact", "finding", "place", "suspect", "rank"} <= set(rows)
