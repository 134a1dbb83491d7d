"""Backup and restore of an installation: the rows of its database, and its evidence.

A backup is a directory: ``manifest.json``, ``rows.jsonl.zst``, ``blobs/``, ``parsed/`` and ``secret_key``. The next
backup into the same directory copies only new evidence. The manifest is written last: without it a backup is not
complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.files.storage import FileSystemStorage, Storage, storages
from django.utils import timezone

from ingest import storage as evidence
from ingest.models import Blob, Job
from triage.places import version
from triage.services.backup_rows import Key, UnusableBackup, is_complete, migrations_applied, rows_read, rows_write

MANIFEST, ROWS, SECRET = "manifest.json", "rows.jsonl.zst", "secret_key"
_BLOCK = 1 << 20
#: formats of a directory that this version reads
_FORMATS = (1,)


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What was done: rows, files and bytes that were copied, files that were there, and blobs that are missing."""

    rows: int
    copied: int
    copied_bytes: int
    known: int
    missing: int


def backup(target: Path, *, with_parsed: bool = True) -> BackupSummary:
    """Back up this installation while it runs. Rows come first: evidence that arrives later does no harm.

    Raises:
        Unusable: the database needs migrations, or ``target`` is something else.
    """
    if not is_complete():
        raise UnusableBackup("The database is not of this version: run faultline manage prepare first.")
    if target.exists() and any(target.iterdir()) and not (target / ROWS).exists():
        raise UnusableBackup(f"{target} has other files: name an empty directory, or one with an earlier backup.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)
    part = target / f"{ROWS}.part"
    counts = rows_write(part)
    part.replace(target / ROWS)
    copier = _Copier()
    folder = FileSystemStorage(location=str(target / "blobs"))
    for sha256, size in Blob.objects.values_list("sha256", "size_bytes").iterator():
        copier.copy(storages["blobs"], folder, Blob.key_of(sha256), size)
    if with_parsed:
        folder = FileSystemStorage(location=str(target / "parsed"))
        for key in _keys(storages["parsed"]):
            copier.copy(storages["parsed"], folder, key)
    secret = Path(settings.DATA_DIR) / SECRET
    if secret.exists():
        shutil.copyfile(secret, target / SECRET)
        (target / SECRET).chmod(0o600)
    manifest = {
        "format": _FORMATS[-1],
        "version": version(),
        "made_at": timezone.now().isoformat(),
        "migrations": migrations_applied(),
        "tables": counts,
        "rows_sha256": evidence.digest_of(target / ROWS),
    }
    part = target / f"{MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1))
    part.replace(target / MANIFEST)
    return copier.summary(sum(counts.values()))


def restore(source: Path, *, is_forced: bool = False) -> BackupSummary:
    """Put a backup back. Evidence comes first, so that no row is without its blob; each blob's digest is checked.

    Raises:
        Unusable: the backup is incomplete or damaged, or this installation has jobs (unless ``is_forced``).
    """
    manifest = _manifest(source)
    if not is_forced and migrations_applied() and is_complete() and Job.objects.exists():
        raise UnusableBackup("This installation has jobs. --force replaces all its rows by those of the backup.")
    if evidence.digest_of(source / ROWS) != manifest["rows_sha256"]:
        raise UnusableBackup(f"{source / ROWS} is damaged: its digest is not that of the manifest.")
    copier = _Copier()
    for name in ("blobs", "parsed"):
        folder = FileSystemStorage(location=str(source / name))
        for key in _keys(folder):
            copier.copy(folder, storages[name], key, digest=key.rpartition("/")[2] if name == "blobs" else "")
    migrations: list[Key] = [(app, name) for app, name in manifest["migrations"]]
    counts = rows_read(source / ROWS, migrations)
    if counts != manifest["tables"]:
        raise UnusableBackup("The number of rows is not that of the manifest.")
    secret = Path(settings.DATA_DIR) / SECRET
    if (source / SECRET).exists() and not os.environ.get("FAULTLINE_SECRET_KEY"):
        shutil.copyfile(source / SECRET, secret)
        secret.chmod(0o600)
    return copier.summary(sum(counts.values()))


def _manifest(source: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((source / MANIFEST).read_text())
    except FileNotFoundError:
        raise UnusableBackup(f"{source} has no {MANIFEST}: it is no backup, or the backup did not end.") from None
    if manifest.get("format") not in _FORMATS:
        raise UnusableBackup(f"This version reads backups of format {_FORMATS[-1]}, not {manifest.get('format')}.")
    return manifest


class _Copier:
    """Copies files between storages and counts them."""

    def __init__(self) -> None:
        self.copied = self.copied_bytes = self.known = self.missing = 0

    def copy(self, source: Storage, target: Storage, key: str, size: int | None = None, *, digest: str = "") -> None:
        """Copy one file if ``target`` has none of its size. A file that is gone is counted.

        Raises:
            Unusable: the bytes have another digest.
        """
        try:
            size = source.size(key) if size is None else size
            if target.exists(key) and target.size(key) == size:
                self.known += 1
                return
            part = _directory_on_disk_of(target) / f".{uuid4().hex}.part"
        except FileNotFoundError:
            self.missing += 1
            return
        hasher = hashlib.sha256()
        try:
            with source.open(key, "rb") as file, part.open("wb") as out:
                while block := file.read(_BLOCK):
                    hasher.update(block)
                    self.copied_bytes += out.write(block)
            if digest and hasher.hexdigest() != digest:
                raise UnusableBackup(f"{key} is damaged: its bytes are not those that its name says.")
            evidence.put(target, key, part)
            self.copied += 1
        except FileNotFoundError:  # removed meanwhile
            self.missing += 1
        finally:
            part.unlink(missing_ok=True)

    def summary(self, rows: int) -> BackupSummary:
        return BackupSummary(rows, self.copied, self.copied_bytes, self.known, self.missing)


def _directory_on_disk_of(target: Storage) -> Path:
    """A directory on the disk of ``target``, so that a complete file is moved there."""
    folder = Path(target.location if isinstance(target, FileSystemStorage) else settings.DATA_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _keys(storage: Storage, folder: str = "") -> Iterator[str]:
    """All files of a storage."""
    try:
        folders, files = storage.listdir(folder)
    except FileNotFoundError:
        return
    yield from (f"{folder}{name}" for name in files if not name.startswith("."))
    for name in folders:
        yield from _keys(storage, f"{folder}{name}/")
