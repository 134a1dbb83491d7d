"""Names the rule that decides each line: ``python -m diagnosis.logs.signatures 'LINE' …``, with its role and its file.

For a line that is called harmless although it is the cause, or the other way round.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from diagnosis.logs import signatures


def deciding(line: str) -> str:
    """The id of the rule, its role, its category and the file with the rule; a sentence without a rule."""
    rules = signatures.load()
    found = rules.match_texts([line])[0] or ""
    rule = rules.rule(found)
    if rule is None:
        return "no rule matches"
    written = (found, found.rpartition(".")[0])  # the second of a rule with a table of codes, such as nvidia.xid.79
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        if any(f'id = "{name}"' in path.read_text(encoding="utf-8") for name in written):
            return f"{found}  {rule.role.value}  {rule.category}  {path.name}"
    return f"{found}  {rule.role.value}  {rule.category}"


def main(lines: Sequence[str]) -> None:
    """Print one row a line."""
    for line in lines:
        print(deciding(line))


if __name__ == "__main__":
    main(sys.argv[1:])
