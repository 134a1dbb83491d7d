"""Reads the tables that are data: ``knowledge/*.toml``, and those beside a module that is their only
reader.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def table(name: str, package: str = "diagnosis.knowledge") -> Any:
    """The content of ``<name>.toml``, read once; nobody may change it. Raises ``FileNotFoundError``
    for a file that does not ship.
    """
    return tomllib.loads(resources.files(package).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
