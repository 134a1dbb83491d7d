"""Reads the tables that are data: ``knowledge/*.toml``, and those beside a module that is their only
reader.

A text that was read once is kept beside the modules in a form that is read in a tenth of the time,
as Python keeps compiled modules.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from diagnosis.knowledge import kept_files

_KEPT: Final = Path(__file__).parent / "__pycache__"


@cache
def table(name: str, package: str = "diagnosis.knowledge") -> Any:
    """The content of ``<name>.toml``, read once, unchanged. Raises ``FileNotFoundError``."""
    return parsed(resources.files(package).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def records[Kind](kind: type[Kind], rows: Any, flags: int = 0) -> tuple[Kind, ...]:
    """Rows of a table as records: a row has the fields of ``kind``, those with a default may be
    missing; patterns are compiled with these ``flags``. Raises ``msgspec.ValidationError`` for a
    row that lacks a field. O(rows).
    """
    compiled = partial(_compiled, flags)
    return tuple(msgspec.convert(row, kind, dec_hook=compiled) for row in rows)


def _compiled(flags: int, kind: type, text: str) -> re.Pattern[str]:
    """The only type of a field that no table can state."""
    return re.compile(text, flags)


def parsed(text: str) -> Any:
    """The content of a TOML text that ships. O(characters)."""
    place = _KEPT / f"{hashlib.sha256(text.encode()).hexdigest()}.kept"
    kept = kept_files.read(place)
    if kept is not None:
        return msgspec.msgpack.decode(kept)
    content = tomllib.loads(text)
    kept_files.write(place, msgspec.msgpack.encode(content))
    return content
