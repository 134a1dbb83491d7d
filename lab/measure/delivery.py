"""Messages of routes while workers are killed: `python -m lab.measure delivery [--incidents 1000] [--seconds 60]`.

Starts two real workers and a broker, and opens incidents evenly over the time. Three routes go to receivers that
answer at once, after 20 ms, or after 200 ms; one receiver accepts connections and never answers; one answers 500
once in a hundred times. Every few seconds a whole worker is killed (-9) and started again, until all incidents are
open and for `--kill-on` further seconds. Then it checks that each living route got every message, in order, and prints
the states of the messages, repeats (a worker was killed between sending and recording), delays, and the CPU seconds of
the workers (without `--kill-every`: no starts of workers among them). Meanwhile somebody reads the list of incidents
twice a second; the times are compared with those of 15 s before. Also sends 100 requests to private addresses, written
in many ways, and counts connections.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.measure.site import Reader, quantile, served
from scripts.scratch import scratch_site

#: seconds until a receiver answers; None: never
RECEIVERS: dict[str, float | None] = {
    "at-once": 0.0,
    "20 ms": 0.02,
    "200 ms": 0.2,
    "1 % fail": 0.0,
    "dead": None,
}
_REST_S = 540


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kill-every", type=float, default=8, metavar="S", help="0: never")
    parser.add_argument("--kill-on", type=float, default=30, metavar="S", help="kill workers after the last incident")
    args = parser.parse_args()
    with scratch_site(FAULTLINE_ROUTES_ALLOW="127.0.0.0/8") as folder:
        return _run(args, folder)


class _Receivers:
    """Receivers on one port, one path each: what came, in order, with its time."""

    def __init__(self) -> None:
        self.got: dict[str, list[tuple[str, float]]] = defaultdict(list)
        outer, draw = self, random.Random(1)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                name = list(RECEIVERS)[int(self.path.strip("/"))]
                wait = RECEIVERS[name]
                time.sleep(60 if wait is None else wait)
                is_bad = name.startswith("1 %") and draw.random() < 0.01
                if wait is not None and not is_bad:
                    outer.got[name].append((self.headers["webhook-id"], time.time()))
                self.send_response(500 if is_bad else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class _Workers:
    """Two real workers, of which one is killed now and then."""

    def __init__(self, folder: Path, every_s: float) -> None:
        self.folder, self.every_s, self.killed, self.cpu_s = folder, every_s, 0, 0.0
        self.is_calm, self.is_over = threading.Event(), threading.Event()
        self.processes = [self._start() for _ in range(2)]
        self.thread = threading.Thread(target=self._kill, daemon=True)
        self.thread.start()

    def _start(self) -> Any:
        from triage.serve.children import spawn

        argv = [sys.executable, "-m", "celery", "-A", "triage.celery", "worker", "--queues", "parse,diagnose,notify"]
        log = self.folder / f"worker-{time.monotonic_ns()}.log"
        return spawn([*argv, "-c", "2", "--without-gossip", "--without-mingle"], log=log, env=dict(os.environ))

    def started(self) -> float:
        """Wait until both have started; the CPU seconds that this took."""
        logs = [Path(name) for name in self.folder.glob("worker-*.log")]
        while not all("ready." in log.read_text() for log in logs):
            time.sleep(0.5)
        time.sleep(3)  # the engine is loaded for readers
        return sum(_cpu_s(process.pid) for process in self.processes)

    def _kill(self) -> None:
        draw = random.Random(2)
        while not self.is_calm.wait(self.every_s or None):
            n = draw.randrange(2)
            self.cpu_s += _cpu_s(self.processes[n].pid)
            os.killpg(self.processes[n].pid, signal.SIGKILL)
            self.processes[n] = self._start()
            self.killed += 1
        self.is_over.wait()  # what a thread started ends with the thread

    def end(self) -> None:
        from triage.serve.children import stop

        self.is_calm.set()
        self.is_over.set()
        for process in self.processes:
            self.cpu_s += _cpu_s(process.pid)
            stop(process)


def _cpu_s(group: int) -> float:
    """CPU seconds of the processes of a group and of their children that ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(args: argparse.Namespace, folder: Path) -> int:
    from django.contrib.auth import get_user_model

    from triage.models import Route

    receivers = _Receivers()
    owner = get_user_model().objects.create_superuser("measure")
    for n, name in enumerate(RECEIVERS):
        Route.objects.create(
            owner=owner,
            name=name,
            kind="webhook",
            url=f"{receivers.url}/{n}",
            events=["incident.opened"],
            secret="whsec_AAAA",
        )
    with served(folder, owner) as reader:
        return _deliver(args, folder, receivers, reader)


def _deliver(args: argparse.Namespace, folder: Path, receivers: _Receivers, reader: Reader) -> int:
    from ingest.signals import swept
    from triage.models import Delivery

    workers = _Workers(folder, args.kill_every)
    started_s = workers.started()
    over = threading.Event()

    def sweep() -> None:  # as the worker's own sweeper does every 5 s
        while not over.wait(5):
            swept.send(sender=None)

    threading.Thread(target=sweep, daemon=True).start()
    quiet = _read(reader, threading.Event(), 15)
    busy: list[float] = []
    reading = threading.Thread(target=lambda: busy.extend(_read(reader, over, args.seconds)), daemon=True)
    reading.start()
    began = time.monotonic()
    took = _open(args.incidents, args.seconds)
    opened_s = time.monotonic() - began
    calm = threading.Timer(args.kill_on, workers.is_calm.set)
    calm.daemon = True
    calm.start()
    living = Delivery.objects.exclude(route__name="dead").filter(state=Delivery.State.WAITING)
    while living.exists() and time.monotonic() - began < args.seconds + _REST_S:
        time.sleep(1)
    all_s = time.monotonic() - began
    workers.end()
    over.set()
    reading.join()
    took.sort()
    print(f"{args.incidents:,} incidents in {opened_s:.0f} s, {len(RECEIVERS)} routes, {workers.killed} workers killed")
    p50, p95 = took[len(took) // 2], took[int(len(took) * 0.95)]
    print(f"writing an incident with its messages: p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    for title, waits in (("before", quiet), ("meanwhile", busy)):
        print(f"the list of incidents {title}: p50 {quantile(waits, 0.5):.0f} ms, p95 {quantile(waits, 0.95):.0f} ms")
    print(f"everything that can arrive has arrived after {all_s:.0f} s")
    sent = max(1, Delivery.objects.filter(state=Delivery.State.DELIVERED).count())
    each_ms = (workers.cpu_s - started_s) * 1000 / sent
    print(f"CPU of the workers: {started_s:.1f} s to start two, then {each_ms:.1f} ms a delivered message")
    return 0 if _print_routes(receivers) & _are_private_refused() else 1


def _read(reader: Reader, over: threading.Event, seconds: float) -> list[float]:
    """Milliseconds of each reading of the list, twice a second."""
    waits, end = [], time.monotonic() + seconds
    while time.monotonic() < end and not over.wait(0.5):
        waits.append(reader.read("/incidents/")[0])
    return waits


def _open(count: int, seconds: float) -> list[float]:
    """Open incidents evenly; returns how many milliseconds each transaction took."""
    from django.db import transaction
    from django.utils import timezone

    from ingest.models import Attempt, Cluster, Job
    from triage.domain.report_facts import week_of
    from triage.models import Activity, Diagnosis, Incident

    cluster, _ = Cluster.objects.get_or_create(slug="default")
    job = Job.objects.create(slug="job", name="job", cluster=cluster)
    began, took = time.monotonic(), []
    for n in range(count):
        time.sleep(max(0.0, began + n * seconds / count - time.monotonic()))
        start, now = time.perf_counter(), timezone.now()
        with transaction.atomic():
            attempt = Attempt.objects.create(job=job, number=n)
            report = {"advice": {"action": "evict", "action_title": "Evict", "targets": [f"gpu-{n}"]}}
            diagnosis = Diagnosis.objects.create(job=job, attempt=attempt, revision=1, engine="measure", report=report)
            incident = Incident.objects.create(
                job=job,
                attempt=attempt,
                cluster=cluster,
                diagnosis=diagnosis,
                headline=f"GPU of gpu-{n} fell off the bus.",
                category="hardware.gpu.off_bus",
                standing_category="hardware.gpu.off_bus",
                week=week_of(now),
            )
            Activity.objects.create(incident=incident, job=job, kind="diagnosed", data={})
        took.append((time.perf_counter() - start) * 1000)
    return took


def _print_routes(receivers: _Receivers) -> bool:
    """Print each route's row; whether all living ones got all messages in order."""
    from triage.models import Delivery

    is_fine = True
    names = (*Delivery.State.values, "never came", "repeats", "disorder", "p50 s", "p95 s", "last s")
    print(f"\n{'receiver':10}" + "".join(f"{name.replace('_', ' '):>11}" for name in names))
    for name in RECEIVERS:
        rows = list(Delivery.objects.filter(route__name=name).order_by("created_at", "id"))
        sent = {f"msg_{row.pk.hex}": row.created_at.timestamp() for row in rows}
        got = receivers.got[name]
        first = list(dict.fromkeys(key for key, _ in got))
        places = {key: n for n, key in enumerate(sent)}
        disorder = sum(places[a] > places[b] for a, b in itertools.pairwise(first))
        when: dict[str, float] = {}
        for key, at in got:
            when.setdefault(key, at)
        delays = sorted(at - sent[key] for key, at in when.items()) or [0.0]
        last_s = max(when.values(), default=0.0) - min(sent.values(), default=0.0) if when else 0.0
        states = Counter(row.state for row in rows)
        never = sum(row.state == Delivery.State.DELIVERED and f"msg_{row.pk.hex}" not in when for row in rows)
        if name != "dead":
            is_fine &= states[Delivery.State.DELIVERED] == len(rows) and not never and not disorder
        counts = (*(states[state] for state in Delivery.State.values), never, len(got) - len(first), disorder)
        times = (delays[len(delays) // 2], delays[int(len(delays) * 0.95)], last_s)
        print(f"{name:10}" + "".join(f"{n:11}" for n in counts) + "".join(f"{n:11.1f}" for n in times))
    return is_fine


def _are_private_refused() -> bool:
    """Whether no connection was made for 100 private addresses, written as people who attack write them."""
    from django.conf import settings

    from triage.destinations import Request
    from triage.services import outbound

    settings.ROUTES_ALLOW = []
    draw, opened = random.Random(3), []
    nets = (
        "10.{}.{}.{}",
        "192.168.{}.{}",
        "172.16.{}.{}",
        "127.{}.{}.{}",
        "169.254.{}.{}",
        "100.64.{}.{}",
        "0.0.{}.{}",
    )
    forms = ("{0}", "[::ffff:{0}]", "[64:ff9b::{1}]", "[2002:{1}::1]", "{2}", "{0}.", "[::{0}]")
    connect = socket.create_connection
    socket.create_connection = lambda *given, **more: opened.append(given) or connect(*given, **more)  # type: ignore
    for n in range(100):
        host = nets[n % len(nets)].format(*(draw.randrange(1, 255) for _ in range(3)))
        raw = socket.inet_aton(host)
        pair = f"{raw[:2].hex()}:{raw[2:].hex()}"
        url = f"https://{forms[n % len(forms)].format(host, pair, int.from_bytes(raw))}/"
        outbound.send(Request(url, b"{}"))
    socket.create_connection = connect
    print(f"\nthe guard let {len(opened)} of 100 requests to private addresses through")
    return not opened


if __name__ == "__main__":
    raise SystemExit(main())
