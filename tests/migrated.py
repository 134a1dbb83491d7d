"""A migrated SQLite database is kept for the next process of tests: to migrate takes four seconds, to copy none.

Beside the environment's packages, under a digest of all that migrating depends on: the code of both apps, the installed
apps and the locked packages.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FOLDER = Path(sys.prefix) / "faultline-migrated"
_KEPT_S = 86_400


def _file() -> Path:
    from django.conf import settings  # tests of the library run without Django

    digest = hashlib.sha256(repr(settings.INSTALLED_APPS).encode())
    code = [path for app in ("ingest", "triage") for path in (ROOT / app).rglob("*.py")]
    for path in (ROOT / "requirements-dev.lock", *sorted(code)):
        digest.update(f"{path.relative_to(ROOT)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return _FOLDER / f"{digest.hexdigest()[:32]}.sqlite3"


def make() -> None:
    """Migrate a database and keep it, if none is kept for this code. Django is set up; the database is SQLite."""
    from django.db import connection

    if not _file().exists():
        keep(Path(connection.creation.create_test_db(verbosity=0, autoclobber=True)))


def restore(database: Path) -> bool:
    """Copy the kept database to this path, if there is one."""
    try:
        shutil.copyfile(_file(), database)
    except FileNotFoundError:
        return False
    return True


def begin(data: Path) -> None:
    """Let an installation whose data are in this folder find the kept database, unless it has one of its own."""
    data.mkdir(exist_ok=True)
    database = data / "faultline.sqlite3"
    if not database.exists():
        restore(database)


def keep(database: Path) -> None:
    """Keep a copy of this database for others; those of former code are removed."""
    kept = _file()
    with contextlib.suppress(OSError):  # an environment that others own
        _FOLDER.mkdir(exist_ok=True)
        for other in _FOLDER.iterdir():
            if other.stat().st_mtime < time.time() - _KEPT_S:
                other.unlink(missing_ok=True)
        part = _FOLDER / f"{os.getpid()}.part"
        part.unlink(missing_ok=True)
        copy(database, part)
        part.replace(kept)


def copy(database: Path, target: Path) -> None:
    """Copy a database of SQLite, with what still stands in its log alone."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("VACUUM INTO ?", [str(target)])
