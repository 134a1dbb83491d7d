"""Backup and restore: everything comes back, damaged and foreign backups are refused, old ones are migrated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from ingest import services, storage
from ingest.models import Artifact, Blob, Job
from tests.factories import make_incident, make_user
from tests.ingest.conftest import LOG
from tests.upgrades import BEFORE_RELEASES, another_database, migrated_to
from triage.models import Incident, SearchEntry
from triage.services import backup as backups
from triage.services.backup import MANIFEST, ROWS
from triage.services.backup_rows import UnusableBackup, is_complete, migrations_applied, rows_write

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stores(settings: Any, tmp_path: Path) -> Callable[[str], None]:
    """Use the data directory of this name from now on."""

    def use(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        settings.DATA_DIR = folder
        local = "django.core.files.storage.FileSystemStorage"
        settings.STORAGES = settings.STORAGES | {
            store: {"BACKEND": local, "OPTIONS": {"location": str(folder / store)}} for store in ("blobs", "parsed")
        }

    use("first")
    return use


@pytest.fixture
def latest() -> Iterator[None]:
    """Other tests find the tables of this version, whatever happened."""
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.fixture
def installation(stores: Callable[[str], None]) -> str:
    """A job with a file, an incident and people; returns the file's digest."""
    ada = make_user("ada", "engineer")
    job = services.job_create(name="llama", slug="llama", user=ada)
    digest = put(job, LOG)
    make_incident(headline="a rank vanished")
    return digest


def put(job: Job, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    part = Path(backups.settings.DATA_DIR) / "part"
    part.write_bytes(data)
    Blob.objects.create(sha256=digest, size_bytes=len(data))
    storage.blob_put(part, digest)
    attempt = job.attempts.first() or job.attempts.create(number=0)
    Artifact.objects.create(attempt=attempt, path="stdout.log", blob_id=digest, state=Artifact.State.PARSED)
    return digest


def content() -> dict[str, list[Any]]:
    """All rows of all tables."""
    return {
        model._meta.label: list(model._base_manager.order_by("pk").values())
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    }


def test_everything_comes_back_into_an_empty_installation(
    installation: str, stores: Callable[[str], None], tmp_path: Path, latest: None
) -> None:
    before = content()
    call_command("backup", str(tmp_path / "kept"))
    call_command("flush", interactive=False)
    stores("second")
    call_command("restore", str(tmp_path / "kept"))
    assert content() == before
    with storage.blob_open(installation) as file:
        assert file.read() == LOG
    assert SearchEntry.objects.count() == len(before["triage.SearchEntry"])
    again = make_incident(headline="another")
    assert again.pk > max(row["id"] for row in before["triage.Incident"]), "the sequences of keys continue"


def test_a_second_backup_copies_only_what_is_new(installation: str, tmp_path: Path) -> None:
    first = backups.backup(tmp_path / "kept")
    assert (first.copied, first.known) == (1, 0)
    put(Job.objects.get(slug="llama"), LOG + b"more\n")
    second = backups.backup(tmp_path / "kept")
    assert (second.copied, second.known) == (1, 1)
    assert second.rows > first.rows


def test_a_blob_that_is_gone_is_counted_and_the_rest_is_kept(installation: str, tmp_path: Path) -> None:
    storage.blob_delete(installation)
    assert backups.backup(tmp_path / "kept").missing == 1
    assert (tmp_path / "kept" / MANIFEST).exists()


def test_an_installation_in_use_is_not_overwritten_by_accident(installation: str, tmp_path: Path, latest: None) -> None:
    backups.backup(tmp_path / "kept")
    with pytest.raises(CommandError, match=r"has jobs\. --force replaces"):
        call_command("restore", str(tmp_path / "kept"))
    Job.objects.update(name="changed")
    call_command("restore", str(tmp_path / "kept"), "--force")
    assert Job.objects.get(slug="llama").name == "llama"


def test_a_directory_of_something_else_is_not_written(installation: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(CommandError, match="has other files"):
        call_command("backup", str(tmp_path / "photos"))


def test_a_backup_that_did_not_end_is_none(installation: str, tmp_path: Path) -> None:
    backups.backup(tmp_path / "kept")
    (tmp_path / "kept" / MANIFEST).unlink()
    with pytest.raises(UnusableBackup, match=r"has no manifest\.json"):
        backups.restore(tmp_path / "kept", is_forced=True)


def test_damaged_rows_are_found_before_anything_is_replaced(installation: str, tmp_path: Path) -> None:
    backups.backup(tmp_path / "kept")
    with (tmp_path / "kept" / ROWS).open("r+b") as file:
        file.seek(20)
        file.write(b"x")
    with pytest.raises(UnusableBackup, match="is damaged"):
        backups.restore(tmp_path / "kept", is_forced=True)
    assert Job.objects.filter(slug="llama").exists()


def test_a_damaged_blob_is_named(
    installation: str, stores: Callable[[str], None], tmp_path: Path, latest: None
) -> None:
    backups.backup(tmp_path / "kept")
    (kept,) = (tmp_path / "kept" / "blobs").rglob(installation)
    kept.write_bytes(LOG[:-1] + b"x")
    stores("second")
    with pytest.raises(UnusableBackup, match=f"{installation} is damaged"):
        backups.restore(tmp_path / "kept", is_forced=True)


def test_a_backup_of_a_newer_version_is_refused(installation: str, tmp_path: Path) -> None:
    backups.backup(tmp_path / "kept")
    manifest = json.loads((tmp_path / "kept" / MANIFEST).read_text())
    manifest["migrations"].append(["triage", "9999_future"])
    (tmp_path / "kept" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(UnusableBackup, match=r"triage\.9999_future, which this installation does not know"):
        backups.restore(tmp_path / "kept", is_forced=True)
    assert Job.objects.filter(slug="llama").exists()


def test_a_backup_of_an_older_version_is_migrated(
    installation: str, before_releases: str, tmp_path: Path, latest: None
) -> None:
    """Made before runs had a trace, and before the steps to the first release were one."""
    kept = tmp_path / "kept"
    kept.mkdir()
    with another_database(tmp_path, like=before_releases):
        then = migrated_to(BEFORE_RELEASES, step_by_step=True)
        cluster = then.get_model("ingest", "Cluster").objects.create(slug="elsewhere")
        then.get_model("ingest", "Job").objects.create(slug="old", name="an old run", cluster=cluster)
        tables = rows_write(kept / ROWS, then)
        applied = migrations_applied()
    manifest = {"format": 1, "migrations": applied, "tables": tables, "rows_sha256": storage.digest_of(kept / ROWS)}
    (kept / MANIFEST).write_text(json.dumps(manifest))
    assert ("ingest", "0006_run_trace") not in applied
    backups.restore(kept, is_forced=True)
    assert Job.objects.get().name == "an old run"
    assert not Incident.objects.exists()
    assert is_complete()
