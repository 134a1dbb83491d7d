"""The changes that the tests of deciding modules must notice."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from lab.measure.mutations import mutations

ROOT = Path(__file__).resolve().parents[3]


def changed(body: str, returns: str = "int") -> set[str]:
    """The bodies of a function after each change."""
    source = f"def f(a, b) -> {returns}:\n    {body}\n"
    return {one.apply(source).splitlines()[1].strip() for one in mutations(source)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a in b", {"x = (a not in b)"}),
        ("x = a and b", {"x = ((a) or (b))", "x = ((a))", "x = ((b))"}),
        ("x = a & b", {"x = ((a) | (b))", "x = ((a))", "x = ((b))"}),
        ("x = not a", {"x = (a)"}),
        ("x = 6", {"x = (12)", "x = (3)"}),
        ("x = 0", {"x = (1)"}),
        ("if a: pass", {"if (True): pass", "if (False): pass"}),
        ("a.append(b)", {"(None)"}),
        ("x += b", {"(None)"}),
        ("return a", {"return (None)"}),
    ],
)
def test_each_operator_makes_its_changes(body: str, expected: set[str]) -> None:
    assert changed(body) == expected


def test_a_function_of_bool_returns_either() -> None:
    assert changed("return a", "bool") == {"return (True)", "return (False)"}


def test_rows_of_knowledge_are_moved_and_texts_for_people_are_not() -> None:
    assert len(changed("x = THRESHOLDS.least")) == 2
    assert changed('x = f"{a + 1} nodes"') == set()


def test_every_change_of_the_modules_can_be_compiled_and_keeps_the_lines() -> None:
    table = tomllib.loads((ROOT / "lab/measure/mutants.toml").read_text("utf-8"))
    for module, tests in table["tests"].items():
        source = (ROOT / module).read_text("utf-8")
        for one in list(mutations(source))[::10]:
            text = one.apply(source)
            ast.parse(text)
            assert len(text.splitlines()) == len(source.splitlines())
        assert all((ROOT / test).exists() for test in tests)
