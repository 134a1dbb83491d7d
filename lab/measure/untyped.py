"""How much of the engine is untyped: annotations of dictionaries without types, and reads by string key, a package.

An annotation is `dict[str, Any]` or the same of `Mapping` and `MutableMapping`, `object` instead of `Any` included. A
read is `row["key"]` or `row.get("key")`. It prints one line a package of `diagnosis`, the most annotations first.
`untyped.toml` beside it has the reason of each annotation.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: Why each is left.
REASONS: Final = Path(__file__).with_suffix(".toml")
_MAPPINGS: Final = ("dict", "Mapping", "MutableMapping")
_WITHOUT_TYPE: Final = ("Any", "object")


def is_untyped(node: ast.AST) -> bool:
    """Whether a node is the annotation of a dictionary of strings to anything."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id not in _MAPPINGS:
        return False
    names = [part.id for part in ast.walk(node.slice) if isinstance(part, ast.Name)]
    return len(names) == 2 and names[0] == "str" and names[1] in _WITHOUT_TYPE


def is_key_read(node: ast.AST) -> bool:
    """Whether a node reads a dictionary by a string that the code states."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and _is_text(node.slice)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "get" and bool(node.args) and _is_text(node.args[0])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def package_of(path: Path) -> str:
    """The package that a module of the engine is counted with: below ``kinds`` the kind, else the first folder."""
    parts = path.relative_to(ROOT).parts[:-1]
    return ".".join(parts[:3] if parts[1:2] == ("kinds",) else parts[:2])


def nodes_of(path: Path) -> Iterator[ast.AST]:
    """All nodes of a module's syntax tree."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def main() -> int:
    """Annotations and reads of each package, and of all of them."""
    annotations: Counter[str] = Counter()
    reads: Counter[str] = Counter()
    for path in sorted((ROOT / "diagnosis").rglob("*.py")):
        package = package_of(path)
        for node in nodes_of(path):
            annotations[package] += is_untyped(node)
            reads[package] += is_key_read(node)
    print(f"{'package':28}{'untyped':>9}{'reads by key':>14}")
    for package, count in annotations.most_common():
        print(f"{package:28}{count:9}{reads[package]:14}")
    print(f"{'all':28}{annotations.total():9}{reads.total():14}")
    return 0
