"""Runs one measuring command: ``python -m measure NAME [options]``; without a name it lists all of them."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

#: Modules of this folder that others use and that print nothing.
_HELPERS = ("__init__", "__main__", "desk_data", "running", "score", "site", "withheld")


def commands() -> dict[str, str]:
    """Name and first sentence of every command."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in _HELPERS:
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            found[path.stem] = " ".join(text.partition("\n\n")[0].split())
    return found


def main() -> int:
    """Run the command that the first argument names."""
    known = commands()
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        print("python -m measure NAME [options]\n")
        for name, text in known.items():
            print(f"  {name:14} {text}")
        return 2
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m measure {name}"
    return importlib.import_module(f"measure.{name}").main() or 0


if __name__ == "__main__":
    raise SystemExit(main())
