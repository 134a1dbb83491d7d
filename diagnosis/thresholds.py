"""The numbers by which the engine decides, from ``knowledge/thresholds*.toml``, each with its reason. And limits of
reading and listing, from ``knowledge/limits.toml``, which decide nothing. Thresholds are data so that one command can
move each of them and print the effect (``python -m lab.measure ablate --kind threshold``).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from diagnosis.knowledge.knowledge_files import table

#: The files of each set of tables. No two sections have one name.
FILES: Final = {
    "thresholds": (
        "thresholds",
        "thresholds_flows",
        "thresholds_flow_steps",
        "thresholds_joined",
        "thresholds_live",
        "thresholds_read",
    ),
    "limits": ("limits",),
}


class Table:
    """The thresholds of one module as attributes. Raises ``AttributeError`` for an unknown one."""

    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self.__dict__.update({name: row["value"] for name, row in rows.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the table has no {name!r}")


@cache
def _tables(name: str) -> dict[str, Table]:
    tables = map(table, FILES[name])
    return {section: Table(rows) for sections in tables for section, rows in sections.items()}


def of(section: str) -> Table:
    """The thresholds of a module, one shared object. Raises ``KeyError`` for an unknown section."""
    return _tables("thresholds")[section]


def limits(section: str) -> Table:
    """The limits of a module's reading and listing. Raises ``KeyError`` for an unknown section."""
    return _tables("limits")[section]


def sections() -> tuple[str, ...]:
    """The modules that decide by thresholds, in the order of the files."""
    return tuple(_tables("thresholds"))
