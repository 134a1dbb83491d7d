"""``Parsed`` on disk: ``parsed.json`` and its Parquet files in a directory, of one artifact or of several small."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from diagnosis.model import Parsed, Part, Source, kind_named

#: Increased when the meaning of any file in such a directory changes; stored ones of another version are parsed again.
FORMAT = 1
FILE_NAME = "parsed.json"
_TABLES = ("columns", "uniques", "occurrences")
#: what ``occurrences`` were called in stored directories until 0.2
_FORMER = "cells"
#: the artifacts of a directory that holds several
_TOGETHER = "together"


def save(parsed: Parsed, directory: Path) -> Path:
    """Writes ``parsed.json`` into ``directory``, moves the column files there; its path."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in _TABLES:
        file: Path | None = getattr(parsed, name)
        if file is not None and file.parent.resolve() != directory.resolve():
            file.replace(directory / file.name)
    return _write(_plain(parsed), directory)


def save_together(several: Sequence[Parsed], directory: Path) -> Path:
    """:func:`save` for artifacts with common tables, which lie in ``directory``. Each is loaded by its number."""
    return _write({_TOGETHER: [_plain(parsed) for parsed in several]}, directory)


def load(directory: Path, number: int | None = None) -> Parsed:
    """Reads what :func:`save` wrote, or ``number`` of :func:`save_together`.

    Raises ``FileNotFoundError`` without one, ``ValueError`` for another format's.
    """
    data = _read(directory)
    if number is None:
        return _parsed(data, directory, {})
    return _parsed(data[_TOGETHER][number], directory, {})


def load_together(directory: Path) -> list[Parsed]:
    """Reads all that :func:`save_together` wrote; raises like :func:`load`. Artifacts with a common
    table have one path object: a path computes its text and its hash once, and is pickled once.
    """
    places: dict[str, Path] = {}
    return [_parsed(data, directory, places) for data in _read(directory)[_TOGETHER]]


def _plain(value: Any) -> Any:
    """A record as what JSON has; a table by its name in the directory."""
    if isinstance(value, Path):
        return value.name
    assert isinstance(value, msgspec.Struct)
    return msgspec.structs.asdict(value)


def _write(data: dict[str, Any], directory: Path) -> Path:
    text = json.dumps({"format": FORMAT, **data}, ensure_ascii=False, sort_keys=True, default=_plain)
    target = directory / FILE_NAME
    part = directory / (FILE_NAME + ".part")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(target)
    return target


def _read(directory: Path) -> dict[str, Any]:
    data = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    if data.pop("format", None) != FORMAT:
        raise ValueError(f"{directory} was parsed by another version of the engine; parse the artifact again")
    return dict(data)


def _parsed(data: dict[str, Any], directory: Path, places: dict[str, Path]) -> Parsed:
    data["kind"] = kind_named(data["kind"])
    if _FORMER in data:
        data["occurrences"] = data.pop(_FORMER)
    data["notes"] = tuple(data["notes"])
    data["sources"] = tuple(Source(**source) for source in data["sources"])
    data["part"] = Part(**data["part"]) if data.get("part") else None
    for name in _TABLES:
        file = data.get(name)
        if file and file not in places:
            places[file] = directory / file
        data[name] = places[file] if file else None
    return Parsed(**data)
