"""Names the rule that decides each line: ``python -m diagnosis.kinds.logs.meaning.signatures 'LINE' …``, with its role,
its category, its file and its line.

For a line that is called harmless although it is the cause, or the other way round.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from diagnosis.kinds.logs.meaning import signatures


def deciding_rule(line: str) -> str:
    """The id of the rule, its role, its category, and the file and line with the rule; a sentence without a rule. A row
    of a table of codes, such as nvidia.xid.79, has its own place.
    """
    rules = signatures.load()
    found = rules.match_texts([line])[0] or ""
    rule = rules.rule(found)
    if rule is None:
        return "no rule matches"
    return "  ".join((found, rule.role.value, rule.category, *_places(found)))


def _places(found: str) -> Iterator[str]:
    """``file:line`` of the rule; for a code of a table, of its row, and then of the rule that reads the table."""
    of_rule, _, code = found.rpartition(".")
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        rows = path.read_text(encoding="utf-8").splitlines()
        for number, row in enumerate(rows, 1):
            if row == f'id = "{found}"':
                yield f"{path.name}:{number}"
            elif row == f'id = "{of_rule}"':
                tables = [after.split('"')[1] for after in rows[number:] if after.startswith("codes = ")]
                yield from _row_of(path.with_name(tables[0]), code)
                yield f"{path.name}:{number}"


def _row_of(table: Path, code: str) -> Iterator[str]:
    for number, row in enumerate(table.read_text(encoding="utf-8").splitlines(), 1):
        if row.startswith(f"{code},"):
            yield f"{table.name}:{number}"


def main(lines: Sequence[str]) -> None:
    """Print one row a line."""
    for line in lines:
        print(deciding_rule(line))


if __name__ == "__main__":
    main(sys.argv[1:])
