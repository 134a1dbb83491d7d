"""What counts as an untyped dictionary, and as a read by key."""

from __future__ import annotations

import ast

import pytest

from lab.measure.untyped import is_key_read, is_untyped


def counted(line: str) -> tuple[int, int]:
    nodes = list(ast.walk(ast.parse(line)))
    return sum(map(is_untyped, nodes)), sum(map(is_key_read, nodes))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("def f(row: dict[str, Any]) -> Mapping[str, object]: ...", (2, 0)),
        ("rows: list[dict[str, Any]] = []", (1, 0)),
        ("sizes: dict[str, int] = {}", (0, 0)),
        ('name = row["name"] or row.get("title") or row[0] or row.get(key)', (0, 2)),
        ('row["name"] = 1', (0, 0)),
    ],
)
def test_a_dictionary_without_types_and_a_read_by_a_stated_key_are_counted(line: str, found: tuple[int, int]) -> None:
    assert counted(line) == found
