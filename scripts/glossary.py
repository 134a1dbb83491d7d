"""Writes docs/glossary.md from triage/glossary.toml, which pages show as tooltips: ``python -m scripts.glossary``."""

from __future__ import annotations

from triage.glossary import terms
from triage.places import ROOT

DOCUMENT = ROOT / "docs" / "glossary.md"


def document() -> str:
    made = "The words of the pages. Made from `triage/glossary.toml` by `python -m scripts.glossary`."
    lines = ["# Glossary", "", made, "", "| word | meaning |", "|---|---|"]
    lines += [f"| {term.title} | {term.meaning} |" for term in terms().values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
