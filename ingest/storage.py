"""Bytes in and out of the ``blobs`` and ``parsed`` storages. No other code knows their paths.

Bytes arrive in a part file on the receiving machine's disk with a running SHA-256. A complete file moves to the
storage: by renaming on the same file system, else through the storage's ``save``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Self, cast
from uuid import uuid4

from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages

from ingest import sums, temp_files
from ingest.models import Blob

BLOCK_BYTES = 1 << 20
#: the files that parsing one artifact writes; the last one shows that the others are complete. A file that was read in
#: ranges has a table of them instead of columns, which stay in a directory for each range (:func:`parsed_delete`)
PARSED_FILES = (
    *("columns.parquet", "ranges.parquet", "physical.parquet", "uniques.parquet", "cells.parquet"),
    *(sums.NAME, "parsed.json"),
)


class Part:
    """A growing file with a running digest. Closing it deletes it, unless :func:`blob_put` moved it before. So does
    losing it: an answer that holds it may be replaced by an error on its way through the middleware.
    """

    def __init__(self) -> None:
        self.path = temp_files.part_path()
        weakref.finalize(self, self.path.unlink, missing_ok=True).atexit = False  # a fork must not delete it
        self.size_bytes = 0
        self._digest = hashlib.sha256()
        self._file = self.path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and delete it if it was not moved. May be called again."""
        with contextlib.suppress(OSError):  # bytes that cannot be flushed are deleted anyway
            self._file.close()
        self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    def save_progress(self) -> None:
        """Does nothing: no row has this body's progress."""

    def reader(self) -> BinaryIO:
        """The bytes from the start."""
        self._file.flush()
        return self.path.open("rb")

    def finish(self, *, is_synced: bool = False) -> str:
        """Flush (to the disk with ``is_synced``) and return the digest."""
        self._file.flush()
        if is_synced:
            os.fsync(self._file.fileno())
        self._file.close()
        return self._digest.hexdigest()


#: for whoever sent the file
BLOB_CHANGED = (
    "The stored bytes of this file were changed or cut by something else than Faultline: they no longer have the "
    "digest of what arrived. Send the file again; faultline doctor --evidence lists all such files."
)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, streaming."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blob_put(part: Path, sha256: str) -> None:
    """Move a complete part file into the storage as a blob.

    An existing blob is replaced by the same bytes: its new change time shows the sweep that it is in use.
    """
    put(storages["blobs"], Blob.key_of(sha256), part)
    part.unlink(missing_ok=True)


def put(storage: Storage, key: str, source: Path) -> None:
    """Store a file completely or not at all; replaces an existing one. ``source`` may be moved."""
    if not isinstance(storage, FileSystemStorage):
        with source.open("rb") as file:
            if not getattr(storage, "file_overwrite", False) and storage.exists(key):
                storage.delete(key)
            storage.save(key, File(file))
        return
    target = Path(storage.path(key))
    if not target.parent.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.replace(target)
    except OSError:  # another file system
        part = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            shutil.copyfile(source, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def blob_delete(sha256: str) -> None:
    storages["blobs"].delete(Blob.key_of(sha256))


def blob_exists(sha256: str) -> bool:
    return storages["blobs"].exists(Blob.key_of(sha256))


def blob_check(sha256: str, size_bytes: int, *, max_bytes: int = sums.MAX_BYTES, is_remote_read: bool = False) -> None:
    """Check that a blob is what was stored (:func:`ingest.sums.check`); in a remote store only with
    ``is_remote_read``, because that reads all its bytes, which such a store checks itself.

    Raises :class:`ingest.sums.Changed`, or FileNotFoundError.
    """
    storage = storages["blobs"]
    if isinstance(storage, FileSystemStorage):
        sums.check(Path(storage.path(Blob.key_of(sha256))), sha256, size_bytes, max_bytes=max_bytes)
    elif is_remote_read:
        with blob_open(sha256) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:  # type: ignore[arg-type]
                raise sums.Changed


def blob_problem(sha256: str, size_bytes: int, *, max_bytes: int = sums.MAX_BYTES) -> str:
    """A sentence if a blob is no longer what was stored; empty if it is, and if it is not there."""
    try:
        blob_check(sha256, size_bytes, max_bytes=max_bytes)
    except sums.Changed:
        return BLOB_CHANGED
    except FileNotFoundError:
        return ""
    return ""


@contextlib.contextmanager
def blob_open(sha256: str) -> Iterator[BinaryIO]:
    with storages["blobs"].open(Blob.key_of(sha256), "rb") as file:
        yield cast("BinaryIO", file.file)


def blob_local(sha256: str, folder: Path, offset: int = 0, length: int | None = None) -> tuple[Path, int]:
    """A local file with the blob's bytes and the offset where they begin: the blob itself, or a copy in ``folder``."""
    storage, key = storages["blobs"], Blob.key_of(sha256)
    if isinstance(storage, FileSystemStorage):
        return Path(storage.path(key)), offset
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / f"{sha256[:16]}-{uuid4().hex[:8]}"
    with copy.open("wb") as out:
        if length is None:
            with blob_open(sha256) as file:
                file.seek(offset)
                shutil.copyfileobj(file, out, BLOCK_BYTES)
        else:
            while length > 0 and (data := blob_range(sha256, offset, min(length, 16 * BLOCK_BYTES))):
                out.write(data)
                offset, length = offset + len(data), length - len(data)
    return copy, 0


def blob_range(sha256: str, offset: int, length: int) -> bytes:
    """``length`` bytes from ``offset`` on, fewer at the end. Cost grows with ``length``, not with the blob's size."""
    storage, key = storages["blobs"], Blob.key_of(sha256)
    offset, length = max(0, offset), max(0, length)
    if hasattr(storage, "read_range"):
        return cast("bytes", storage.read_range(key, offset, length))
    with storage.open(key, "rb") as file:
        file.seek(offset)
        return cast("bytes", file.read(length))


def directory_put(key: str, files: Iterable[Path]) -> None:
    """Store files under ``key/`` in the ``parsed`` storage, in order: the last one shows that all are complete."""
    for file in files:
        put(storages["parsed"], f"{key}/{file.name}", file)


def directory_take(key: str, folder: Path, names: Sequence[str]) -> None:
    """Store the existing files among ``names`` of ``folder``, and their sums, under ``key/`` in the ``parsed`` storage,
    the last one last. A local folder without other files is moved as a whole.
    """
    existing = [name for name in names if (folder / name).exists()]
    storage = storages["parsed"]
    sums.write(folder, existing)
    existing = [name for name in names if name in existing or name == sums.NAME]
    if isinstance(storage, FileSystemStorage) and len(existing) == sum(1 for _ in folder.iterdir()):
        target = Path(storage.path(key))
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # another file system, or it exists already
            folder.rename(target)
            return
    directory_put(key, [folder / name for name in existing])


def directory_get(key: str, names: Iterable[str], work: Path | None = None) -> Path:
    """A local directory with the files of ``key/``: the stored one if it is local, else a copy.

    The copy is in ``work``; without ``work`` it is in the directory of local copies and later calls use it.

    Raises :class:`ingest.sums.Changed` for a file that is not what was stored.
    """
    storage = storages["parsed"]
    if isinstance(storage, FileSystemStorage):
        folder = Path(storage.path(key))
        sums.check_folder(folder, names)
        return folder
    target = (work or temp_files.copies_dir()) / key
    target.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not _is_used(target / name)]
    if missing:
        for name in (sums.NAME, *missing):
            _copy(storage, f"{key}/{name}", target / name)
        try:
            sums.check_folder(target, missing)
        except sums.Changed:  # the next reader fetches what is made again
            for name in (sums.NAME, *missing):
                (target / name).unlink(missing_ok=True)
            raise
    return target


def _is_used(copy: Path) -> bool:
    """Whether a local copy exists, and marks it as used."""
    try:
        os.utime(copy)
    except FileNotFoundError:
        return False
    return True


def _copy(storage: Storage, key: str, target: Path) -> None:
    """Fetch a stored file if it is there; not every artifact has all of them."""
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        with storage.open(key, "rb") as source, part.open("wb") as copy:
            shutil.copyfileobj(source, copy, BLOCK_BYTES)
        part.replace(target)  # concurrent readers see either no file or the complete one


def directory_check(key: str, *, max_bytes: int = sums.MAX_BYTES, is_remote_read: bool = False) -> None:
    """Check the files of ``key/``, and those of its ranges; in a remote store only with ``is_remote_read``, because
    that fetches them. Raises :class:`ingest.sums.Changed`.
    """
    storage = storages["parsed"]
    if isinstance(storage, FileSystemStorage):
        folder = Path(storage.path(key))
        for place in (folder, *(path.parent for path in folder.glob(f"*/{sums.NAME}"))):
            sums.check_folder(place, PARSED_FILES, max_bytes=max_bytes)
    elif is_remote_read:
        ranges = storage.listdir(key)[0]
        for part_key in (key, *(f"{key}/{name}" for name in ranges)):
            with tempfile.TemporaryDirectory(dir=temp_files.copies_dir()) as work:
                folder = directory_get(part_key, PARSED_FILES, Path(work))
                sums.check_folder(folder, PARSED_FILES, max_bytes=max_bytes)


def directory_delete(key: str, names: Iterable[str]) -> None:
    storage = storages["parsed"]
    for name in names:
        storage.delete(f"{key}/{name}")
    if isinstance(storage, FileSystemStorage):
        with contextlib.suppress(OSError):
            Path(storage.path(key)).rmdir()


def parsed_delete(key: str) -> None:
    """Delete the files of a parsed artifact, and of its ranges."""
    with contextlib.suppress(FileNotFoundError):
        for name in storages["parsed"].listdir(key)[0]:
            directory_delete(f"{key}/{name}", PARSED_FILES)
    directory_delete(key, PARSED_FILES)


def directory_names(key: str) -> list[str]:
    """The files below ``key/`` in the ``parsed`` storage; empty if there are none."""
    try:
        return storages["parsed"].listdir(key)[1]
    except FileNotFoundError:
        return []


def blob_changed_at(sha256: str) -> datetime:
    """When the blob was last stored; the epoch if it does not exist."""
    storage, key = storages["blobs"], Blob.key_of(sha256)
    try:
        return storage.get_modified_time(key) if storage.exists(key) else datetime.fromtimestamp(0, UTC)
    except OSError:  # deleted in between
        return datetime.fromtimestamp(0, UTC)
