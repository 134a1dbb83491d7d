"""``faultline attribution`` between a restart controller and a running site: the requests of NVRx's client 0.7.0, as it
sent them to a socket, and that client itself where ``FAULTLINE_NVRX`` names a directory that has it.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline import attribution, attribution_http
from faultline.attribution import Attribution
from faultline.site import Site
from faultline.words import UsageError
from ingest.models import Artifact, Job, Upload
from tests.ingest.conftest import LOG
from tests.patience import PATIENCE_S, wait_for
from tests.triage.report import sample
from triage.services.diagnosing import diagnosis_store

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("token")]
NVRX = os.environ.get("FAULTLINE_NVRX", "")
#: what the client sends, without its Host and Content-Length
HEADERS = {
    "Accept-Encoding": "gzip, deflate, zstd",
    "Connection": "keep-alive",
    "User-Agent": "python-httpx/0.28.1",
    "accept": "application/json",
}


@pytest.fixture
def begin(live_server: Any, token: str, logs: Path, monkeypatch: Any) -> Iterator[Callable[..., int]]:
    """Starts the program's server; returns its port."""
    monkeypatch.setattr(attribution, "_POLL_S", 0.05)
    running: list[attribution_http.Server] = []

    def start(**more: Any) -> int:
        more = {"settle_s": 0.1, "deadline_s": PATIENCE_S, **more}
        service = Attribution(Site(live_server.url, token, retry_for_s=20), [logs], **more)
        server = attribution_http.server_of("127.0.0.1:0", service)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running.append(server)
        return int(server.server_address[1])

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
        server.service.stop(PATIENCE_S)


def ask(port: int, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    more = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, target, body, {**HEADERS, **more, **headers})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def post(port: int, path: Path | str, intent: str, **more: Any) -> tuple[int, Any]:
    said = {"log_path": str(path), "user": "ada", "job_id": "4711", "analysis_intent": intent, **more}
    return ask(port, "POST", "/logs", json.dumps(said, separators=(",", ":")).encode())


def get(port: int, path: Path | str, wait: str = "false") -> tuple[int, Any]:
    return ask(port, "GET", f"/logs?log_path={str(path).replace('/', '%2F')}&wait={wait}")


def diagnosed(number: int = 0) -> None:
    """Do what the site's workers do: diagnose the attempt, once its log is there."""
    wait_for(lambda: Artifact.objects.filter(attempt__number=number).exists())
    job = Job.objects.get()
    revision = job.revision
    diagnosis_store(attempt=job.attempts.get(number=number), revision=revision, report=sample())
    Job.objects.update(diagnosing_revision=revision, diagnosed_revision=revision)


def test_a_failed_cycle_is_followed_sent_and_answered_with_the_machines_to_leave_out(
    begin: Callable[..., int], logs: Path
) -> None:
    port, log = begin(), logs / "llama_cycle3.log"
    log.write_bytes(LOG[:1000])
    status, said = post(port, log, "progressive")
    assert (status, said["submitted"], said["normalized_path"]) == (200, True, str(log))
    wait_for(lambda: Upload.objects.filter(offset_bytes=1000).exists())
    assert get(port, log)[1]["status"] == "pending"
    log.write_bytes(LOG)
    assert post(port, log, "terminal")[0] == 200
    assert get(port, log)[1]["status"] == "in_flight", "the answer does not wait for the diagnosis"
    diagnosed(3)
    status, told = get(port, log, "true")
    assert (status, told["status"]) == (200, "completed")
    assert told["recommendation"]["action"] == "RESTART"
    assert told["recommendation"]["exclude_nodes"] == told["result"]["exclude_nodes"] == ["gpu-0412"]
    assert told["result"]["url"].endswith(f"/incidents/{told['result']['result_id'].removeprefix('incident-')}/")
    artifact = Artifact.objects.get()
    assert (artifact.path, artifact.attempt.number, artifact.attempt.job.slug) == ("llama_cycle3.log", 3, "4711")


def test_the_next_cycle_ends_the_one_before(begin: Callable[..., int], logs: Path) -> None:
    port = begin()
    for number in (0, 1):
        (logs / f"a_cycle{number}.log").write_bytes(LOG)
        post(port, logs / f"a_cycle{number}.log", "progressive")
    wait_for(lambda: Artifact.objects.filter(path="a_cycle0.log").exists())
    assert not Artifact.objects.filter(path="a_cycle1.log").exists()


def test_an_answer_is_given_within_the_deadline(begin: Callable[..., int], logs: Path) -> None:
    port = begin(deadline_s=0.3, settle_s=PATIENCE_S)  # the file still grows when the time is over
    (logs / "a.log").write_bytes(LOG)
    post(port, logs / "a.log", "terminal")
    _, told = get(port, logs / "a.log", "true")
    assert (told["status"], told["recommendation"]["action"]) == ("completed", "TIMEOUT")


def test_a_site_that_does_not_answer_leaves_a_reason(logs: Path, tmp_path: Path) -> None:
    (logs / "a.log").write_bytes(LOG)
    service = Attribution(Site("http://127.0.0.1:9", "fl_x", retry_for_s=0), [logs], settle_s=0.0)
    service.submit({"log_path": str(logs / "a.log"), "analysis_intent": "terminal"})
    told = service.answer(str(logs / "a.log"), is_waiting=True)
    assert told["recommendation"]["action"] == "UNKNOWN" and "cannot be reached" in told["recommendation"]["reason"]


def test_only_logs_of_the_given_directories_are_read(begin: Callable[..., int], logs: Path, tmp_path: Path) -> None:
    port = begin()
    secret = tmp_path / "secret.log"
    secret.write_text("x")
    (logs / "link.log").symlink_to(secret)
    for path, code in (
        (secret, "outside_root"),
        (logs / "link.log", "outside_root"),
        (logs / ".." / "secret.log", "outside_root"),
        ("relative.log", "invalid_path"),
        (f"{logs}/a\0b", "invalid_path"),
    ):
        status, said = post(port, path, "terminal")
        assert status in (400, 403) and said["error_code"] == code, path
    (logs / "folder").mkdir()
    assert post(port, logs / "folder", "terminal")[1]["error_code"] == "not_regular"
    assert get(port, logs / "never.log")[1]["error_code"] == "not_found"
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "said",
    [
        b"{",
        b"[]",
        b"[" * 50_000,
        b'{"log_path": 7}',
        b'{"log_path": "/x", "analysis_intent": "explode"}',
    ],
)
def test_a_request_that_makes_no_sense_is_refused(begin: Callable[..., int], said: bytes) -> None:
    assert ask(begin(), "POST", "/logs", said)[0] in (400, 403)


def test_wrong_numbers_and_pages_of_a_browser_are_refused(begin: Callable[..., int], logs: Path) -> None:
    port = begin()
    for cycle in (-1, True, 1.5, "1", 1 << 40):
        assert post(port, logs / "a.log", "terminal", cycle_id=cycle)[0] == 400, cycle
    assert post(port, logs / "a.log", "terminal", job_id="…")[0] == 400
    assert ask(port, "POST", "/logs", b"{}", **{"Content-Type": "text/plain"})[0] == 400
    assert ask(port, "GET", f"/logs?log_path={logs}/a.log&wl_restart=1")[1]["error_code"] == "invalid_parameter"
    assert ask(port, "GET", "/etc")[0] == 404
    assert ask(port, "GET", "/healthz") == (200, {"status": "ok"})


@pytest.mark.parametrize("listen", ["0.0.0.0:8000", "10.0.0.1:1", "example.org:80", "8000", "127.0.0.1:99999"])
def test_it_listens_to_this_machine_alone(logs: Path, listen: str) -> None:
    with pytest.raises(UsageError):
        attribution_http.server_of(listen, Attribution(Site("http://x", "t"), [logs]))


def test_a_unix_socket_is_readable_by_its_owner_alone(logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    for _ in range(2):  # the second finds the socket of the first
        server = attribution_http.server_of(f"unix://{path}", Attribution(Site("http://x", "t"), [logs]))
        assert path.stat().st_mode & 0o777 == 0o600
        server.server_close()


@pytest.mark.skipif(not NVRX, reason="FAULTLINE_NVRX names no directory with nvidia-resiliency-ext")
def test_the_real_client_latches_the_stop(begin: Callable[..., int], logs: Path, monkeypatch: Any) -> None:
    port, log = begin(), logs / "a_cycle0.log"
    log.write_bytes(LOG)
    told = {"status": "completed", "action": "STOP", "reason": "A wrong argument.", "exclude_nodes": []}
    monkeypatch.setattr(Attribution, "_final_answer", lambda *_: told)
    code = f"""
import time
from nvidia_resiliency_ext.shared_utils.health_check import AttributionService
service = AttributionService("http://127.0.0.1:{port}", enforce_stop=True)
service.start_poller()
service._submit_log({str(log)!r})
service.request_terminal_analysis()
end = time.monotonic() + {PATIENCE_S}
while not service.stop_requested() and time.monotonic() < end:
    time.sleep(0.05)
print(service.stop_requested())
"""
    env = {**os.environ, "PYTHONPATH": NVRX, "SLURM_JOB_ID": "4711", "SLURM_JOB_USER": "ada"}
    argv = [sys.executable, "-c", code]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.stdout.strip() == "True", ran.stderr
