"""Reads the tables that are data: ``knowledge/*.toml``, and those beside a module that is their only
reader.

A text that was read once is kept beside the modules in a form that is read in a tenth of the time,
as Python keeps compiled modules.
"""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from diagnosis.knowledge import kept_files

_KEPT: Final = Path(__file__).parent / "__pycache__"


@cache
def table(name: str, package: str = "diagnosis.knowledge") -> Any:
    """The content of ``<name>.toml``, read once; nobody may change it. Raises ``FileNotFoundError``
    for a file that does not ship.
    """
    return parsed(resources.files(package).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def parsed(text: str) -> Any:
    """The content of a TOML text that ships. O(characters)."""
    place = _KEPT / f"{hashlib.sha256(text.encode()).hexdigest()}.kept"
    kept = kept_files.read(place)
    if kept is not None:
        return msgspec.msgpack.decode(kept)
    content = tomllib.loads(text)
    kept_files.write(place, msgspec.msgpack.encode(content))
    return content
