"""The numbers by which the engine decides, from ``knowledge/thresholds*.toml``, each with its reason. And limits of
reading and listing, from ``knowledge/limits.toml``, which decide nothing. Thresholds are data so that one command can
move each of them and print the effect (``python -m lab.measure ablate --kind threshold``).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Final

#: The files of each set of tables. No two sections have one name.
FILES: Final = {
    "thresholds": ("thresholds", "thresholds_flows", "thresholds_joined", "thresholds_live", "thresholds_read"),
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
    folder = resources.files("diagnosis").joinpath("knowledge")
    texts = [folder.joinpath(f"{file}.toml").read_text(encoding="utf-8") for file in FILES[name]]
    return {section: Table(rows) for text in texts for section, rows in tomllib.loads(text).items()}


def of(section: str) -> Table:
    """The thresholds of a module, one shared object. Raises ``KeyError`` for an unknown section."""
    return _tables("thresholds")[section]


def limits(section: str) -> Table:
    """The limits of a module's reading and listing. Raises ``KeyError`` for an unknown section."""
    return _tables("limits")[section]


def sections() -> tuple[str, ...]:
    """The modules that decide by thresholds, in the order of the files."""
    return tuple(_tables("thresholds"))
