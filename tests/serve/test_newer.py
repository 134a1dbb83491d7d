"""A version does not start on a database that a newer one has migrated."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder

from triage.serve import commands, newer

pytestmark = pytest.mark.django_db

SENTENCE = (
    "A newer version of Faultline has migrated this database (triage.9999_future). "
    "Install that version here, or restore the backup that was made before the upgrade."
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that parts became."""
    argvs: list[list[str]] = []
    monkeypatch.setattr(commands, "_become", argvs.append)
    monkeypatch.setenv("REDIS_URL", "redis://queue.example")
    return argvs


def migrate_on() -> None:
    MigrationRecorder.Migration.objects.create(app="triage", name="9999_future")


@pytest.mark.parametrize("part", ["web", "uploads", "worker", "parse"])
def test_no_part_starts_on_a_database_of_a_newer_version(part: str, started: Any, capsys: Any) -> None:
    commands.main(["serve", part])
    assert len(started) == 1
    migrate_on()
    assert commands.main(["serve", part]) == 2
    assert capsys.readouterr().err.strip() == SENTENCE
    assert len(started) == 1


def test_nothing_is_prepared_there_so_that_the_whole_site_does_not_start_either() -> None:
    migrate_on()
    with pytest.raises(CommandError) as refusal:
        call_command("prepare")
    assert str(refusal.value) == SENTENCE


def test_a_database_that_does_not_answer_yet_is_waited_for(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise OperationalError("connection refused")

    monkeypatch.setattr(newer, "unknown_migration", refuse)
    commands.main(["serve", "worker"])
    assert len(started) == 1


def test_an_empty_database_is_no_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer.connection.introspection, "table_names", lambda *_: [])
    assert newer.unknown_migration() == ""
