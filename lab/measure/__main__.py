"""Runs one measuring command: ``python -m lab.measure NAME [options]``; without a name it lists all of them."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path


def commands() -> dict[str, str]:
    """Name and first sentence of every command: a module of this folder with a ``main``."""
    found = {}
    for path in sorted(p for p in Path(__file__).parent.glob("*.py") if p.stem != "__main__"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    return found


def main() -> int:
    """Run the command that the first argument names."""
    known = commands()
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        print("python -m lab.measure NAME [options]\n")
        for name, text in known.items():
            print(f"  {name:14} {text}")
        return 2
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m lab.measure {name}"
    return importlib.import_module(f"lab.measure.{name}").main() or 0


if __name__ == "__main__":
    raise SystemExit(main())
