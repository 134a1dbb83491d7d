"""All files of the hostile corpus at once, through both doors: they cost little, and their neighbours are read."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from diagnosis.archive import archives
from ingest import selectors, services
from ingest.models import Artifact, Run, Upload
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.unpacking import upload_unpack
from tests.archives import tar_of
from tests.factories import make_user
from tests.hostile_corpus import LOG, classes, files
from triage.models import Diagnosis
from triage.services.diagnosing import job_diagnose

#: seconds of CPU and bytes for all files together, ten seconds and a GB for each would be far more
CPU_S, PEAK_BYTES = 120, 1 << 30
CPU_S_OF_A_FILE = 10
ACTS = {Run.Kind.UNPACK: upload_unpack, Run.Kind.PARSE: artifacts_parse}
GOOD = LOG + b"2026-03-01 08:01:00 ERROR RuntimeError: CUDA error: an illegal memory access was encountered\n"
ROOT = Path(__file__).resolve().parents[2]


def test_the_corpus_is_large_and_small() -> None:
    made = files()
    assert len(made) >= 300
    assert sum(map(len, made.values())) < 20_000_000


def test_the_command_line_reads_the_good_log_beside_all_of_them(tmp_path: Path) -> None:
    for name, data in (files() | {"good.log": GOOD}).items():
        file = tmp_path / "job" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    argv = [sys.executable, "-m", "diagnosis", str(tmp_path / "job"), "--json"]
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL, cwd=ROOT, preexec_fn=_limit)  # noqa: PLW1509  # no thread runs
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss << 10 < PEAK_BYTES
    report = json.loads((tmp_path / "out").read_text())
    rows = Counter(row["path"] for row in report["inputs"])
    assert [row["lines"] for row in report["inputs"] if row["path"] == "good.log"] == [31]
    plain = [name for name, data in files().items() if not archives.format_of(data[: archives.HEAD_BYTES], name)]
    assert {name: rows[name] for name in plain if rows[name] != 1} == {}
    told = Counter(row["path"] for row in report["inputs"] if row["skipped"])
    assert {name: told[name] for name in files() if told[name] > 1} == {}  # also about an archive: one sentence
    assert report["headline"]


def _limit() -> None:
    """A file that never ends is ended by the system."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


@pytest.mark.django_db(transaction=True)
def test_an_upload_of_all_of_them_is_settled_and_diagnosed(settings: Any, monkeypatch: Any) -> None:
    job = services.job_create(name="Hostile")
    settings.READING_IS_APART = True
    settings.READING_MEMORY_BYTES = PEAK_BYTES
    settings.READING_CPU_S, settings.READING_CPU_S_PER_MB = CPU_S_OF_A_FILE, 0  # a file that takes more fails
    settings.READING_SILENCE_S = 100
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)  # runs wait, as with workers of their own
    everything = tar_of(files() | {"good.log": GOOD}, mode="w")
    services.artifact_receive(job=job, path="all.tar", chunks=[everything])
    _work_all()
    job.refresh_from_db()
    of_job = Run.objects.create(job=job, kind=Run.Kind.DIAGNOSE, parameters={"revision": job.revision})
    services.run_do(of_job.pk, job_diagnose)
    assert Upload.objects.get().state == Upload.State.SETTLED
    assert not Run.objects.exclude(state=Run.State.SUCCEEDED).exists()
    states = Counter(selectors.artifacts_of(job).values_list("state", flat=True))
    assert set(states) <= {Artifact.State.PARSED, Artifact.State.SKIPPED}
    good = Artifact.objects.get(path="good.log")
    assert (good.state, good.lines) == (Artifact.State.PARSED, 31)
    told = Artifact.objects.filter(state=Artifact.State.SKIPPED, problem="")
    assert not told.exists()  # each file that is left out has a sentence
    assert Diagnosis.objects.get().report["headline"]


@pytest.mark.django_db(transaction=True)
def test_one_of_each_class_is_sent_over_http_and_leaves_a_sentence_at_most(monkeypatch: Any) -> None:
    job = services.job_create(name="Hostile")
    _, secret = services.token_create(user=make_user("eve", "engineer"), name="x", scopes=["upload", "read"])
    client = APIClient(headers={"Authorization": f"Bearer {secret}"})
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
    last = {name: list(made.items())[-1] for name, made in classes().items()}
    sent = {"good.log": GOOD} | {f"{name}-{file.replace('/', '-')}": data for name, (file, data) in last.items()}
    for path, data in sent.items():
        address = f"/api/v1/jobs/{job.slug}/artifacts/{hashlib.sha256(data).hexdigest()}?path={path}"
        answer = client.put(address, data, content_type="application/octet-stream")
        assert answer.status_code in (201, 202), (path, answer.content)
    _work_all()
    told = Counter(
        problem["path"] for problem in client.get(f"/api/v1/jobs/{job.slug}/").json()["progress"]["problems"]
    )
    assert set(told.values()) <= {1}
    assert Artifact.objects.get(path="good.log").lines == 31
    assert not Artifact.objects.filter(settled_at=None).exists()
    assert not Artifact.objects.filter(state=Artifact.State.SKIPPED, problem="").exists()


def _work_all() -> None:
    while run := Run.objects.filter(state=Run.State.QUEUED).first():
        services.run_do(run.pk, ACTS[Run.Kind(run.kind)])
