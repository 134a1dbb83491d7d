"""What processes tell of themselves, with a real Valkey: workers, memory, requests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, RedisError

from ingest import figures, processes, sweeper
from ingest.figures import ProcessFigures, Requests
from tests.pages import page_text
from triage.selectors.health import metrics_lines
from triage.serve.children import stop
from triage.serve.valkey import start_valkey

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield started.url
    stop(started.process)


@pytest.fixture
def told(valkey: str, settings: Any) -> Iterator[None]:
    settings.REDIS_URL = valkey
    with Redis.from_url(valkey) as client:
        client.flushall()
    yield


def read() -> dict[str, float]:
    rows = (line.rpartition(" ") for line in metrics_lines() if line[0] != "#")
    return {name: float(value) for name, _, value in rows}


def tell_as(name: str, told_figures: ProcessFigures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "process_name", lambda: name)
    figures.process_tell(told_figures)


def test_workers_are_counted_for_each_queue_that_they_serve(told: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {value for name, value in read().items() if name.startswith("faultline_workers{")} == {0}
    tell_as("a#1", ProcessFigures("worker", 100, slots=4, busy=1), monkeypatch)
    tell_as("b#1", ProcessFigures("parse", 50, slots=2, busy=2), monkeypatch)
    tell_as("b#2", ProcessFigures("web", 30), monkeypatch)
    tell_as("b#3", ProcessFigures("web", 30), monkeypatch)
    found = read()
    assert found['faultline_workers{queue="parse"}'] == 2
    assert found['faultline_workers{queue="notify"}'] == 1
    assert found['faultline_worker_processes{part="worker",state="idle"}'] == 3
    assert found['faultline_worker_processes{part="parse",state="idle"}'] == 0
    assert found['faultline_web_processes{part="web"}'] == 2
    assert found['faultline_memory_bytes{part="web"}'] == 60
    assert found['faultline_memory_bytes{part="queue"}'] > 1e6


def test_a_process_that_is_silent_for_a_minute_is_gone(told: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_as("a#1", ProcessFigures("parse", 100, slots=2), monkeypatch)
    monkeypatch.setattr(figures, "SILENT_AFTER_S", -1)
    assert read()['faultline_workers{queue="parse"}'] == 0


def test_a_worker_tells_how_many_of_its_processes_are_busy(told: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "_part", "diagnose")
    monkeypatch.setattr(sweeper, "_processes", 3)
    monkeypatch.setattr(sweeper.state, "active_requests", {"one"})
    sweeper.figures_tell()
    found = read()
    assert found['faultline_worker_processes{part="diagnose",state="busy"}'] == 1
    assert found['faultline_worker_processes{part="diagnose",state="idle"}'] == 2
    assert found['faultline_memory_bytes{part="diagnose"}'] > 10e6


def test_memory_is_that_of_a_process_and_all_that_it_started() -> None:
    program = "import subprocess, sys; x = bytearray(30 << 20); "
    child = [sys.executable, "-c", program + "print('ready', flush=True); sys.stdin.read()"]
    parent = program + f"subprocess.run({child!r})"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert 60 << 20 < processes.memory_bytes(process.pid) < 120 << 20
    finally:
        process.communicate()
    assert processes.memory_bytes(process.pid) == 0


def test_requests_of_all_processes_are_added_up_by_route(told: None) -> None:
    one, other = Requests(), Requests()
    one.add("queue", 200, 0.07)
    one.add("queue", 200, 0.3)
    other.add("queue", 503, 99.0)
    for requests in (one, other, one):
        requests.send()
    found = read()
    name = 'faultline_http_request_seconds_bucket{route="queue",le='
    limits = {match[1]: n for key, n in found.items() if (match := re.fullmatch(re.escape(name) + '"(.+)"}', key))}
    assert limits["0.05"] == 0
    assert (limits["0.1"], limits["0.5"], limits["10.0"], limits["+Inf"]) == (1, 2, 2, 3)
    assert found['faultline_http_request_seconds_sum{route="queue"}'] == pytest.approx(99.37)
    assert found['faultline_http_request_seconds_count{route="queue"}'] == 3
    assert found['faultline_http_responses_total{route="queue",status="5xx"}'] == 1


def test_what_was_counted_while_the_queue_was_away_is_told_later(told: None, valkey: str, settings: Any) -> None:
    requests = Requests()
    requests.add("queue", 200, 0.01)
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    with pytest.raises(RedisError):
        requests.send()
    settings.REDIS_URL = valkey
    requests.send()
    assert read()['faultline_http_responses_total{route="queue",status="2xx"}'] == 1


def test_without_the_queue_the_other_figures_are_there(client: Any, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    text = page_text(client.get("/metrics"))
    assert "faultline_broker_up 0\n" in text
    assert "\nfaultline_workers{" not in text, "nobody knows, so nobody is alarmed that there are none"
    assert "# TYPE faultline_workers gauge" in text


def test_the_names_of_processes_and_machines_stay_inside(told: None, client: Any) -> None:
    figures.process_tell(ProcessFigures("web", 1))
    text = page_text(client.get("/metrics"))
    assert processes.machine().partition("/")[0] not in text and f"#{os.getpid()}" not in text
    assert str(Path.cwd()) not in text
