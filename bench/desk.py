"""Server time and queries of the pages over 100,000 incidents: `python bench/desk.py [--database sqlite|postgresql]`.

Makes a database of its own, fills it, serves it with the production server (two processes) and reads every page over a
kept connection. The server's own time is taken from its clock (header Server-Timing is not needed: a page's cost is
what its reader waits for on loopback). Then 50 readers at once for ten seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGES = {
    "queue": "/",
    "list": "/incidents/",
    "list, filtered": "/incidents/?q=category:hardware+is:unreviewed+opened:%3C30d",
    "list, words": "/incidents/?q=%22fallen+off+the+bus%22+symptom:hang",
    "list, node": "/incidents/?q=node:gpu-north-0001",
    "incident": "/incidents/{incident}/",
    "jobs": "/jobs/",
    "job": "/jobs/{job}/",
    "statistics, 90 days": "/statistics/",
    "statistics, a year": "/statistics/?span=365d&measure=gpu_hours",
    "nodes": "/nodes/",
    "node": "/nodes/{node}/",
}


@contextlib.contextmanager
def database(kind: str, data: Path) -> Iterator[str]:
    from scripts.services import postgres

    if kind == "sqlite":
        yield f"sqlite:///{data / 'bench.sqlite3'}"
    else:
        with postgres() as url:
            yield url


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def read(port: int, cookie: str, path: str, times: int) -> tuple[list[float], int]:
    """Milliseconds of each of ``times`` reads, and the size of the page."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    spent, size = [], 0
    for _ in range(times):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": cookie, "Accept-Encoding": "identity"})
        response = connection.getresponse()
        size = len(response.read())
        spent.append((time.perf_counter() - began) * 1000)
        if response.status != 200:
            raise SystemExit(f"{path} answered {response.status}")
    return spent, size


def readers(port: int, cookie: str, path: str, count: int, seconds: float) -> float:
    """Pages a second that ``count`` readers get together."""
    done = [0] * count
    end = time.perf_counter() + seconds

    def one(n: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < end:
            connection.request("GET", path, headers={"Cookie": cookie})
            connection.getresponse().read()
            done[n] += 1

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def queries_of(client: Any, path: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as caught:
        assert client.get(path).status_code == 200, path
    return len(caught)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--incidents", type=int, default=100_000)
    parser.add_argument("--findings", type=int, default=10, help="findings an incident")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="desk-") as folder, database(asked.database, Path(folder)) as url:
        os.environ |= {
            "FAULTLINE_DATA_DIR": folder,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "WARNING",
        }
        run(asked, Path(folder))


def run(asked: argparse.Namespace, folder: Path) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.utils import timezone

    from bench.desk_data import fill
    from scripts.services import free_port, spawn, start_valkey, stop, wait_until
    from triage.models import Incident

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    user = get_user_model().objects.create_user("reader")
    user.groups.add(*Group.objects.filter(name__in=["engineer", "manager"]))
    began = time.perf_counter()
    fill(incidents=asked.incidents, jobs=asked.jobs, findings_each=asked.findings, user=user, now=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    print(f"{asked.database}: {asked.incidents:,} incidents filled in {time.perf_counter() - began:.0f} s")
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    names = {
        "incident": Incident.objects.order_by("-opened_at")[100].pk,
        "job": Incident.objects.order_by("-opened_at")[100].job.slug,
        "node": "gpu-north-0001",
    }
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    valkey = start_valkey(folder, url=settings.REDIS_URL)
    port = free_port()
    argv = [sys.executable, "-m", "granian", "--interface", "wsgi", "--port", str(port), "--workers", "2"]
    server = spawn(
        [*argv, "--blocking-threads", "2", "triage.wsgi:application"], log=folder / "web.log", env={**os.environ}
    )

    def is_up() -> bool:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/healthz")
            return connection.getresponse().status < 500
        return False

    try:
        wait_until(is_up, server, what="The server", log=folder / "web.log", timeout_s=120)
        print(f"{'page':24}{'queries':>8}{'p50 ms':>9}{'p95 ms':>9}{'kB':>8}")
        for title, pattern in PAGES.items():
            path = pattern.format(**names)
            read(port, cookie, path, 4)
            spent, size = read(port, cookie, path, asked.times)
            row = (statistics.median(spent), percentile(spent, 0.95), size / 1000)
            print(f"{title:24}{queries_of(client, path):>8}{row[0]:>9.0f}{row[1]:>9.0f}{row[2]:>8.0f}")
        rate = readers(port, cookie, PAGES["list"], 50, 10)
        print(f"50 readers of the list: {rate:.0f} pages/s")
        rate = readers(port, cookie, PAGES["incident"].format(**names), 50, 10)
        print(f"50 readers of an incident: {rate:.0f} pages/s")
    finally:
        stop(server)
        stop(valkey.process)


if __name__ == "__main__":
    main()
