"""Whether stored files still have the bytes that were stored: by their size at every look, by their digest once.

A blob's name is its digest. Column files have their digests in a small file beside them. The digest of a file is
computed once in each process, as long as its size and time stay, and of a larger one only where somebody asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

NAME = "sums.json"
#: hashing this much takes a twentieth of a second
MAX_BYTES = 64 << 20
#: for whoever has time to read every file
ANY_BYTES = 1 << 62
_MAX_KNOWN = 10_000
#: by place, size and time of a file: whether it has the digest
_known: dict[tuple[str, int, int, str], bool] = {}


class Changed(FileNotFoundError):
    """Stored bytes were changed or cut by somebody else: what was stored is lost."""

    def __init__(self, sentence: str = "Stored bytes were changed or cut.") -> None:
        super().__init__(sentence)


def check(path: Path, sha256: str, size_bytes: int | None = None, *, max_bytes: int = MAX_BYTES) -> None:
    """Check the size, and the digest of a file of at most ``max_bytes``, unless it is known.

    Raises :class:`Changed`, or FileNotFoundError for a file that is not there.
    """
    state = path.stat()
    if size_bytes is not None and state.st_size != size_bytes:
        raise Changed
    key = str(path), state.st_size, state.st_mtime_ns, sha256
    if key not in _known:
        if state.st_size > max_bytes:
            return
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = _digest_of(path) == sha256
    if not _known[key]:
        raise Changed


def write(folder: Path, names: Iterable[str]) -> None:
    """Write size and digest of these files of the folder beside them."""
    rows = {name: [(folder / name).stat().st_size, _digest_of(folder / name)] for name in names}
    (folder / NAME).write_text(json.dumps(rows))


def check_folder(folder: Path, names: Iterable[str], *, max_bytes: int = MAX_BYTES) -> None:
    """:func:`check` for the files of a folder that are there. One that was written without sums is believed."""
    try:
        rows = json.loads((folder / NAME).read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        raise Changed from None
    for name in names:
        if name in rows and (folder / name).exists():
            size_bytes, sha256 = rows[name]
            check(folder / name, sha256, size_bytes, max_bytes=max_bytes)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
