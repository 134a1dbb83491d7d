"""The document of categories holds each as it is."""

from pathlib import Path

import pytest

from diagnosis.kinds.logs.meaning.signatures import describe

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_document_is_up_to_date() -> None:
    text = (DOCS / "categories.md").read_text(encoding="utf-8")
    generated = describe.insert_generated(text, describe.categories())
    assert text == generated, "run: python -m diagnosis.kinds.logs.meaning.signatures.describe docs"


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        describe.insert_generated("# No marks", "table")


def test_no_cell_breaks_its_table() -> None:
    for line in describe.categories().splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") == 6
