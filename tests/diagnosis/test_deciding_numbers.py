"""The numbers by which deciding modules decide are in ``diagnosis/knowledge/``, each with its reason.

A number with a fraction may stand nowhere in a deciding module, a whole one not where it is compared, calculated with
or named. Free are 0, 1, 2, factors between units, guards against a division by zero, exponents, digits of ``round`` and
the bounds of reading and memory, which decide nothing: whole constants named ``MAX_…``, ``…_BYTES`` or ``…_CHARS``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ENGINE: Final = Path(__file__).resolve().parents[2] / "diagnosis"
PACKAGES: Final = (
    "kinds/logs/causes",
    "kinds/logs/compare",
    "kinds/logs/decide",
    "kinds/logs/meaning",
    "kinds/logs/pace",
    "kinds/logs/rows",
    "kinds/flows/slow",
    "kinds/flows/tell",
    "kinds/stacks/blame",
    "conclusion",
    "joining",
    "live/watches",
)
#: What reads and recognises: so many numbers still stand in its code. Nobody raises them.
LEFT: Final = {
    "kinds/flows/jobs": 141,
    "kinds/flows/steps": 87,
    "kinds/stacks/ranks": 0,
    "kinds/states": 3,
    "kinds/checks": 2,
    "kinds/descriptions": 1,
    "kinds/documents": 1,
    "live": 18,
}
MODULES: Final = ("advising/advice.py", "kinds/logs/classifying/classify.py")
FREE: Final = frozenset({0, 1, 2})
#: Seconds, minutes and hours; nanoseconds; thousandths; hundredths; nanoseconds of an hour.
UNITS: Final = frozenset({24, 60, 3600, 1e9, 1000, 1_000_000, 1e-3, 100, 3.6e12})
MAX_GUARD: Final = 1e-6
BOUND: Final = re.compile(r"_?MAX_|.*_(?:BYTES|CHARS)$")


def numbers(source: str) -> list[str]:
    """``line: number`` of each number of a module that belongs to ``knowledge/``."""
    return [f"{line}: {value}" for line, value in _numbers(ast.parse(source))]


def _numbers(module: ast.Module) -> Iterator[tuple[int, float]]:
    constants = [node.value for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    bounds = {id(node.value) for node in module.body if _is_bound(node)}
    for parent in ast.walk(module):
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, ast.Constant) or type(node.value) not in (int, float) or id(node) in bounds:
                continue
            value = abs(node.value)
            is_free = value in FREE or value in UNITS or value <= MAX_GUARD or _is_form(parent)
            is_decision = isinstance(parent, ast.Compare | ast.BinOp) or any(node is one for one in constants)
            if not is_free and (is_decision or isinstance(node.value, float)):
                yield node.lineno, node.value


def _is_bound(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return isinstance(node.value.value, int) and bool(BOUND.match(ast.unparse(target)))


def _is_form(parent: ast.AST) -> bool:
    """An exponent or a power of two, or the digits of ``round``."""
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Pow | ast.LShift)
    return isinstance(parent, ast.Call) and ast.unparse(parent.func) == "round"


def test_deciding_modules_hold_no_number_of_their_own() -> None:
    paths = [path for package in PACKAGES for path in sorted((ENGINE / package).rglob("*.py"))]
    paths += [ENGINE / module for module in MODULES]
    found = {path.relative_to(ENGINE).as_posix(): numbers(path.read_text("utf-8")) for path in paths}
    assert {path: rows for path, rows in found.items() if rows} == {}


@pytest.mark.parametrize(("package", "count"), LEFT.items())
def test_what_recognises_gets_no_more_numbers_of_its_own(package: str, count: int) -> None:
    sources = [path.read_text("utf-8") for path in (ENGINE / package).rglob("*.py")]
    assert sum(len(numbers(source)) for source in sources) <= count


@pytest.mark.parametrize(
    "source",
    [
        "ok = n > 3",
        "x = 0.5",
        "def f(p=0.9): ...",
        "yield_ = Clue(node, 0.85)",
        "LEAST = 12",
        "y = 4 * n",
        "T = (1, 0.3)",
    ],
)
def test_a_number_that_decides_is_found(source: str) -> None:
    assert len(numbers(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "MAX_FILES = 512",
        "READ_BYTES: Final = 4096",
        "x = max(y, 1e-9)",
        "x = round(y, 4)",
        "x = 1 << 20",
        "h = s / 3600",
    ],
)
def test_a_bound_a_guard_and_a_unit_are_free(source: str) -> None:
    assert numbers(source) == []
