"""Write the tables of ``docs/categories.md`` from the category tree, and the literals of the rules.

``python -m diagnosis.kinds.logs.meaning.signatures.describe docs`` rewrites what stands between the marks of the
document, and ``literals.json`` of :mod:`stored_literals`; a test fails when they are behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning.signatures.load import builtin
from diagnosis.kinds.logs.text import stored_literals
from diagnosis.knowledge import words
from diagnosis.knowledge.knowledge_files import table

#: The tables whose words are looked for in every log.
_WORDS = ("frameworks", "outcome", "phrases", "schedulers", "stages")
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def categories() -> str:
    """The tree as Markdown: one row a leaf, one heading a domain."""
    return "\n".join(_categories())


def insert_generated(text: str, generated: str) -> str:
    """``text`` with ``generated`` between its marks.

    Raises:
        ValueError: the text has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


def _categories() -> Iterator[str]:
    for node in taxonomy.load():
        if "." not in node.id:
            yield f"\n## {node.title}\n\n{node.explanation}\n"
            yield "| id | title | reported as | means | what to do |\n|---|---|---|---|---|"
        if node.is_leaf:
            pair = f"`{node.category}` / `{node.subcategory}`"
            yield f"| `{node.id}` | {node.title} | {pair} | {node.explanation} | {node.advice} |"


def shipped_patterns() -> Iterator[str]:
    """The patterns of the rules, of the words, and of the signs of reports."""
    for rule in builtin():
        yield from filter(None, (rule.pattern, rule.unless))
    for name in _WORDS:
        for word in words.load(name):
            yield from (word.pattern, words.pattern(name, word.id))
    yield from (one["sign"] for one in table("layouts", "diagnosis.kinds.states")["format"])


def main(folder: Path) -> None:
    """Rewrite the document in ``folder``, and the literals."""
    path = folder / "categories.md"
    path.write_text(insert_generated(path.read_text(encoding="utf-8"), categories()), encoding="utf-8")
    stored_literals.FILE.write_text(stored_literals.as_json(shipped_patterns()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
