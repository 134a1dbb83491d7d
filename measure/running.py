"""Runs the engine over a job's evidence outside any server: what the measuring programs of this folder share."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from diagnosis.model import Parsed, ParseHints, ReadRange
from diagnosis.parsing import parse

SHARED = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def members(source: Path) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every file in a directory, a zip, a tar or of one file; in order of path."""
    if source.is_dir():
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            yield path.relative_to(source).as_posix(), path.read_bytes()
    elif source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            for name in sorted(n for n in archive.namelist() if not n.endswith("/")):
                yield name, archive.read(name)
    elif ".tar" in source.name:
        with tarfile.open(source) as archive:
            for member in sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name):
                stream = archive.extractfile(member)
                if stream is not None:
                    yield member.name, stream.read()
    else:
        yield source.name, source.read_bytes()


def read_job(source: Path, work: Path, only: str = "") -> tuple[list[Parsed], ReadRange]:
    """Parse every member (those whose path contains ``only``); returns the artifacts and a reader of their bytes."""
    held: dict[str, bytes] = {}
    parsed = []
    for number, (path, data) in enumerate(members(source)):
        if only and only not in path:
            continue
        held[path] = data
        parsed.append(parse(io.BytesIO(data), path, ParseHints(), work / f"{number:05d}"))

    def read(path: str, offset: int, length: int) -> bytes:
        return held[path][offset : offset + length]

    return parsed, read
