"""`faultline doctor`: each fault that it knows is found, named, and comes with what to do."""

from __future__ import annotations

import io
import json
import os
import socket
import time
from collections import namedtuple
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.files.storage import InMemoryStorage
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from ingest.models import Machine, Run
from ingest.services import machines
from tests.factories import make_job
from tests.patience import wait_for
from triage.services import doctor

pytestmark = pytest.mark.django_db

Usage = namedtuple("Usage", "total used free")


class Queue:
    """A queue on another machine, whose clock is ``ahead_s`` ahead."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None: ...

    def time(self) -> tuple[int, int]:
        now = time.time() + self.ahead_s
        return int(now), int(now % 1 * 1e6)


@pytest.fixture
def data(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_DIR = settings.STATIC_ROOT = tmp_path
    return tmp_path


def test_the_database_says_what_it_is_and_that_it_is_up_to_date() -> None:
    assert doctor.database().sentence.startswith(connection.display_name)
    assert doctor.migrations() == doctor.Finding("ok", "the database is up to date")


def test_a_missing_migration_names_the_command() -> None:
    MigrationRecorder.Migration.objects.filter(app="triage").order_by("-name").first().delete()
    found = doctor.migrations()
    assert (found.state, found.sentence) == ("problem", "a migration is missing")
    assert found.todo == "Run: faultline manage prepare"


def test_the_version_of_a_wheel_is_the_one_that_pip_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.places.metadata.version", {"faultline-triage": "0.2.0.post14"}.__getitem__)
    assert "Faultline 0.2.0.post14, " in doctor.versions().sentence


def test_a_database_of_a_newer_version_is_not_served() -> None:
    MigrationRecorder.Migration.objects.create(app="triage", name="9999_future")
    found = doctor.migrations()
    assert found.state == "problem"
    assert "newer version" in found.sentence and "9999_future" in found.sentence


def test_a_database_that_took_the_single_steps_to_the_first_release_is_up_to_date() -> None:
    MigrationRecorder.Migration.objects.filter(name__contains="_squashed_").delete()
    assert doctor.migrations().state == "ok"


def test_work_that_waits_is_a_warning() -> None:
    assert doctor.waiting().state == "ok"
    run = Run.objects.create(job=make_job(), kind=Run.Kind.PARSE)
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(minutes=20))
    assert doctor.waiting().sentence == "the oldest work has waited for 20 minutes"


@pytest.mark.parametrize(
    ("ahead_s", "state", "said"),
    [(0, "ok", "agree"), (-5, "warning", "5 s behind"), (3600, "problem", "3600 s ahead")],
)
def test_a_clock_that_is_off_is_found(ahead_s: float, state: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_redis", lambda: Queue(ahead_s))
    found = doctor.clocks()
    assert found.state == state
    assert said in found.sentence


def test_a_store_that_returns_other_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = InMemoryStorage()
    monkeypatch.setattr(broken, "open", lambda name: io.BytesIO(b"other"))
    monkeypatch.setattr(doctor, "storages", {"blobs": broken, "parsed": broken})
    found = doctor._run_check(doctor.store)
    assert (found.state, found.sentence) == ("problem", "blobs returns other bytes than it was given")
    assert "FAULTLINE_S3_BUCKET" in found.todo
    assert broken.listdir("doctor") == ([], []), "the probe is deleted"


def test_the_real_store_keeps_no_probe(data: Path) -> None:
    assert doctor.store().state == "ok"
    assert [path for path in data.rglob("*") if path.is_file()] == []


def test_a_short_or_readable_secret_key_is_found(settings: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTLINE_SECRET_KEY", raising=False)
    settings.SECRET_KEY = "short"
    assert doctor.secrets().sentence == "the secret key is short"
    settings.SECRET_KEY = "x" * 48
    monkeypatch.setattr(doctor.connection, "vendor", "sqlite")
    (data / "secret_key").touch(mode=0o644)
    (data / "secret_key").chmod(0o644)
    assert doctor.secrets().todo == f"Run: chmod 600 {data / 'secret_key'}"
    (data / "secret_key").chmod(0o600)
    assert doctor.secrets().state == "ok"


def test_several_machines_need_one_secret_key(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SECRET_KEY = "x" * 48
    monkeypatch.delenv("FAULTLINE_SECRET_KEY", raising=False)
    monkeypatch.setattr(doctor.connection, "vendor", "postgresql")
    assert doctor.secrets().state == "warning"
    monkeypatch.setenv("FAULTLINE_SECRET_KEY", "x" * 48)
    assert doctor.secrets().state == "ok"


def test_what_others_must_not_reach_is_found(settings: Any, data: Path) -> None:
    settings.DEBUG, settings.IS_BEHIND_TLS, settings.ALLOWED_HOSTS = False, False, ["localhost"]
    assert doctor.exposure() == doctor.Finding("ok", "the site answers to this machine alone")
    settings.ALLOWED_HOSTS = ["faultline.example"]
    assert "FAULTLINE_TLS=1" in doctor.exposure().todo
    settings.IS_BEHIND_TLS = True
    assert doctor.exposure().state == "ok"
    (data / "demo-sign-in.txt").touch()
    get_user_model().objects.create_user(username="engineer")
    assert doctor.exposure().sentence == "the demonstration's people can sign in"
    settings.DEBUG = True
    assert doctor.exposure().state == "problem"


def test_a_container_does_not_know_who_reaches_its_port(
    settings: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reaches it can send the name localhost."""
    settings.DEBUG, settings.IS_BEHIND_TLS, settings.ALLOWED_HOSTS = False, False, ["localhost", "127.0.0.1"]
    monkeypatch.setenv("FAULTLINE_HOST", "0.0.0.0")
    found = doctor.exposure()
    assert (found.state, found.sentence) == (
        "ok",
        "the site listens at 0.0.0.0 and answers to the name localhost alone",
    )
    (data / "demo-sign-in.txt").touch()
    get_user_model().objects.create_user(username="engineer")
    assert doctor.exposure().state == "problem"
    settings.DEBUG = True
    assert "FAULTLINE_DEBUG" in doctor.exposure().sentence
    assert doctor.exposure().state == "problem"


@pytest.mark.parametrize(("free", "state"), [(2**28, "problem"), (2**31, "warning"), (2**39, "ok")])
def test_a_disk_that_fills_is_found(free: int, state: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: Usage(2**40, 2**40 - free, free))
    assert doctor.disk().state == state


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_of_another_user_is_found(data: Path) -> None:
    data.chmod(0o500)
    assert doctor.disk().state == "problem"


def test_a_machine_that_works_in_another_data_directory_is_found(data: Path, settings: Any) -> None:
    machines.signal_alive()
    assert doctor.directory().state == "ok"
    settings.DATA_DIR = data / "another"
    found = doctor.directory()
    assert (found.state, found.sentence) == ("problem", f"{socket.gethostname()} works in another data directory")
    Machine.objects.update(seen_at=timezone.now() - timedelta(minutes=2))
    assert doctor.directory().state == "ok", "a machine that is gone is not asked"


def test_traces_without_their_packages_are_found(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.traces().sentence == "no traces are sent"
    settings.TRACES_ENDPOINT = "http://collector:4318"
    assert doctor.traces().state == "ok"
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    assert "faultline-triage[otel]" in doctor.traces().todo


def test_missing_static_files_are_found(data: Path) -> None:
    assert doctor.pages().todo == "Run: faultline manage prepare"
    (data / "staticfiles.json").write_text("{}")
    assert doctor.pages().state == "ok"


def test_a_broken_part_hides_no_other_and_decides_the_exit_code(
    settings: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = f"unix://{data}/nothing.sock"
    monkeypatch.setattr(doctor, "CHECKS", (doctor.versions, doctor.queue, doctor.disk))
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert ended.value.code == 1
    assert list(found) == ["versions", "queue", "disk"]
    assert found["queue"]["todo"] == "Start it, or correct REDIS_URL."
    assert found["versions"]["state"] == "ok"


def test_the_report_for_people_has_a_line_for_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (doctor.versions, doctor.database))
    out = io.StringIO()
    call_command("doctor", stdout=out)
    assert [line.split()[:2] for line in out.getvalue().splitlines()] == [["ok", "versions"], ["ok", "database"]]


@pytest.mark.broker
def test_a_queue_without_a_worker_is_found(queued: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ANSWER_S", (0.2, 0.2))
    assert doctor.queue().sentence.startswith("Valkey ")
    found = doctor.workers()
    assert (found.state, found.sentence) == ("problem", "no worker serves parse, diagnose, notify")
    assert found.todo == "Start: faultline serve worker"


@pytest.mark.broker
def test_workers_that_are_too_busy_for_the_first_question_are_asked_again(
    queued: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a busy machine's doctor said that no worker runs."""
    rows = {"parse@a": [{"name": "parse"}, {"name": "diagnose"}], "notify@a": [{"name": "notify"}]}
    answers = iter([{"parse@a": rows["parse@a"]}, {"notify@a": rows["notify@a"]}])
    asked: list[float] = []

    def inspect(timeout: float) -> Any:
        asked.append(timeout)
        return SimpleNamespace(active_queues=lambda: next(answers))

    monkeypatch.setattr(doctor.current_app.control, "inspect", inspect)
    assert doctor.workers().sentence == "2 workers serve parse, diagnose, notify"
    assert asked == list(doctor.ANSWER_S)


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_workers_tell_which_queues_they_serve(worker: Any) -> None:
    wait_for(lambda: doctor.workers().state == "ok", lambda: doctor.workers().sentence)


LOCAL = {"HOST": "", "ENGINE": "django.db.backends.sqlite3"}


@pytest.mark.parametrize(
    ("database", "queue", "variables", "said"),
    [
        (LOCAL, "unix:///data/valkey.sock", {}, ""),
        ({"HOST": "localhost"}, "redis://127.0.0.1:6379/0", {"FAULTLINE_S3_ENDPOINT": "http://127.0.0.1:9000"}, ""),
        (LOCAL, "rediss://queue.example:6379/0", {"FAULTLINE_S3_ENDPOINT": "https://s3.example"}, ""),
        (LOCAL, "redis://:word@queue.example:6379/0", {}, "the queue (REDIS_URL: rediss://)"),
        (LOCAL, "unix:///q", {"FAULTLINE_S3_ENDPOINT": "http://s3.example"}, "the store (FAULTLINE_S3_ENDPOINT"),
        (LOCAL, "unix:///q", {"FAULTLINE_SMTP_HOST": "mail", "FAULTLINE_SMTP_TLS": "0"}, "the mail server"),
        ({"HOST": "db.example"}, "unix:///q", {}, "the database (DATABASE_URL: ?sslmode=verify-full)"),
    ],
)
def test_what_crosses_a_network_without_tls_is_named(
    settings: Any, monkeypatch: pytest.MonkeyPatch, database: Any, queue: str, variables: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(doctor, "_is_database_encrypted", lambda: False)
    monkeypatch.setitem(settings.DATABASES, "default", database)
    settings.REDIS_URL = queue
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = doctor.transport()
    assert (found.state, said in found.sentence) == ("warning" if said else "ok", True)
    assert "word" not in found.sentence


def test_postgresql_says_whether_its_connection_is_encrypted() -> None:
    if connection.vendor == "postgresql":
        assert doctor._is_database_encrypted() is False
