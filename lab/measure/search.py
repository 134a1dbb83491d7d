"""Time of searches for words over 1 M findings: `python -m lab.measure search [--database sqlite|postgres]`.

Creates a database with 100,000 incidents of ten findings each, whose lines are examples of all signatures with other
numbers. Builds the search index with the command's function, and requests the list of incidents with searches of each
kind, none of them cached. Prints the milliseconds of the whole page (wall clock, and CPU time of this process and its
database server), those of the second request that counts everything where the page asks for it, and the number of
matching incidents. ``--url`` uses an existing database and fills it if it is empty.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.measure.desk import database
from lab.measure.site import quantile

GOAL_MS = 150


def kinds(rng: random.Random, lines: list[str]) -> dict[str, Callable[[], str]]:
    """Kind of search → a new search of that kind at each call. Words come from the stored lines."""
    from triage.search.word_rules import words_of

    def line() -> list[str]:
        return words_of(rng.choice(lines)) or ["error"]

    def word() -> str:
        return max(line(), key=len)

    def phrase(count: int) -> str:
        found = line()
        at = rng.randrange(max(1, len(found) - count))
        return f'"{" ".join(found[at : at + count])}"'

    return {
        "a word": word,
        "two words": lambda: f"{word()} {word()}",
        "a phrase of two words": lambda: phrase(2),
        "a phrase of four words": lambda: phrase(4),
        "said:": lambda: f"said:{phrase(3)}",
        "a word and facets": lambda: f"{word()} is:unreviewed category:hardware",
        "not a word": lambda: f"!{word()}",
        "OR in brackets": lambda: f"({word()} OR {phrase(2)}) opened:<{rng.randrange(60, 400)}d",
        "inside a word": lambda: f"*{word()[1:8]}*",
        "a number": lambda: str(rng.randrange(10_000, 99_999)),
        "rank:": lambda: f"rank:{rng.randrange(4096)}",
        "signature:": lambda: f"signature:nvidia.xid.{rng.randrange(1, 150)}",
        "a word nobody says": lambda: f"zq{rng.randrange(10**6)}x",
    }


def prepare(args: argparse.Namespace) -> Any:
    """The user who searches; fills the database if it is empty."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.db import connection
    from django.utils import timezone

    from lab.measure.desk_data import fill
    from triage.models import Finding, Incident
    from triage.services.indexing import search_entries_build

    user, _ = get_user_model().objects.get_or_create(username="reader")
    user.groups.add(*Group.objects.filter(name__in=["engineer", "manager"]))
    if not Incident.objects.exists():
        fill(incidents=args.incidents, jobs=2_000, findings_each=args.findings, user=user, now=timezone.now())
        began = time.process_time()
        for _ in search_entries_build():
            pass
        print(f"index built in {time.process_time() - began:.0f} s of this process's CPU time", flush=True)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    print(
        f"{connection.vendor}: {Incident.objects.count():,} incidents, {Finding.objects.count():,} findings", flush=True
    )
    return user


def run(args: argparse.Namespace) -> int:
    """Measure and print; 1 if the goal is missed."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client
    from django.test.utils import override_settings, setup_test_environment

    from triage.models import Finding

    setup_test_environment()  # answers contain their context
    call_command("migrate", verbosity=0)
    user = prepare(args)
    rng = random.Random(args.seed)
    lines = list(Finding.objects.order_by("pk").values_list("example", flat=True)[:20_000])
    spent = spender()
    lists: list[float] = []
    costs: list[float] = []
    heads = ("found", "p50", "p95", "CPU p50", "CPU p95", "counted", "p50", "p95")
    print(f"{'search':26}{''.join(f'{head:>9}' for head in heads)}   ms")
    memory = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
    with override_settings(CACHES=memory, STORAGES={"default": {"BACKEND": ""}, "staticfiles": {"BACKEND": plain}}):
        client = Client(headers={"host": "localhost"})
        client.force_login(user)

        def read(**args: str) -> tuple[Any, float, float]:
            """The page that the list shows, and the milliseconds of the answer: wall clock and CPU time."""
            began, cpu = time.perf_counter(), spent()
            response = client.get("/incidents/", args)
            waited = (time.perf_counter() - began) * 1000
            assert response.status_code == 200, args
            return response.context["page"], waited, spent() - cpu

        read(q="warm")
        for title, make in kinds(rng, lines).items():
            waited, cost, counting, totals = [], [], [], []
            for text in dict.fromkeys(make() for _ in range(args.times)):
                page, *both = read(q=text)
                waited.append(both[0])
                cost.append(both[1])
                if page.facets is None:  # what the page itself asks for next
                    page, later, _ = read(q=text, count="all")
                    counting.append(later)
                totals.append(page.total)
            lists += waited
            costs += cost
            row = (
                *(statistics.median(totals), statistics.median(waited), quantile(waited, 0.95)),
                *(statistics.median(cost), quantile(cost, 0.95), len(counting)),
                *((statistics.median(counting), quantile(counting, 0.95)) if counting else (0, 0)),
            )
            print(f"{title:26}{''.join(f'{value:>9,.0f}' for value in row)}", flush=True)
    p95 = quantile(lists, 0.95)
    print(
        f"{len(lists)} searches: p50 {statistics.median(lists):.0f} ms, p95 {p95:.0f} ms (goal {GOAL_MS}); "
        f"CPU p50 {statistics.median(costs):.0f} ms, p95 {quantile(costs, 0.95):.0f} ms"
    )
    return int(p95 >= GOAL_MS)


def spender() -> Callable[[], float]:
    """A clock of the CPU time, in ms, of this process and of the process of PostgreSQL that answers it."""
    from django.db import connection

    if connection.vendor == "sqlite":
        return lambda: time.process_time() * 1000
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        stat = Path(f"/proc/{cursor.fetchone()[0]}/stat")

    def spent() -> float:
        ticks = stat.read_text().rpartition(")")[2].split()[11:13]
        return time.process_time() * 1000 + sum(map(int, ticks)) * 1000 / os.sysconf("SC_CLK_TCK")

    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--url", default="", help="a database of that kind, for instance from an earlier run")
    parser.add_argument("--incidents", type=int, default=100_000)
    parser.add_argument("--findings", type=int, default=10, help="findings an incident")
    parser.add_argument("--times", type=int, default=20, help="searches of each kind")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="search-") as folder,
        database(args.database, args.url, Path(folder)) as url,
    ):
        os.environ |= {
            "FAULTLINE_DATA_DIR": folder,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "WARNING",
        }
        return run(args)
