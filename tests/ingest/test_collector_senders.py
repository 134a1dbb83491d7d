"""Real senders push to a running site: OpenTelemetry's exporter, clients of Loki, syslog-ng.

Those of other languages are skipped where they are not installed: Node packages are looked for in ``NODE_PATH``.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import logging_loki  # type: ignore[import-untyped]
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from ingest import services, signals
from ingest.models import Upload
from ingest.services import resuming
from tests.factories import make_user
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
LINES = [f"iteration {n}/20 loss 2.5" for n in range(1, 21)]


@pytest.fixture
def token(db: None, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(signals.artifact_ready, "receivers", [])
    monkeypatch.setenv("no_proxy", "*")
    engineer = make_user("engineer", "engineer")
    return services.token_create(user=engineer, name="collector", scopes=["upload"])[1]


def stored(count: int = 1) -> list[str]:
    """The lines of the only file, once it has so many."""
    until = time.monotonic() + PATIENCE_S
    while True:
        upload = Upload.objects.first()
        lines = resuming.part_path_of(upload).read_text().splitlines() if upload is not None else []
        if len(lines) >= count or time.monotonic() > until:
            assert Upload.objects.count() <= 1
            return lines
        time.sleep(0.1)


def check_lines() -> None:
    lines = stored(len(LINES))
    assert [line.partition("iteration")[1:] for line in lines] == [line.partition("iteration")[1:] for line in LINES]
    assert all(line.startswith("20") for line in lines), "each has the time of its record"


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
def test_opentelemetrys_python_exporter(live_server: Any, token: str, compression: Compression) -> None:
    exporter = OTLPLogExporter(
        f"{live_server.url}/v1/logs", headers={"authorization": f"Bearer {token}"}, compression=compression
    )
    resource = Resource.create({"service.name": "trainer", "host.name": "node-1", "slurm.job.id": "4711"})
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = logging.Logger("train.loop")
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for line in LINES[:-1]:
        logger.info(line)
    try:
        raise RuntimeError("NCCL error")
    except RuntimeError:
        logger.exception(LINES[-1])
    provider.shutdown()
    upload = Upload.objects.get()
    assert (upload.job.slug, upload.path) == ("4711", "node-1/output.log")
    lines = stored()
    assert "[INFO] [train.loop] iteration 1/20" in lines[0]
    assert "[ERROR] [train.loop] iteration 20/20" in lines[19]
    assert lines[20].split(" ", 1)[1].startswith("Traceback")  # each line has the time of its record
    assert lines[-1].endswith("RuntimeError: NCCL error")


def test_a_python_client_of_loki(live_server: Any, token: str) -> None:
    handler = logging_loki.LokiHandler(
        url=f"{live_server.url}/loki/api/v1/push",
        tags={"job_id": "4711", "host": "node-1"},
        auth=("any", token),
    )
    logger = logging.Logger("train")
    logger.addHandler(handler)
    for line in LINES:
        logger.info(line)
    assert len([line for line in stored(20) if "iteration" in line]) == 20


def node(script: str, *packages: str, **environment: str) -> None:
    """Run a script of Node with packages that must be installed."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed")
    for package in packages:
        found = subprocess.run([program, "-e", f"require.resolve('{package}')"], check=False, capture_output=True)
        if found.returncode:
            pytest.skip(f"{package} is not in NODE_PATH")
    ran = subprocess.run(
        [program, "-e", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_pino_loki(live_server: Any, token: str) -> None:
    script = """
    const pino = require('pino');
    const transport = pino.transport({target: require.resolve('pino-loki'), options: {host: process.env.URL,
      batching: {interval: 1},
      labels: {job_id: '4711', host: 'node-1'}, basicAuth: {username: 'any', password: process.env.TOKEN}}});
    const logger = pino(transport);
    for (const line of JSON.parse(process.env.LINES)) logger.info(line);
    setTimeout(() => transport.end(), 200);
    """
    node(script, "pino", "pino-loki", URL=live_server.url, TOKEN=token, LINES=json.dumps(LINES))
    assert len([line for line in stored(20) if "iteration" in line]) == 20


@pytest.fixture
def syslog_ng(tmp_path: Path, live_server: Any, token: str) -> Any:
    program = shutil.which("syslog-ng", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or not list(Path("/usr/lib/syslog-ng").glob("*/libhttp.so")):
        pytest.skip("syslog-ng with its http module is not installed")
    log = tmp_path / "train.log"
    log.touch()
    configuration = tmp_path / "syslog-ng.conf"
    configuration.write_text(
        f"""@version: 3.38
source s {{ file("{log}" flags(no-parse) follow-freq(0.2)); }};
destination d {{
  http(url("{live_server.url}/api/v1/lines/") method("POST")
    headers("Authorization: Bearer {token}", "Content-Type: application/x-ndjson", "Faultline-Job: 4711")
    body("$(format-json time=$ISODATE host=node-1 message=$MSG)")
    batch-lines(10) batch-timeout(200) delimiter("\\n"));
}};
log {{ source(s); destination(d); }};
"""
    )
    parts = {"-R": "persist", "-c": "control", "-p": "pid"}
    options = [word for option, name in parts.items() for word in (option, str(tmp_path / name))]
    process = subprocess.Popen([program, "-F", "-f", str(configuration), "--no-caps", *options], stderr=subprocess.PIPE)
    yield log
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)


def test_syslog_ng(syslog_ng: Path) -> None:
    with syslog_ng.open("a") as file:
        file.writelines(f"{line}\n" for line in LINES)
    check_lines()


def test_a_client_that_is_told_to_wait_sends_the_batch_again(
    live_server: Any, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest.services import appending

    write: Callable[..., None] = appending._write
    calls = []

    def full(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        write(*given)

    monkeypatch.setattr(appending, "_write", full)
    exporter = OTLPLogExporter(f"{live_server.url}/v1/logs", headers={"authorization": f"Bearer {token}"})
    provider = LoggerProvider(resource=Resource.create({"slurm.job.id": "4711"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = logging.Logger("train")
    logger.addHandler(LoggingHandler(logger_provider=provider))
    logger.warning("only once")
    provider.force_flush()
    assert len(stored()) == 1
    assert len(calls) == 2
    provider.shutdown()
