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

from tests import migrated

#: what the database of each release had migrated, app by app
RELEASES = {
    "0.1.0": {"ingest": "0010_run_span", "triage": "0001_squashed_0012_words_in_their_row"},
    "0.2.0": {"ingest": "0015_separate_outcomes", "triage": "0013_repeated_deliveries"},
    "0.3.0": {"ingest": "0019_upload_digest", "triage": "0019_notes_of_nodes"},
}


#: as a database was before it had the last steps to the first release, which a squashed migration replaces
BEFORE_RELEASES = {"ingest": "0005_pushed_sources", "triage": "0006_faster_search"}


@contextlib.contextmanager
def another_database(folder: Path, *, like: str = "") -> Iterator[dict[str, Any]]:
    """A database that is the default one of this thread, empty or a copy of the one with the name ``like``; yields its
    settings, for :func:`used_here`."""
    with created(folder, "other", like=like) as settings, used_here(settings):
        yield settings


@contextlib.contextmanager
def created(folder: Path, word: str, *, like: str = "") -> Iterator[dict[str, Any]]:
    """Settings of a database beside the default one. To copy one costs a tenth of what migrating costs; PostgreSQL
    copies none that somebody is connected to, so this thread disconnects.
    """
    default = connections["default"]
    is_file = default.vendor == "sqlite"
    name = str(folder / f"{word}.sqlite3") if is_file else f"{word}_{os.getpid()}"
    settings = copy.deepcopy(default.settings_dict) | {"NAME": name}
    if is_file:
        if like:
            migrated.copy(Path(like), Path(name))
    else:
        default.close()
        _execute(default, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} TEMPLATE {like or 'template1'}")
    try:
        yield settings
    finally:
        if is_file:
            for path in folder.glob(f"{word}.sqlite3*"):
                path.unlink()
        else:
            _execute(default, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(default: Any, *statements: str) -> None:
    """By a connection of its own to the server, which belongs to no database of the tests."""
    with default._nodb_cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


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
