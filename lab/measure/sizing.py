"""Memory and processor time of each part of an installation under three loads.

    python -m lab.measure sizing [--loads small,medium,large]

Starts PostgreSQL, Valkey and every part as a process of its own (two processes each), opens pages without pause, and
sends jobs one after another, each of which is read and diagnosed. Prints for each part the memory before the load, its
peak under the load (each process's own share, PSS, twice a second), and its CPU seconds. Wall times mean nothing here.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ingest import processes
from lab.measure.site import ROOT
from scripts.services import postgres_server
from triage.serve.children import free_port, spawn, stop, wait_until
from triage.serve.valkey import start_valkey

SERVERS, WORKERS = ("web", "uploads"), ("parse", "diagnose", "notify")
PAGES = ("/", "/jobs/", "/incidents/", "/running/", "/statistics/")
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.5
_JOB_MAX_S = 1800
_CAST = """
from django.contrib.auth import get_user_model
from django.test import Client
from ingest.services import token_create
user = get_user_model().objects.create_superuser("measure")
client = Client(headers={"host": "localhost"})
client.force_login(user)
print(token_create(user=user, name="measure", scopes=["upload", "read"])[1], client.cookies["sessionid"].value)
"""


@dataclass(frozen=True, slots=True)
class Load:
    jobs: int
    files: int
    file_bytes: int
    readers: int

    def __str__(self) -> str:
        size = self.files * self.file_bytes / 2**20
        return f"{self.jobs} jobs of {self.files} logs ({size:.0f} MiB), {self.readers} readers of pages"


LOADS = {
    "small": Load(jobs=3, files=8, file_bytes=1 << 20, readers=1),
    "medium": Load(jobs=3, files=128, file_bytes=1 << 20, readers=4),
    "large": Load(jobs=1, files=512, file_bytes=1 << 20, readers=2),
}


@dataclass(slots=True)
class Cost:
    idle_bytes: int = 0
    peak_bytes: int = 0
    cpu_s: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", default=",".join(LOADS))
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faultline-parts-")))
        env, pids, token, cookie = _start(folder, stack)
        for name in args.loads.split(","):
            load = LOADS[name]
            costs = _measure(load, name, folder, env, pids, token, cookie)
            print(f"\n{name}: {load}\n{'part':18}{'idle MiB':>10}{'peak MiB':>10}{'CPU s':>8}")
            for part, cost in costs.items():
                print(f"{part:18}{cost.idle_bytes / 2**20:10.0f}{cost.peak_bytes / 2**20:10.0f}{cost.cpu_s:8.1f}")


def _start(folder: Path, stack: contextlib.ExitStack) -> tuple[dict[str, str], dict[str, int], str, str]:
    """Variables, the first process of each part, and a token and a session of an administrator."""
    database = stack.enter_context(postgres_server())
    queue = start_valkey(folder / "queue")
    stack.callback(stop, queue.process)
    foreign = ("DJANGO_SETTINGS_MODULE", "FAULTLINE_STATIC_DIR")
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    env |= {"DATABASE_URL": database.url, "REDIS_URL": queue.url, "FAULTLINE_DATA_DIR": str(folder / "data")}
    env |= {"FAULTLINE_SECRET_KEY": "k" * 48, "FAULTLINE_DEMO": "0", "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}
    env |= {"FAULTLINE_WEB_PROCESSES": "2", "FAULTLINE_WORKER_PROCESSES": "2"}
    command = [sys.executable, "-m", "triage.serve"]
    subprocess.run([*command, "manage", "prepare"], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    made = subprocess.run(
        [*command, "manage", "shell", "-v", "0", "-c", _CAST], cwd=ROOT, env=env, check=True, capture_output=True
    )
    token, cookie = made.stdout.decode().split()[-2:]
    pids = {"PostgreSQL": database.pid, "Valkey": queue.process.pid}
    for part in (*SERVERS, *WORKERS):
        log, port = folder / f"{part}.log", str(free_port())
        process = spawn([*command, "serve", part], log=log, env={**env, "FAULTLINE_PORT": port})
        stack.callback(stop, process, grace_s=20)
        pids[part] = process.pid
        if part in SERVERS:
            env[f"PORT_{part}"] = port
        ready = "Started worker" if part in SERVERS else "ready."
        wait_until(lambda log=log, ready=ready: ready in log.read_text(), process, what=part, log=log, timeout_s=300)  # type: ignore[misc]
    return env, pids, token, cookie


def _measure(
    load: Load, name: str, folder: Path, env: dict[str, str], pids: dict[str, int], token: str, cookie: str
) -> dict[str, Cost]:
    evidence = folder / f"evidence-{name}"
    _write(evidence, load)
    time.sleep(20)  # the readers have loaded the engine
    costs: dict[str, Cost] = defaultdict(Cost)
    for part, (memory, cpu) in _usage(pids).items():
        costs[part] = Cost(memory, memory, -cpu)
    is_over = threading.Event()
    threads = [threading.Thread(target=_watch, args=(pids, costs, is_over))]
    threads += [threading.Thread(target=_read, args=(env["PORT_web"], cookie, is_over)) for _ in range(load.readers)]
    for thread in threads:
        thread.start()
    try:
        for number in range(load.jobs):
            _send(evidence, f"{name}-{number}", env, token)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    for part, (_, cpu) in _usage(pids).items():
        costs[part].cpu_s += cpu
    return costs


def _write(folder: Path, load: Load) -> None:
    """Logs of a training job of which one rank fails at the end."""
    folder.mkdir()
    for rank in range(load.files):
        with (folder / f"rank-{rank}.log").open("w") as log:
            step = 0
            while log.tell() < load.file_bytes:
                at = f"2026-11-21 {3 + step // 3600:02d}:{step // 60 % 60:02d}:{step % 60:02d},{rank % 1000:03d}"
                log.write(f"{at} INFO [rank{rank}] iteration {step} | loss {2 + step % 7 / 10:.3f} | lr 1e-4\n")
                step = (step + 1) % 72_000
            if rank == load.files // 2:
                log.write(f"{at} ERROR [rank{rank}] CUDA error: an illegal memory access was encountered\n")


def _send(evidence: Path, job: str, env: dict[str, str], token: str) -> None:
    client = {**env, "PYTHONPATH": str(ROOT / "client"), "FAULTLINE_TOKEN": token}
    client["FAULTLINE_URL"] = f"http://127.0.0.1:{env['PORT_uploads']}"
    argv = [sys.executable, "-m", "faultline", "upload", str(evidence), "--job", job, "--diagnose"]
    subprocess.run([*argv, "--wait", str(_JOB_MAX_S)], env=client, check=True, stdout=subprocess.DEVNULL)


def _read(port: str, cookie: str, is_over: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    while not is_over.is_set():
        for page in PAGES:
            connection.request("GET", page, headers={"Cookie": f"sessionid={cookie}"})
            connection.getresponse().read()


def _watch(pids: dict[str, int], costs: dict[str, Cost], is_over: threading.Event) -> None:
    while not is_over.wait(_POLL_S):
        for part, (memory, _) in _usage(pids).items():
            costs[part].peak_bytes = max(costs[part].peak_bytes, memory)


def _usage(pids: dict[str, int]) -> dict[str, tuple[int, float]]:
    """Memory and CPU seconds since its start of each part, readers of evidence apart from the workers."""
    found: dict[str, tuple[int, float]] = {}
    for part, pid in pids.items():
        tree = processes.tree(pid)
        readers = {member for member in tree if _is_reader(member)}
        found[part] = _sum(tree - readers)
        if part in WORKERS:
            found[f"{part}: readers"] = _sum(readers)
    return found


def _sum(pids: set[int]) -> tuple[int, float]:
    return sum(map(processes.share_bytes, pids)), sum(map(_cpu_s, pids))


def _is_reader(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"ingest.isolation" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _cpu_s(pid: int) -> float:
    """Of a process and of those that it waited for."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


if __name__ == "__main__":
    main()
