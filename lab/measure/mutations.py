"""Small changes of a module's source, one at a time, for `python -m lab.measure mutants`.

The operators:

- ``boundary``: ``<`` becomes ``<=``, ``>=`` becomes ``>``, …
- ``comparison``: the opposite: ``<`` becomes ``>=``, ``==`` ``!=``, ``in`` ``not in``, ``is`` ``is not``
- ``connective``: ``and`` becomes ``or``, ``&`` ``|``, and the reverse
- ``operand``: one operand of ``and``, ``or``, ``&``, ``|`` is dropped
- ``negation``: ``not x`` and ``~x`` become ``x``
- ``condition``: what ``if`` asks is always true, or never; the same of ``a if b else c``
- ``number``: a number, or a row of ``knowledge/``, is doubled or halved; 0 becomes 1, 1 becomes 2
- ``arithmetic``: ``+`` becomes ``-``, ``*`` ``/``, and the reverse
- ``result``: a function returns None, a function of bool True or False
- ``call``: a statement that only calls a function, or adds to a variable, is removed
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BOUNDARIES: Final = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_OPPOSITES: Final = {
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_OTHER_CONNECTIVES: Final = {ast.And: "or", ast.Or: "and", ast.BitAnd: "|", ast.BitOr: "&"}
_OTHER_ARITHMETIC: Final = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
#: Names of the tables of ``knowledge/`` in the modules.
_TABLES: Final = ("THRESHOLDS",)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change. ``begin``, ``end``: the bytes of the source that ``text`` replaces; ``first_line``, ``last_line``:
    the statement that it changes, from 1."""

    operator: str
    begin: int
    end: int
    text: str
    first_line: int
    last_line: int

    def apply(self, source: str) -> str:
        """The source with this change, of as many lines."""
        data = source.encode()
        lost = data[self.begin : self.end].count(b"\n") - self.text.count("\n")
        text = self.text[:-1] + "\n" * lost + self.text[-1:] if self.text.endswith(")") else self.text
        return (data[: self.begin] + text.encode() + data[self.end :]).decode()

    def diff(self, source: str) -> list[str]:
        """The lines that it removes and adds."""
        before, after = (text.splitlines() for text in (source, self.apply(source)))
        rows = difflib.unified_diff(before, after, lineterm="", n=0)
        return [row for row in list(rows)[3:] if row.strip("+- ")]


class _Finder(ast.NodeVisitor):
    """Collects the mutations of one module."""

    def __init__(self, source: str) -> None:
        lines = source.encode().splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._statement: ast.stmt | None = None
        self._returned = ""
        self._depth = 0
        self.found: list[Mutation] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement = node
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._in_function(node, node.body, ast.unparse(node.returns) if node.returns else "")

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._in_function(node, [node.body], "")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts for people are not changed."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """What is only asserted is not changed."""

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            kind = type(node.ops[0])
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            for operator, table in (("boundary", _BOUNDARIES), ("comparison", _OPPOSITES)):
                if kind in table:
                    self._add(operator, node, f"{left} {table[kind]} {right}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        texts = [f"({ast.unparse(value)})" for value in node.values]
        self._add("connective", node, f" {_OTHER_CONNECTIVES[type(node.op)]} ".join(texts))
        word = " and " if isinstance(node.op, ast.And) else " or "
        for place in range(len(texts)):
            self._add("operand", node, word.join(texts[:place] + texts[place + 1 :]))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right = f"({ast.unparse(node.left)})", f"({ast.unparse(node.right)})"
        if type(node.op) in _OTHER_CONNECTIVES:
            self._add("connective", node, f"{left} {_OTHER_CONNECTIVES[type(node.op)]} {right}")
            self._add("operand", node, left)
            self._add("operand", node, right)
        elif type(node.op) in _OTHER_ARITHMETIC and not isinstance(node.left, ast.JoinedStr):
            self._add("arithmetic", node, f"{left} {_OTHER_ARITHMETIC[type(node.op)]} {right}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert):
            self._add("negation", node, ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        for value in ("True", "False"):
            self._add("condition", node.test, value)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        for value in ("True", "False"):
            self._add("condition", node.test, value)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) not in (int, float):
            return
        if node.value in (0, 1):
            self._add("number", node, repr(node.value + 1))
            return
        half = node.value // 2 if isinstance(node.value, int) else node.value / 2
        for value in (node.value * 2, half):
            self._add("number", node, repr(value))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in _TABLES:
            text = ast.unparse(node)
            self._add("number", node, f"{text} * 2")
            self._add("number", node, f"type({text})({text} / 2)")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            for value in ("True", "False") if self._returned == "bool" else ("None",):
                self._add("result", node.value, value)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add("call", node.value, "None")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("call", node, "None")
        self.generic_visit(node)

    def _in_function(self, node: ast.AST, body: list[ast.stmt] | list[ast.expr], returned: str) -> None:
        outer, self._returned = self._returned, returned
        self._depth += 1
        for child in body:
            self.visit(child)
        self._depth -= 1
        self._returned = outer

    def _add(self, operator: str, node: ast.expr | ast.stmt, text: str) -> None:
        if not self._depth or self._statement is None:
            return  # values of modules and classes are read when they are imported: no change reaches them
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        first, last = self._statement.lineno, self._statement.end_lineno or self._statement.lineno
        if isinstance(self._statement, ast.If):  # without the statements below it
            last = self._statement.test.end_lineno or first
        self.found.append(Mutation(operator, begin, end, f"({text})", first, last))


def mutations(source: str) -> Iterator[Mutation]:
    """All changes of a module's functions, in order of the source. Linear in the source."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    yield from sorted(set(finder.found), key=lambda one: (one.begin, one.end, one.operator, one.text))
