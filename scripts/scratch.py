"""A site for one command: a database and a data directory, deleted at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def scratch_site(copy_of: Path | None = None, /, **variables: str) -> Iterator[Path]:
    """Set Django up on an empty SQLite database, or on a migrated copy of one; yields the data directory.

    ``variables`` are settings by their names in the environment. Call it before Django is imported: settings are read
    once.
    """
    with tempfile.TemporaryDirectory(prefix="faultline-scratch-") as folder:
        os.environ |= {
            "DATABASE_URL": f"sqlite:///{folder}/db.sqlite3",
            "FAULTLINE_DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            **variables,
        }
        if copy_of is not None:
            shutil.copyfile(copy_of, Path(folder) / "db.sqlite3")
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], check=True, cwd=ROOT)
        import django  # noqa: PLC0415  # reads the settings

        django.setup()
        yield Path(folder)
