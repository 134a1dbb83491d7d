"""The density of code is counted as a reader counts it, and its limits can only be lowered."""

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.density import Density, above, measure, sources_of, tightened

LOOSE = Density(decisions=400, nested=10, complex=10, worst_tenth=20, long_lines=100, cognitive=10)


def figures_of(source: str) -> Density:
    return measure({Path("module.py"): source})


@pytest.mark.parametrize(
    "line",
    [
        "if a: pass",
        "while a: pass",
        "for a in b: pass",
        "a or b",
        "a if b else c",
        "[a for a in b if a]",
        "match a:\n    case 1: pass",
        "try: pass\nexcept ValueError: pass",
    ],
)
def test_each_kind_of_decision_is_counted_once(line: str) -> None:
    code_lines = line.count("\n") + 1
    assert figures_of(line).decisions == 1000 / code_lines


def test_comments_docstrings_and_blank_lines_are_no_lines_of_code() -> None:
    source = '"""What it\ndoes."""\n\n# why\nif a:\n    pass\n'
    assert figures_of(source).decisions == 1000 / 2


@pytest.mark.parametrize("source", ["[a for b in c for a in b]", "[[a for a in b] for b in c]"])
def test_a_comprehension_with_two_loops_or_in_another_one_is_nested(source: str) -> None:
    assert figures_of(source).nested == 1


def test_two_comprehensions_side_by_side_are_not_nested() -> None:
    assert figures_of("[a for a in b], [c for c in d]").nested == 0


def test_conditions_inside_expressions_make_a_function_complex() -> None:
    choices = " or ".join("abcdefghijklmnop")
    figures = figures_of(f"def chosen():\n    return {choices}\n")
    assert (figures.complex, figures.worst_tenth) == (1, 16)


def test_decisions_within_decisions_are_hard_to_follow_and_those_in_turn_are_not() -> None:
    within = "".join("    " * n + f"{word} a:\n" for n, word in enumerate(["if", "while", "if", "while", "if"], 1))
    in_turn = "    if a:\n        b()\n" * 15
    chain = "    if a:\n        b()\n" + "    elif a:\n        b()\n" * 14
    assert figures_of(f"def f():\n{within}{' ' * 24}b()\n").cognitive == 0  # 1 + 2 + 3 + 4 + 5
    assert figures_of(f"def f():\n{within}{' ' * 24}b() or c()\n").cognitive == 1
    assert figures_of(f"def f():\n{in_turn}").cognitive == 0
    assert figures_of(f"def f():\n{chain}").cognitive == 0
    assert figures_of(f"def f():\n{chain}    else:\n        b()\n").cognitive == 1


def test_a_line_of_101_columns_is_long() -> None:
    assert figures_of(f"'{'a' * 98}'\n'{'a' * 99}'\n").long_lines == 1


def test_a_package_with_limits_of_its_own_is_not_counted_in_the_outer_one(tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "here.py").touch()
    (tmp_path / "outer" / "inner" / "there.py").touch()

    outer = sources_of("outer", ["outer", "outer/inner"], tmp_path)

    assert [path.name for path in outer] == ["here.py"]


def test_a_figure_above_its_limit_is_named() -> None:
    assert above(replace(LOOSE, nested=11), LOOSE) == ["nested"]


def test_limits_are_lowered_to_what_is_reached_and_never_raised() -> None:
    figures = Density(decisions=231, nested=99, complex=3, worst_tenth=12.2, long_lines=100, cognitive=7)

    limits = tightened(figures, LOOSE)

    assert limits == Density(decisions=235, nested=10, complex=4, worst_tenth=12.5, long_lines=100, cognitive=8)
