"""A site for one command: an empty database and a data directory, deleted at the end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def scratch_site(**variables: str) -> Iterator[Path]:
    """Set Django up on an empty SQLite database; yields the data directory.

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
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], check=True, cwd=ROOT)
        import django  # noqa: PLC0415  # reads the settings

        django.setup()
        yield Path(folder)
