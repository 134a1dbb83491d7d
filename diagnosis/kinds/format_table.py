"""The table of all formats that are read, for ``python -m diagnosis formats`` and ``docs/formats.md``."""

from __future__ import annotations

from diagnosis.kinds.evidence_kind import Format
from diagnosis.kinds.kind_table import TABLE
from diagnosis.values.plain import visible

_EXAMPLE_CHARACTERS = 60


def as_markdown() -> str:
    """One row a format: the kind, the format, what is concluded, how an example begins."""
    lines = ["| kind | format | what is concluded | an example begins |", "|---|---|---|---|"]
    for kind in TABLE:
        for one in kind.formats():
            cells = (kind.name, one.title, one.concludes, _beginning(one))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _beginning(one: Format) -> str:
    first = visible(one.example.strip().split("\n", 1)[0])[:_EXAMPLE_CHARACTERS]
    return f"`{first}`" if first else ""
