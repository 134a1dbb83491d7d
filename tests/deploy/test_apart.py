"""The production form: PostgreSQL, Valkey, an S3 store, and each part a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.services import postgres
from tests.patience import PATIENCE_S, WORK_S
from triage.places import ROOT
from triage.serve.children import free_port, spawn, stop, wait_until
from triage.serve.valkey import start_valkey

pytestmark = pytest.mark.broker

_TOKEN = """
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from ingest.services import token_create
ada = get_user_model().objects.create_user("ada")
ada.groups.add(Group.objects.get_or_create(name="engineer")[0])
print(token_create(user=ada, name="test", scopes=["upload", "read"])[1])
"""


def faultline(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triage.serve", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=WORK_S, check=False)


@contextlib.contextmanager
def part(name: str, env: dict[str, str], log: Path, ready: str) -> Iterator[None]:
    process = spawn([sys.executable, "-m", "triage.serve", "serve", name], log=log, env=env)
    try:
        wait_until(lambda: ready in log.read_text(), process, what=name, log=log, timeout_s=WORK_S)
        yield
    finally:
        stop(process, grace_s=20)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of an installation whose database, queue and store run."""
    import boto3
    from moto.server import ThreadedMotoServer

    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    store = ThreadedMotoServer(port=0, verbose=False)
    store.start()
    queue = start_valkey(tmp_path / "queue")
    try:
        _, number = store.get_host_and_port()
        endpoint = f"http://127.0.0.1:{number}"
        boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        ).create_bucket(Bucket="faultline")
        with postgres() as url:
            foreign = ("DJANGO_SETTINGS_MODULE", "FAULTLINE_STATIC_DIR")
            inherited = {name: value for name, value in os.environ.items() if name not in foreign}
            yield (
                inherited
                | keys
                | {
                    "DATABASE_URL": url,
                    "REDIS_URL": queue.url,
                    "FAULTLINE_S3_BUCKET": "faultline",
                    "FAULTLINE_S3_ENDPOINT": endpoint,
                    "FAULTLINE_DATA_DIR": str(tmp_path / "data"),
                    "FAULTLINE_SECRET_KEY": "k" * 48,
                    "FAULTLINE_DEMO": "0",
                    "FAULTLINE_PORT": str(free_port()),
                    "FAULTLINE_WEB_PROCESSES": "1",
                    "FAULTLINE_WORKER_PROCESSES": "1",
                    "FAULTLINE_LOG_FORMAT": "json",
                    "PYTHONUNBUFFERED": "1",
                    "TMPDIR": str(tmp_path),
                }
            )
    finally:
        stop(queue.process)
        store.stop()


def test_parts_apart_diagnose_an_upload_and_the_doctor_misses_the_one_that_does_not_run(
    env: dict[str, str], tmp_path: Path
) -> None:
    prepared = faultline(env, "manage", "prepare")
    assert prepared.returncode == 0, prepared.stderr
    token = faultline(env, "manage", "shell", "-v", "0", "-c", _TOKEN).stdout.strip()
    url = f"http://127.0.0.1:{env['FAULTLINE_PORT']}"
    with contextlib.ExitStack() as running:
        running.enter_context(part("web", env, tmp_path / "web.log", "Started worker"))
        for name in ("parse", "diagnose"):
            running.enter_context(part(name, env, tmp_path / f"{name}.log", "ready."))
        for path in ("/livez", "/healthz"):
            with urllib.request.urlopen(f"{url}{path}", timeout=PATIENCE_S) as answer:
                assert json.load(answer)["status"] == "ok"
        answers = {name: faultline(env, "alive", name).returncode for name in ("web", "parse", "diagnose", "notify")}
        assert answers == {"web": 0, "parse": 0, "diagnose": 0, "notify": 1}
        client = {**env, "PYTHONPATH": str(ROOT / "client"), "FAULTLINE_URL": url, "FAULTLINE_TOKEN": token}
        argv = [sys.executable, "-m", "faultline", "upload", str(ROOT / "samples" / "sigkill_rank5.tar.gz")]
        argv += ["--job", "run", "--diagnose", "--wait", str(WORK_S), "--json"]
        sent = subprocess.run(argv, env=client, capture_output=True, text=True, timeout=2 * WORK_S, check=False)
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert len(json.loads(sent.stdout)["incidents"]) == 1
        found = faultline(env, "doctor", "--json")
        problems = {name: row["said"] for name, row in json.loads(found.stdout).items() if row["state"] == "problem"}
        assert problems == {"workers": "no worker serves notify"}, "all but the part that was not started"
        assert found.returncode == 1
        figures = urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S).read().decode()
        for figure in (
            'workers{queue="parse"} 1',
            'workers{queue="notify"} 0',
            'web_processes{part="web"} 1',
            'http_responses_total{route="api-job",status="2xx"}',
        ):
            assert f"\nfaultline_{figure}" in figures
    told = [json.loads(text) for name in ("parse", "diagnose") for text in lines(tmp_path / f"{name}.log")]
    runs = [line for line in told if "run" in line]
    assert len({line["trace_id"] for line in runs}) <= 2, "one request stored the archive, one asked for the diagnosis"
    assert {line["kind"] for line in runs} == {"unpack", "parse", "diagnose"}
    read = [line for line in runs if line["kind"] == "parse"]
    assert sum(line["lines"] for line in read) > 100
    assert {line["outcome"] for line in read} - {"goes on later"} == {"succeeded"}
    assert [
        line["message"] for line in told if line["logger"].startswith(("celery.app.trace", "celery.worker.str"))
    ] == []


def lines(log: Path) -> list[str]:
    return [text for text in log.read_text().splitlines() if text.startswith("{")]
