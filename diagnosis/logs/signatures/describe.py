"""Write the tables of ``docs/categories.md`` and ``docs/signatures.md`` from the rules and the category tree, and the
literals of the rules.

``python -m diagnosis.logs.signatures.describe docs`` rewrites what stands between the marks of both documents, and
``literals.json`` beside the rules; a test fails when they are behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from diagnosis import taxonomy
from diagnosis.logs.signatures import literals
from diagnosis.logs.signatures.load import AREAS, builtin
from diagnosis.logs.signatures.model import Signature

LITERALS = Path(__file__).with_name("literals.json")
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def categories() -> str:
    """The tree as Markdown: one row a leaf, one heading a domain."""
    return "\n".join(_categories())


def rules() -> str:
    """The rules as Markdown, in the order in which they are tried, one table an area."""
    return "\n".join(_rules())


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


def _rules() -> Iterator[str]:
    tables: dict[tuple[str, ...], str] = {}
    for area in AREAS:
        yield f"\n### {area}.toml\n"
        yield "| id | matches when | role | category | example | wording from |\n|---|---|---|---|---|---|"
        for rule in (rule for rule in builtin() if rule.area == area):
            yield _row(rule)
            first = tables.setdefault(tuple(rule.codes), rule.id) if rule.codes else rule.id
            if first != rule.id:
                where = f"`{rule.category}` | codes of `{first}` | |"
                yield f"| `{rule.id}.…` | the same codes | {rule.role} | {where}"
                continue
            for number, code in rule.codes.items():
                where = f"`{code.category}` | code {number} | |"
                yield f"| `{code.id}` | {code.title} | {code.role} | {where}"


def _row(rule: Signature) -> str:
    strength = f", {rule.strength}" if rule.role == "root" else ""
    also = "".join(f", `{name}`" for name in rule.also)
    example = rule.examples[0] if len(rule.examples[0]) <= 110 else rule.examples[0][:109] + "…"
    quoted = example.strip().replace("|", "\\|").replace("`", "'")
    return (
        f"| `{rule.id}` | {rule.title} | {rule.role}{strength} | `{rule.category}`{also} | `{quoted}` | {rule.source} |"
    )


def main(folder: Path) -> None:
    """Rewrite both documents in ``folder``, and the literals."""
    for name, generated in (("categories.md", categories()), ("signatures.md", rules())):
        path = folder / name
        path.write_text(insert_generated(path.read_text(encoding="utf-8"), generated), encoding="utf-8")
    LITERALS.write_text(literals.as_json(rule.pattern for rule in builtin()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
