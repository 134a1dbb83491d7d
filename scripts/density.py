"""``python -m scripts.density``: how dense the code of each package is, and whether a package is denser than allowed.

``scripts/density.toml`` holds the limits. They are what was reached, so that code gets no denser: a change that makes
code simpler lowers them with ``--tighten``, and nothing raises them.
"""

from __future__ import annotations

import argparse
import ast
import gc
import io
import math
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from radon.visitors import Class, ComplexityVisitor, Function

from triage.places import ROOT

LIMITS = Path(__file__).with_suffix(".toml")
MAX_COLUMNS = 100
MAX_COMPLEXITY = 15
#: A limit is a measured figure, rounded up to a multiple of this: a line more or less needs no new limit.
STEPS = {"decisions": 5, "nested": 2, "complex": 2, "worst_tenth": 0.5, "long_lines": 20, "cognitive": 2}
_DECIDES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class Density:
    """Of one package. ``decisions``: per 1,000 lines of code (no comments, docstrings or blank lines): ``if``, loops,
    ``and``/``or``, conditions of comprehensions, conditional expressions, ``except``, ``case``. ``nested``:
    comprehensions with two loops or in another one. ``complex``: functions that radon rates above 15.
    ``worst_tenth``: radon's mean of the worst tenth of all functions. ``long_lines``: lines above 100 columns.
    ``cognitive``: functions whose cognitive complexity is above 15: a decision counts once more for each one around it.
    """

    decisions: float
    nested: float
    complex: float
    worst_tenth: float
    long_lines: float
    cognitive: float


def measure(sources: Mapping[Path, str]) -> Density:
    """The figures of one package: about 0.05 s for 1,000 lines."""
    trees = [ast.parse(source) for source in sources.values()]
    nodes = [list(ast.walk(tree)) for tree in trees]
    code_lines = sum(map(_count_code_lines, sources.values(), nodes))
    decisions = sum(map(_count_decisions, nodes))
    ratings = sorted((rating for tree in trees for rating in _ratings(tree)), reverse=True)
    worst = ratings[: math.ceil(len(ratings) / 10)]
    return Density(
        decisions=1000 * decisions / max(code_lines, 1),
        nested=sum(map(_count_nested, nodes)),
        complex=sum(rating > MAX_COMPLEXITY for rating in ratings),
        worst_tenth=sum(worst) / max(len(worst), 1),
        long_lines=sum(map(_count_long_lines, sources.values())),
        cognitive=sum(_count_entangled(each) for each in nodes),
    )


def _count_code_lines(source: str, nodes: Sequence[ast.AST]) -> int:
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _count_decisions(nodes: Sequence[ast.AST]) -> int:
    count = 0
    for node in nodes:
        if isinstance(node, _DECIDES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += len(node.ifs)
    return count


def _count_nested(nodes: Sequence[ast.AST]) -> int:
    return sum(_is_nested(node) for node in nodes if isinstance(node, _COMPREHENSION))


def _is_nested(comprehension: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> bool:
    if len(comprehension.generators) > 1:
        return True
    inside = sum(isinstance(node, _COMPREHENSION) for node in ast.walk(comprehension))
    return inside > 1  # the first one is the comprehension itself


def _count_entangled(nodes: Sequence[ast.AST]) -> int:
    return sum(_cognitive(node.body) > MAX_COMPLEXITY for node in nodes if isinstance(node, _FUNCTION))


def _cognitive(nodes: Sequence[ast.AST], depth: int = 0) -> int:
    """The cognitive complexity of statements and expressions below ``depth`` decisions."""
    return sum(_cognitive_of(node, depth) for node in nodes)


def _cognitive_of(node: ast.AST, depth: int) -> int:
    if isinstance(node, ast.BoolOp):
        return 1 + _cognitive(node.values, depth)
    if isinstance(node, ast.If):
        return 1 + depth + _cognitive([node.test], depth) + _cognitive(node.body, depth + 1) + _other(node, depth)
    is_decision = isinstance(node, _DECIDES)
    deeper = depth + (is_decision or isinstance(node, (*_FUNCTION, ast.Lambda)))
    return is_decision * (1 + depth) + _cognitive(list(ast.iter_child_nodes(node)), deeper)


def _other(node: ast.If, depth: int) -> int:
    """Of ``elif`` and ``else``: they go on where the ``if`` is, and lie no deeper than it."""
    match node.orelse:
        case []:
            return 0
        case [ast.If() as following]:
            return _cognitive([following], depth) - depth
    return 1 + _cognitive(node.orelse, depth + 1)


def _count_long_lines(source: str) -> int:
    return sum(len(line) > MAX_COLUMNS for line in source.splitlines())


def _ratings(tree: ast.Module) -> Iterator[int]:
    """Radon's cyclomatic complexity of each function and method; a function inside another counts in both."""
    for block in ComplexityVisitor.from_ast(tree).blocks:
        functions = block.methods if isinstance(block, Class) else [block]
        for function in functions:
            yield from _ratings_within(function)


def _ratings_within(function: Function) -> Iterator[int]:
    yield function.complexity
    for closure in function.closures:
        yield from _ratings_within(closure)


def sources_of(package: str, others: list[str], root: Path = ROOT) -> dict[Path, str]:
    """The modules of a package, without those of packages inside it that have limits of their own."""
    own = [root / other for other in others if other.startswith(f"{package}/")]
    paths = sorted((root / package).rglob("*.py"))
    kept = [path for path in paths if not any(map(path.is_relative_to, own)) and "migrations" not in path.parts]
    return {path: path.read_text(encoding="utf-8") for path in kept}


def above(figures: Density, limits: Density) -> list[str]:
    """The names of the figures that are above their limits."""
    return [field.name for field in fields(Density) if getattr(figures, field.name) > getattr(limits, field.name)]


def tightened(figures: Density, limits: Density) -> Density:
    """The limits, lowered to the figures where these are lower."""
    lower = {}
    for name, step in STEPS.items():
        reached = step * math.ceil(getattr(figures, name) / step)
        lower[name] = min(reached, getattr(limits, name))
    return Density(**lower)


def _written(text: str, package: str, limits: Density) -> str:
    """The file of limits with other limits for one package."""
    row = ", ".join(f"{name} = {value:g}" for name, value in asdict(limits).items())
    return re.sub(rf'(?m)^"{re.escape(package)}" = .*$', f'"{package}" = {{ {row} }}', text)


def _print_row(package: str, figures: Density, excess: list[str]) -> None:
    cells = [f"{getattr(figures, name):>13.{1 if name == 'worst_tenth' else 0}f}" for name in STEPS]
    verdict = f"  above its limit: {', '.join(excess)}" if excess else ""
    print(f"{package:24}{''.join(cells)}{verdict}")


def main() -> int:
    """Print a row for each package; exit code 1 if one figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tighten", action="store_true", help="lower the limits to what is reached")
    options = parser.parse_args()
    gc.disable()  # trees have no cycles, and to look for some takes longer than to parse them
    text = LIMITS.read_text(encoding="utf-8")
    limits = {package: Density(**row) for package, row in tomllib.loads(text).items()}
    is_above = False
    print(" " * 24 + "".join(f"{name:>13}" for name in STEPS))
    for package, allowed in limits.items():
        figures = measure(sources_of(package, list(limits)))
        excess = above(figures, allowed)
        is_above = is_above or bool(excess)
        _print_row(package, figures, excess)
        text = _written(text, package, tightened(figures, allowed))
    if options.tighten:
        LIMITS.write_text(text, encoding="utf-8")
    return int(is_above)


if __name__ == "__main__":
    sys.exit(main())
