"""Databases of former versions, beside the one of the tests, on the same server."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

#: what the database of each release had migrated, app by app
RELEASES = {
    "0.1.0": {"ingest": "0010_run_span", "triage": "0001_squashed_0012_words_in_their_row"},
    "0.2.0": {"ingest": "0015_separate_outcomes", "triage": "0013_repeated_deliveries"},
}


@contextlib.contextmanager
def another_database(folder: Path) -> Iterator[dict[str, Any]]:
    """An empty database that is the default one of this thread; yields its settings, for :func:`used_here`."""
    default = connections["default"]
    settings = copy.deepcopy(default.settings_dict)
    settings["NAME"] = name = str(folder / "other.sqlite3")
    if default.vendor == "postgresql":
        settings["NAME"] = name = f"other_{os.getpid()}"
        with default.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name}")
    try:
        with used_here(settings):
            yield settings
    finally:
        if default.vendor == "postgresql":
            with default.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
        else:
            for path in folder.glob("other.sqlite3*"):
                path.unlink()


@contextlib.contextmanager
def used_here(settings: dict[str, Any]) -> Iterator[None]:
    """In this thread, the database of these settings is the default one."""
    default = connections["default"]
    other = type(default)(settings, "default")
    connections["default"] = other
    try:
        yield
    finally:
        other.close()
        connections["default"] = default


def migrated_to(targets: dict[str, str], *, step_by_step: bool = False) -> Any:
    """Migrate the default database to these migrations; returns the apps with the models of that time.

    ``step_by_step``: by the migrations that a squashed one replaces, as databases from before it were.
    """
    executor = MigrationExecutor(connections["default"])
    if step_by_step:
        executor.loader.replace_migrations = False
        executor.loader.build_graph()
    nodes = [node for node in executor.loader.graph.leaf_nodes() if node[0] not in targets] + list(targets.items())
    executor.migrate(nodes)
    return executor.loader.project_state(nodes).apps
