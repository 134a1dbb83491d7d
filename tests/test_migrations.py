"""The version before serves while the database is migrated: its rows must still fit into the tables."""

from importlib import import_module
from pathlib import Path

import pytest
from django.db.migrations.operations import AddField, CreateModel, DeleteModel, RemoveField, RenameField, RenameModel

from tests.upgrades import RELEASES
from triage.places import ROOT

#: the last migration that was written before the first release
LAST_FREE = {"ingest": 5, "triage": 7}
MIGRATIONS = [
    path
    for app, last in LAST_FREE.items()
    for path in sorted((ROOT / app / "migrations").glob("[0-9]*.py"))
    if int(path.name[:4]) > last
]


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: f"{path.parent.parent.name}.{path.stem}")
def test_the_version_before_can_still_write_its_rows(path: Path) -> None:
    migration = import_module(f"{path.parent.parent.name}.migrations.{path.stem}").Migration
    for operation in migration.operations:
        assert not isinstance(operation, (RemoveField, RenameField, DeleteModel, RenameModel)), operation.describe()
        if isinstance(operation, AddField):
            field = operation.field
            assert field.null or field.has_db_default() or field.many_to_many, operation.describe()


#: those after the last release, and those of the made-up next version
RELEASED = {app: name.rpartition("_squashed_")[2] for app, name in RELEASES[max(RELEASES)].items()}
LATER = [path for path in MIGRATIONS if path.stem > RELEASED[path.parent.parent.name]]
NEXT = sorted((ROOT / "scripts" / "next_version").glob("*/[0-9]*.py"))


@pytest.mark.parametrize("path", [*LATER, *NEXT], ids=lambda path: path.stem)
def test_a_migration_changes_one_table_so_that_no_request_and_no_run_meets_it_in_a_deadlock(path: Path) -> None:
    """PostgreSQL locks each table that a migration changes until its end, in another order than a page reads them."""
    migration = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)).Migration
    changed = {
        getattr(operation, "model_name", getattr(operation, "name", "")).lower()
        for operation in migration.operations
        if not isinstance(operation, CreateModel)
    }
    assert len(changed) <= 1
