"""Every sentence that the product can say to a person: `python -m scripts.sentences [--longer-than WORDS]`.

Reads the texts of the modules and of the templates; what is filled in later is “…”. To be read from top to bottom by
somebody who sees only this list.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("diagnosis", "ingest", "triage")
#: Fewer words are names, not sentences.
MIN_WORDS: Final = 5
_END: Final = re.compile(r"(?<=[.!?;:]) ")
_TAG: Final = re.compile(r"<[^<>]*>")
_PLACE: Final = re.compile(r"\{\{[^{}]*\}\}")
_CODE: Final = re.compile(r"\{%[^%]*%\}|\{#[^#]*#\}")
_BLOCK_END: Final = re.compile(r"</(?:p|li|td|th|h\d|dt|dd|summary|option|button|div|label|span|pre|code|a|b)>")
#: What patterns, markup and programs have, and sentences do not.
_OTHER: Final = re.compile(r"\(\?|\\[bdsw]|<[a-z/!]|\n.*\n")


class Sentence(NamedTuple):
    """A sentence or a clause up to a colon or semicolon, and the file that says it."""

    path: Path
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())


def sentences() -> list[Sentence]:
    """All of them, by file. About a second of CPU."""
    modules = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    said = [(path, text) for path in modules if "migrations" not in path.parts for text in _texts_of_module(path)]
    pages = sorted((ROOT / "templates").rglob("*.html"))
    said += [(path, text) for path in pages for text in _texts_of_page(path.read_text(encoding="utf-8"))]
    parts = [Sentence(path, part) for path, text in said for part in _END.split(" ".join(text.split()))]
    return [sentence for sentence in parts if sentence.words >= MIN_WORDS]


def _texts_of_module(path: Path) -> Iterator[str]:
    """Its texts without documentation; of a formatted one the whole."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    seen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in seen:
            continue
        text = ""
        if isinstance(node, ast.JoinedStr):
            seen.update(id(inner) for inner in ast.walk(node))
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if text and not _OTHER.search(text):
            yield text


def _texts_of_page(page: str) -> Iterator[str]:
    """The texts of a template's blocks."""
    shown = _BLOCK_END.sub("\n\n", _PLACE.sub("…", _CODE.sub("\n\n", page)))
    yield from _TAG.sub(" ", shown).split("\n\n")


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--longer-than", type=int, default=0, metavar="WORDS")
    most = parser.parse_args().longer_than
    for sentence in sentences():
        if sentence.words > most:
            print(f"{sentence.path.relative_to(ROOT)}: {sentence.text}")


if __name__ == "__main__":
    main()
