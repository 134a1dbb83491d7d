"""Write the tables of ``docs/categories.md`` from the category tree, and the literals of the rules.

``python -m diagnosis.kinds.logs.meaning.signatures.describe docs`` rewrites what stands between the marks of the
document, and ``literals.json`` beside the rules; a test fails when they are behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning.signatures import stored_literals
from diagnosis.kinds.logs.meaning.signatures.load import builtin

LITERALS = Path(__file__).with_name("literals.json")
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


def main(folder: Path) -> None:
    """Rewrite the document in ``folder``, and the literals."""
    path = folder / "categories.md"
    path.write_text(insert_generated(path.read_text(encoding="utf-8"), categories()), encoding="utf-8")
    LITERALS.write_text(stored_literals.as_json(rule.pattern for rule in builtin()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
