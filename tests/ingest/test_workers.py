"""The same with a real broker and real workers, which are killed in the middle of their work."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import current_app

from ingest import services, tasks
from ingest.models import Artifact, Job, Run
from tests.archives import tar_of
from tests.hostile_files import PANICKING_PARQUET, nested_parquet
from tests.ingest.conftest import LOG
from tests.patience import WORK_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.django_db(transaction=True)]


def until(is_so: Callable[[], bool]) -> None:
    wait_for(is_so, lambda: list(Run.objects.values("kind", "state", "error")), WORK_S)


def send(job: Job, count: int, lines: int = 1) -> None:
    members = {f"rank{n}/stdout.log": LOG * lines + b"rank %d\n" % n for n in range(count)}
    services.artifact_receive(job=job, path="all.tar.gz", chunks=[tar_of(members)])


def parsed() -> int:
    return Artifact.objects.filter(state="parsed").count()


def test_an_upload_is_read_by_a_worker_of_its_own(job: Job, worker: Any) -> None:
    send(job, 5)
    until(lambda: parsed() == 5)
    # an artifact is there a moment before the run that made it has ended
    until(
        lambda: set(Run.objects.filter(kind__in=("unpack", "parse")).values_list("state", flat=True)) == {"succeeded"}
    )


def test_a_worker_killed_while_parsing_has_its_work_done_by_the_next_and_nothing_is_doubled(
    job: Job, start_worker: Any
) -> None:
    patient = {"FAULTLINE_READING_SILENCE_S": "86400"}  # a lease beyond the patience of this test
    first = start_worker(**patient)
    send(job, 40, lines=150)  # more than a mebibyte each: the one that is being read is marked
    until(lambda: Run.objects.filter(kind="parse", state="running").exists())
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert parsed() < 40
    start_worker(**patient)
    until(lambda: parsed() == 40)
    assert Artifact.objects.count() == 40
    assert max(run.tries for run in Run.objects.filter(kind="parse")) >= 2
    # An end from outside is a claim, but no try of the run's own; nor is going on later, as on a busy machine.
    assert {run.own_tries for run in Run.objects.filter(kind="parse")} == {1}
    job.refresh_from_db()
    assert job.revision == 1


def test_what_was_uploaded_while_the_broker_was_away_is_read_when_it_is_back(
    job: Job, start_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tasks.unpack.apply_async
    nowhere = current_app.connection_for_write(url="redis+socket:///nowhere/valkey.sock")
    with monkeypatch.context() as patched:
        patched.setattr(tasks.unpack, "apply_async", lambda *given, **more: real(*given, **more, connection=nowhere))
        send(job, 3)
    assert Run.objects.get().sent_at is None
    start_worker()
    until(lambda: parsed() == 3)


#: Python runs this before a program: whatever opens the file of this digest in a reader, reads the address 0.
_CRASHES = """
import ctypes, sys

def crash(event, arguments):
    if event == "open" and str(arguments[0]).endswith("{digest}"):
        ctypes.string_at(0)

if "ingest.isolation.forkserver" in sys.orig_argv:
    sys.addaudithook(crash)
"""


def test_files_that_libraries_cannot_handle_cost_themselves_alone(job: Job, start_worker: Any, tmp_path: Path) -> None:
    hostile = {
        "crash.log": LOG + b"crash\n",
        "flows.parquet": PANICKING_PARQUET,
        "nested.parquet": nested_parquet(5000),
    }
    digest = hashlib.sha256(hostile["crash.log"]).hexdigest()
    (tmp_path / "sitecustomize.py").write_text(_CRASHES.replace("{digest}", digest))
    start_worker(FAULTLINE_READING_MEMORY_BYTES=str(1 << 30), PYTHONPATH=str(tmp_path))
    members = {"a.log": LOG, **hostile, "z.log": LOG + b"more\n"}
    services.artifact_receive(job=job, path="all.tar.gz", chunks=[tar_of(members)])
    until(lambda: Artifact.objects.exclude(settled_at=None).count() == 5)
    said = {artifact.path: (artifact.state, artifact.problem) for artifact in Artifact.objects.all()}
    assert [said["a.log"], said["z.log"]] == [("parsed", "")] * 2
    assert said["crash.log"][0] == "failed"
    assert "The process that read this crashed (Segmentation fault): it was left out." in said["crash.log"][1]
    assert said["flows.parquet"][0] in ("skipped", "failed")
    assert "cannot be read" in said["flows.parquet"][1]
    assert said["nested.parquet"][0] == "skipped"
    assert "nest too deeply" in said["nested.parquet"][1]
    until(lambda: set(Run.objects.filter(kind="parse").values_list("state", flat=True)) == {"succeeded"})
