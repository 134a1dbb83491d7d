"""Explains the words of the pages: ``glossary.toml``, shown as tooltips and on ``/glossary/``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("glossary.toml")


class Term(NamedTuple):
    """One word: its id in addresses, its spelling, its meaning."""

    id: str
    title: str
    meaning: str


@cache
def terms() -> dict[str, Term]:
    """All terms by id, in alphabetical order."""
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))["term"]
    return {row["id"]: Term(**row) for row in sorted(rows, key=lambda row: row["title"].casefold())}
