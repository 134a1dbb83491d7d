"""Diagnoses and messages at the same time on PostgreSQL: `python -m lab.measure deadlocks [--jobs 300] [--routes 7]`.

Starts a PostgreSQL, a broker, two workers that read and diagnose and two that send messages (two processes each). Sends
small jobs of one cluster, each of which fails, and waits until every message has arrived at its receiver. Nobody is
killed. Prints the deadlocks in the server's log, the messages that each route was to get and got, and how many of them
came more than once. Fails if there is a deadlock, a message too many, or one that is missing.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.scratch import scratch_site
from scripts.services import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import AbstractBaseUser

    from triage.serve.children import Process

_QUEUES_OF_WORKERS = (("parse", "diagnose"), ("parse", "diagnose"), ("notify",), ("notify",))
_REST_S = 300.0
_LOG = """\
2026-11-21 03:00:00,000 INFO node{node} iteration 1 loss 2.5
2026-11-21 03:00:10,000 INFO node{node} iteration 2 loss 2.5
2026-11-21 03:00:11,000 ERROR node{node} NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus (job {n})
2026-11-21 03:00:12,000 ERROR node{node} RuntimeError: CUDA error: unspecified launch failure
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--routes", type=int, default=7)
    args = parser.parse_args()
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        settings = {"FAULTLINE_ROUTES_ALLOW": "127.0.0.0/8", "FAULTLINE_DIAGNOSE_AFTER_S": "0"}
        folder = stack.enter_context(scratch_site(DATABASE_URL=server.url, **settings))
        logging.getLogger("ingest").setLevel(logging.WARNING)
        receivers = stack.enter_context(receiving())
        owner = _owner()
        _routes_make(args.routes, receivers, owner)
        stack.enter_context(_working(folder))
        began = time.monotonic()
        _jobs_send(args.jobs, owner)
        _wait_for_messages(args.jobs, began)
        took_s = time.monotonic() - began
        print(f"{args.jobs:,} jobs, {args.routes} routes, {took_s:.0f} s")
        is_fine = _print_routes(receivers) & _print_deadlocks(server.log.read_text(errors="replace"))
    return 0 if is_fine else 1


class Receivers:
    """Receivers on one port, one path each: how often each message came, by route and by the message's id."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.counts: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()

    def note(self, route: str, message: str) -> None:
        with self._lock:
            self.counts.setdefault(route, Counter())[message] += 1


@contextmanager
def receiving() -> Iterator[Receivers]:
    """Receivers that answer at once."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            receivers.note(self.path.strip("/"), self.headers["webhook-id"])
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receivers = Receivers(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield receivers
    server.shutdown()
    server.server_close()


def _owner() -> AbstractBaseUser:
    from django.contrib.auth import get_user_model

    owner: AbstractBaseUser = get_user_model().objects.create_superuser("measure")
    return owner


def _routes_make(count: int, receivers: Receivers, owner: AbstractBaseUser) -> None:
    from triage.models import Route

    for number in range(count):
        name = str(number)
        address = f"{receivers.url}/{name}"
        Route.objects.create(
            owner=owner, name=name, kind="webhook", url=address, events=["incident.opened"], secret="whsec_AAAA"
        )


@contextmanager
def _working(folder: Path) -> Iterator[None]:
    """A broker and four workers, until the end of the block."""
    from django.conf import settings

    from triage.serve.children import stop
    from triage.serve.valkey import start_valkey

    with ExitStack() as stack:
        valkey = start_valkey(folder, url=settings.REDIS_URL)
        stack.callback(stop, valkey.process)
        for number, queues in enumerate(_QUEUES_OF_WORKERS):
            stack.callback(stop, _worker_start(folder, number, queues))
        yield


def _worker_start(folder: Path, number: int, queues: tuple[str, ...]) -> Process:
    from triage.serve.children import spawn, wait_until
    from triage.serve.parts import worker_command

    log = folder / f"worker-{number}.log"
    argv = worker_command(queues, "2")
    argv[argv.index("--hostname") + 1] = f"worker-{number}@%h"
    worker = spawn(argv, log=log, env=dict(os.environ))
    wait_until(lambda: b" ready." in log.read_bytes(), worker, what="A worker", log=log, timeout_s=120)
    return worker


def _jobs_send(count: int, owner: AbstractBaseUser) -> None:
    from ingest.services import artifact_receive, diagnosis_request, job_create

    for number in range(count):
        job = job_create(name=f"job {number}", user=owner)
        text = _LOG.format(node=number % 16, n=number)
        artifact_receive(job=job, path="train.log", chunks=[text.encode()], user=owner)
        diagnosis_request(job=job)


def _wait_for_messages(jobs: int, began: float) -> None:
    """Until every job is diagnosed and every message delivered, for some minutes at most."""
    from ingest.models import Job
    from triage.models import Delivery

    open_jobs = Job.objects.filter(diagnosed_revision=0)
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING)
    while time.monotonic() - began < _REST_S + jobs and (open_jobs.exists() or waiting.exists()):
        time.sleep(0.5)
    time.sleep(2)  # for what is sent a second time


def _print_routes(receivers: Receivers) -> bool:
    """Print each route's row; whether each got every message once."""
    from triage.models import Delivery

    is_fine = True
    print(f"{'route':8}{'messages':>10}{'came':>8}{'too many':>10}{'missing':>9}")
    for name, written in sorted(_written(Delivery).items()):
        counts = receivers.counts.get(name, Counter())
        missing = len(written - counts.keys())
        too_many = counts.total() - len(counts)
        is_fine &= not missing and not too_many
        print(f"{name:8}{len(written):10,}{counts.total():8,}{too_many:10,}{missing:9,}")
    return is_fine


def _written(deliveries: Any) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {}
    for name, pk in deliveries.objects.values_list("route__name", "pk"):
        ids.setdefault(name, set()).add(f"msg_{pk.hex}")
    return ids


def _print_deadlocks(log: str) -> bool:
    count = len(re.findall(r"ERROR: +deadlock detected", log))
    print(f"deadlocks in the server's log: {count}")
    return not count


if __name__ == "__main__":
    raise SystemExit(main())
