"""``faultline watch prometheus``: what exporters count about nodes, from Debian's Prometheus to the files of a job."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

from faultline import main as command
from faultline.prometheus import Prometheus
from faultline.words import UsageError
from ingest.models import Upload
from ingest.services import resuming
from tests.factories import make_job
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.django_db(transaction=True)
STEP = 15


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """A program that answers Prometheus's API with the given series, by metric."""
    servers = []

    def start(series: dict[str, Any], raw: bytes | None = None) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = parse_qs(urlsplit(self.path).query)["query"][0]
                body = raw or json.dumps({"status": "success", "data": {"result": series.get(name, [])}}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def series(*values: float, first: int = 0, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "values": [[1500 + STEP * (first + n), str(value)] for n, value in enumerate(values)]}


def texts(url: str) -> list[tuple[float, str, str]]:
    return [(one["at"], one["node"], one["message"]) for one in Prometheus(url, step_s=STEP).events(1500, 1600)]


def test_each_rise_of_a_counter_is_told_with_its_time(answering: Callable[..., str]) -> None:
    rises = series(1, 1, 3, 3, 2, 4, Hostname="gpu-7", gpu="3")
    assert texts(answering({"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": [rises]})) == [
        (1530, "gpu-7", "GPU 3: double bit ECC error, volatile count 3"),
        (1575, "gpu-7", "GPU 3: double bit ECC error, volatile count 4"),
    ], "a counter that an exporter began again is no failure"


def test_the_last_xid_is_told_when_it_changes(answering: Callable[..., str]) -> None:
    codes = series(0, 79, 79, 31, 0, Hostname="gpu-7", gpu="3")
    found = [text for _, _, text in texts(answering({"DCGM_FI_DEV_XID_ERRORS": [codes]}))]
    assert found == ["Xid 79 on GPU 3", "Xid 31 on GPU 3"]


def test_a_series_that_begins_with_a_failure_is_a_rise_and_one_that_was_there_is_not(
    answering: Callable[..., str],
) -> None:
    old = series(1, 1, 1, Hostname="gpu-6", xid="79")
    new = series(1, 1, first=3, Hostname="gpu-7", xid="79", gpu="3")
    assert texts(answering({"DCGM_EXP_XID_ERRORS_COUNT": [old, new]})) == [(1545, "gpu-7", "Xid 79 on GPU 3")]


def test_labels_that_are_missing_or_hostile_break_nothing(answering: Callable[..., str]) -> None:
    odd = [series(0, 1, instance="n:1", gpu="{0.__class__}" + "x" * 500), series(0, 1), {"metric": None}]
    ((_, node, text),) = texts(answering({"DCGM_FI_DEV_ROW_REMAP_FAILURE": odd}))
    assert node == "n:1" and len(text) < 200 and "{0.__class__}" in text


@pytest.mark.parametrize("raw", [b"<html>", b"{}", b'{"data": {"result": 7}}', b"[]"])
def test_an_answer_that_is_none_is_noted_and_asked_again_later(
    answering: Callable[..., str], raw: bytes, token: str, capsys: Any
) -> None:
    assert command.main(["watch", "prometheus", "--server", answering({}, raw), "--once"]) == 0
    assert "cannot be asked" in capsys.readouterr().err


def test_an_address_is_needed() -> None:
    with pytest.raises(UsageError, match="--server"):
        Prometheus("", step_s=15)


def test_a_real_prometheus_names_the_link_that_went_down(tmp_path: Path, token: str) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian has it)")
    job = make_job("run", nodes_text="gpu-7", declared_outcome="running", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    metric = 'node_infiniband_link_downed_total{{device="mlx5_0",port="1",node="gpu-7"}} {}\n'
    state = {"count": 0}

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(metric.format(state["count"]).encode())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    target = f"127.0.0.1:{server.server_address[1]}"
    config.write_text(
        "scrape_configs: [{job_name: node, scrape_interval: 1s, honor_labels: true, "
        f"static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    argv = [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data"]
    argv.append(f"--web.listen-address=127.0.0.1:{port}")
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def value() -> str:
        try:
            said = json.loads(urlopen(f"{url}/api/v1/query?query=node_infiniband_link_downed_total", timeout=5).read())
            return str(said["data"]["result"][0]["value"][1])
        except (OSError, LookupError):
            return ""

    try:
        wait_for(lambda: value() == "0")
        state["count"] = 1
        wait_for(lambda: value() == "1")

        def told() -> bool:
            command.main(["watch", "prometheus", "--server", url, "--once", "--every", "1", "--retry-for", "20"])
            return Upload.objects.filter(job=job, offset_bytes__gt=0).exists()

        wait_for(told, every_s=1.0)
        told()
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        server.shutdown()
    upload = Upload.objects.get(job=job)
    (line,) = resuming.part_path_of(upload).read_text().splitlines()
    assert upload.path == "gpu-7/health/prometheus.log"
    assert line.endswith("ERROR prometheus: mlx5_0 port 1: link went down"), "told twice, stored once"
    assert abs(datetime.fromisoformat(line.split()[0]).timestamp() - time.time()) < PATIENCE_S
