"""docs/formats.md has the table that the program prints."""

from diagnosis.kinds import format_table
from triage.places import ROOT


def test_the_document_has_the_table_of_formats() -> None:
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert format_table.as_markdown() in text, "put there what `python -m diagnosis formats` prints"
