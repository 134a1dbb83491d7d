"""The version before serves while the database is migrated: its rows must still fit into the tables."""

from importlib import import_module
from pathlib import Path

import pytest
from django.db.migrations.operations import AddField, DeleteModel, RemoveField, RenameField, RenameModel

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
