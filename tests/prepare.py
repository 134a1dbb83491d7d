"""What all runs of tests share, made once before they begin together: ``python -m tests.prepare``.

A fresh checkout has no bytecode of its own modules, of the packages and of the tests with their rewritten assertions,
no compiled loops of the engine and no migrated database. Five processes that begin together would each make all of it.
Prints nothing if all is well; ends with status 1 if a module of the tests cannot be imported, or if no line makes one
of the loops compile.
"""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from scripts import compile as loops
from tests import migrated

FOLDERS = ("tests", "lab")


def main() -> str:
    """Returns '' or what went wrong."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-qqq", "-p", "no:cacheprovider", *FOLDERS])
    if status:
        return said.getvalue()
    migrated.make()
    missed = loops.main()
    return f"Nothing in scripts/compile.py calls {', '.join(missed)}" if missed else ""


if __name__ == "__main__":
    sys.exit(main() or 0)
