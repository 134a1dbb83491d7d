"""docs/states.md lists each format of state reports."""

from __future__ import annotations

from diagnosis.kinds.states import formats
from triage.places import ROOT


def test_each_format_stands_in_its_document() -> None:
    text = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    missing = [form.title for form in formats.load() if form.title.removesuffix(" of a switch") not in text]
    assert missing == []
