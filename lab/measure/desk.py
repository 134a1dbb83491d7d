"""Server time and queries of the pages over 100,000 incidents: `python -m lab.measure desk [--database
sqlite|postgres]`.

Creates and fills a database, serves it with the production server (two processes) and reads every page over one open
connection: the cost of a page is the time until its reader has it, on loopback. "new" is the first read after a change
(before each such read an incident of the last 90 days is resolved or reopened), "again" a later one; "CPU" is the time
that web server, cache and database (if this started it) spent on one such page. Then the timeline of a wide job, the
search box, and 50 readers at once for ten seconds. ``--url`` uses an existing database and fills it if it is empty.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from lab.measure.site import Reader, quantile, served

ROOT = Path(__file__).resolve().parents[2]

#: the pages of the budget, then the others
PAGES = {
    "list": "/incidents/",
    "incident": "/incidents/{incident}/",
    "job": "/jobs/{job}/",
    "statistics, 90 days": "/statistics/",
    "statistics, a year": "/statistics/?span=365d&measure=gpu_hours",
    "queue": "/",
    "jobs": "/jobs/",
    "nodes": "/nodes/",
    "node": "/nodes/{node}/",
    "planning": "/statistics/planning/",
    "planning, a year": "/statistics/planning/?span=365d",
    "compare": "/jobs/{job}/compare/",
    "cost": "/jobs/{job}/cost/",
    "events": "/jobs/{job}/events/",
    "files": "/jobs/{job}/files/",
    "work": "/jobs/{job}/work/",
    "running": "/running/",
    "routes": "/routes/",
    "rules": "/rules/",
}
SEARCHES = (
    "category:hardware is:unreviewed opened:<30d",
    "!category:hardware !is:resolved",
    '"fallen off the bus" symptom:hang',
    "nothing says this",
    "node:gpu-north-0001",
    "node:gpu-north-00*",
    "job:job-0001* confidence:>0.9",
    "gpu_hours:>100 nodes:>=128",
    "verdict:wrong happened:<90d",
    "!node:gpu-north-*",
)
BOXES = ("cat", "category:hard", "job:job-00", "node:gpu-north-00", "framework:me")


@contextlib.contextmanager
def database(kind: str, url: str, data: Path) -> Iterator[str]:
    from scripts.services import postgres

    if url:
        yield url
    elif kind == "sqlite":
        yield f"sqlite:///{data / 'measure.sqlite3'}"
    else:
        with postgres() as made:
            yield made


def readers(person: Reader, paths: list[str], count: int, seconds: float) -> float:
    """Pages a second that ``count`` readers get together; each repeats ``paths``, with another start."""
    done = [0] * count
    began = time.perf_counter()
    end = began + seconds

    def one(n: int) -> None:
        reader = Reader(person.port, person.cookie)
        while time.perf_counter() < end:
            reader.read(paths[(7 * n + done[n]) % len(paths)])
            done[n] += 1

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def queries_of(client: Any, path: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as caught:
        assert client.get(path).status_code == 200, path
    return len(caught)


def change_an_incident(user: Any, rng: random.Random) -> None:
    """Resolve or reopen an incident of the last 90 days that was judged."""
    from django.utils import timezone

    from triage.models import Incident
    from triage.services.reviewing import incident_act

    judged = (Incident.State.CONFIRMED, Incident.State.RESOLVED)
    since = timezone.now() - timedelta(days=rng.uniform(0, 90))
    found = Incident.objects.filter(state__in=judged, happened_at__lte=since).order_by("-happened_at")[0]
    incident_act(incident=found, act="reopened" if found.state == Incident.State.RESOLVED else "resolved", by=user)


def cpu_ms() -> float:
    """CPU time so far of all processes that this one started, and of their children."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), int(fields[11]) + int(fields[12])

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(n for pid, n in ticks.items() if pid != os.getpid() and is_ours(pid)) * 1000 / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--url", default="", help="a database of that kind, for instance from an earlier run")
    parser.add_argument("--incidents", type=int, default=100_000)
    parser.add_argument("--findings", type=int, default=10, help="findings an incident")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10, help="duration of the reading")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="desk-") as folder,
        database(args.database, args.url, Path(folder)) as url,
    ):
        os.environ |= {
            "FAULTLINE_DATA_DIR": folder,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "WARNING",
        }
        run(args, Path(folder))


def run(args: argparse.Namespace, folder: Path) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    user, names = prepare(args)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    with served(folder, user) as reader:
        pages = {title: pattern.format(**names) for title, pattern in PAGES.items()}
        measure_pages(reader, client, pages, args.times, user)
        measure_timeline(reader, args.times)
        measure_searches(reader, args.times, user)
        read = {f"the {title}": [pages[title]] for title in ("list", "incident", "queue", "job")}
        read["500 incidents"] = [f"/incidents/{pk}/" for pk in names["incidents"]]
        for title, paths in read.items():
            rate = readers(reader, paths, 50, args.seconds)
            print(f"50 readers of {title}: {rate:.0f} pages/s", flush=True)


def prepare(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The user who reads, and the parts of the pages' addresses; fills the database if it is empty."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.db import connection
    from django.utils import timezone

    from ingest.models import Job
    from lab.measure.desk_data import fill, wide_job
    from triage.models import Finding, Incident

    user, _ = get_user_model().objects.get_or_create(username="reader")
    user.groups.add(*Group.objects.filter(name__in=["engineer", "manager"]))
    if not Incident.objects.exists():
        began, now = time.perf_counter(), timezone.now()
        fill(incidents=args.incidents, jobs=args.jobs, findings_each=args.findings, user=user, now=now)
        wide_job(nodes=1024, days=7, now=now)
        with connection.cursor() as cursor:  # what PostgreSQL does by itself some minutes after such a change
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
        print(f"filled in {time.perf_counter() - began:.0f} s")
    counts = (
        f"{Incident.objects.count():,} incidents, {Job.objects.count():,} jobs, {Finding.objects.count():,} findings"
    )
    print(f"{args.database}: {counts}", flush=True)
    late = list(Incident.objects.order_by("-opened_at").select_related("job")[100:600])
    names = {"incident": late[0].pk, "job": late[0].job.slug, "node": "gpu-north-0001"}
    return user, {**names, "incidents": [row.pk for row in late]}


def measure_pages(reader: Reader, client: Any, pages: dict[str, str], times: int, user: Any) -> None:
    rng = random.Random(1)
    print(f"{'':22}{'queries':^14}{'new, ms':^24}{'again, ms':^24}")
    head = f"{'p50':>8}{'p95':>8}{'CPU':>8}"
    print(f"{'page':22}{'new':>7}{'again':>7}{head}{head}{'kB':>7}{'kB gz':>7}")
    for title, path in pages.items():
        for _ in range(4):  # each process has imported what it needs
            reader.read(path)
        new, cost = [], 0.0
        for _ in range(max(8, times // 2)):
            change_an_incident(user, rng)
            before = cpu_ms()
            new.append(reader.read(path)[0])
            cost += cpu_ms() - before
        before = cpu_ms()
        again = [reader.read(path) for _ in range(times)]
        costs = cost / len(new), (cpu_ms() - before) / times
        change_an_incident(user, rng)
        queries = queries_of(client, path), queries_of(client, path)
        waited, page = [ms for ms, _ in again], again[0][1]
        row = (
            *(statistics.median(new), quantile(new, 0.95), costs[0]),
            *(statistics.median(waited), quantile(waited, 0.95), costs[1]),
        )
        print(
            f"{title:22}{queries[0]:>7}{queries[1]:>7}{''.join(f'{ms:>8.0f}' for ms in row)}"
            f"{len(page) / 1000:>7.0f}{len(gzip.compress(page)) / 1000:>7.0f}",
            flush=True,
        )


def measure_timeline(reader: Reader, times: int) -> None:
    found = [reader.read("/jobs/wide/timeline/0/") for _ in range(times)]
    waited, body = [ms for ms, _ in found], found[0][1]
    print(
        f"timeline, 1,024 nodes × 7 days: p50 {statistics.median(waited):.0f} ms, p95 {quantile(waited, 0.95):.0f} ms"
        f", {len(body) / 1000:.0f} kB, {len(gzip.compress(body)) / 1000:.0f} kB gz",
        flush=True,
    )


def measure_searches(reader: Reader, times: int, user: Any) -> None:
    rng = random.Random(2)
    for text in SEARCHES:
        new, again = [], []
        for _ in range(max(6, times // 5)):
            change_an_incident(user, rng)
            new.append(reader.read(f"/incidents/?q={quote_plus(text)}")[0])
            again.append(reader.read(f"/incidents/?q={quote_plus(text)}")[0])
        row = (statistics.median(new), max(new), statistics.median(again), max(again))
        told = "search {:48} new p50 {:.0f} max {:.0f}, again p50 {:.0f} max {:.0f} ms"
        print(told.format(text, *row), flush=True)
    for text in BOXES:
        waited = [reader.read(f"/incidents/suggest/?q={quote_plus(text)}")[0] for _ in range(times)]
        print(f"box {text:24} p50 {statistics.median(waited):.0f} p95 {quantile(waited, 0.95):.0f} ms", flush=True)
