import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, WORK_S, wait_for
from tests.processes import is_alive
from triage.places import ROOT
from triage.serve.children import ServiceError, free_port, spawn, stop, wait_until
from triage.serve.valkey import start_valkey, valkey_url

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's own")


@linux
def test_a_child_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import time; from pathlib import Path; from triage.serve.valkey import start_valkey; "
        f"v = start_valkey(Path({str(tmp_path)!r})); print(v.process.pid, flush=True); time.sleep({WORK_S})"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_alive(child), "the end of the child")


def test_what_was_queued_survives_a_kill_of_valkey(tmp_path: Path) -> None:
    import redis

    first = start_valkey(tmp_path)
    redis.Redis.from_url(first.url).rpush("queue", *range(100))
    redis.Redis.from_url(first.url).execute_command("WAITAOF", 1, 0, PATIENCE_S * 1000)  # once a second it is written
    first.process.kill()
    first.process.wait()
    second = start_valkey(tmp_path)
    assert redis.Redis.from_url(second.url).llen("queue") == 100
    stop(second.process)


def test_a_long_directory_gets_a_loopback_port_because_a_socket_path_has_108_bytes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    assert valkey_url(Path("/short")) == "unix:///short/valkey.sock"
    valkey = start_valkey(deep)
    assert valkey.url.startswith("redis://127.0.0.1:")
    stop(valkey.process)


def test_a_server_that_ends_at_once_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn([sys.executable, "-c", "print('first'); print('cannot go on')"], log=log)
    with pytest.raises(ServiceError, match=r"The thing did not start .*cannot go on"):
        wait_until(lambda: False, process, what="The thing", log=log)


def test_stopping_ends_children_of_the_child_that_ignore_the_polite_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pid = os.fork()\n"
        "if pid: print(pid, flush=True)\n"
        f"time.sleep({WORK_S})\n"
    )
    process = spawn([sys.executable, "-c", program], log=log)
    wait_for(lambda: log.read_text().strip().isdigit(), "the number of the grandchild")
    grandchild = int(log.read_text())
    stop(process, grace_s=0.2)
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: not is_alive(grandchild), "the end of the grandchild")


def test_free_ports_differ_from_those_in_use() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert free_port() != taken.getsockname()[1]
