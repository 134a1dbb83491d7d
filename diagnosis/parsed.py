"""``Parsed`` on disk: ``parsed.json`` and its Parquet files, one directory an artifact."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diagnosis.model import Parsed, Source, kind_named

#: Increased when the meaning of any file in such a directory changes; stored ones of another version are parsed again.
FORMAT = 1
FILE_NAME = "parsed.json"
_TABLES = ("columns", "uniques", "cells")


def save(parsed: Parsed, directory: Path) -> Path:
    """Writes ``parsed.json`` into ``directory``, where its column files already lie (or are moved to); returns its
    path.
    """
    directory.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = asdict(parsed)
    data["format"] = FORMAT
    data["kind"] = str(parsed.kind)
    for name in _TABLES:
        file: Path | None = getattr(parsed, name)
        if file is not None and file.parent.resolve() != directory.resolve():
            file.replace(directory / file.name)
        data[name] = file.name if file is not None else None
    target = directory / FILE_NAME
    part = directory / (FILE_NAME + ".part")
    part.write_text(json.dumps(data, ensure_ascii=False, sort_keys=True), encoding="utf-8", errors="replace")
    part.replace(target)
    return target


def load(directory: Path) -> Parsed:
    """Reads what :func:`save` wrote. Raises ``FileNotFoundError`` without one, ``ValueError`` for another format's."""
    data = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    if data.pop("format", None) != FORMAT:
        raise ValueError(f"{directory} was parsed by another version of the engine; parse the artifact again")
    data["kind"] = kind_named(data["kind"])
    data["notes"] = tuple(data["notes"])
    data["sources"] = tuple(Source(**source) for source in data["sources"])
    for name in _TABLES:
        data[name] = directory / data[name] if data.get(name) else None
    return Parsed(**data)
