"""Evidence outside any server: files of a directory or archive, parsed once, and a reader of their bytes."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from diagnosis.files import parsed as parsed_files
from diagnosis.files.parsing import parse
from diagnosis.model import Kind, Parsed, ParseHints, ReadRange

SHARED = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


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


def reader(files: Mapping[str, bytes]) -> ReadRange:
    """Bytes of a file by path, offset and length."""

    def read(path: str, offset: int, length: int) -> bytes:
        return files[path][offset : offset + length]

    return read


def parse_files(
    files: Mapping[str, bytes], work: Path, *, kind: Kind | None = None, is_kept: bool = False
) -> tuple[list[Parsed], ReadRange]:
    """Every file parsed below ``work``, and a reader of their bytes. ``is_kept``: results of an earlier call in
    ``work`` are reused, and results of this call stay for the next.
    """
    parsed = []
    for number, (path, data) in enumerate(sorted(files.items())):
        folder = work / f"{number:05d}"
        if is_kept and (folder / parsed_files.FILE_NAME).exists():
            parsed.append(parsed_files.load(folder))
            continue
        parsed.append(parse(io.BytesIO(data), path, ParseHints(kind=kind) if kind else ParseHints(), folder))
        if is_kept:
            parsed_files.save(parsed[-1], folder)
    return parsed, reader(files)
