"""The documents hold every category and every rule as they are."""

from pathlib import Path

import pytest

from diagnosis.logs.signatures import describe

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("name", "make"), [("categories.md", describe.categories), ("signatures.md", describe.rules)])
def test_a_document_is_up_to_date(name: str, make) -> None:  # type: ignore[no-untyped-def]
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == describe.insert_generated(text, make()), "run: python -m diagnosis.logs.signatures.describe docs"


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        describe.insert_generated("# No marks", "table")


def test_no_cell_breaks_its_table() -> None:
    for line in (describe.rules() + describe.categories()).splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") in {6, 7}
