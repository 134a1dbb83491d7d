"""Time of searches for words over 1 M findings: `python -m measure search [--database sqlite|postgres]`.

Creates a database with 100,000 incidents of ten findings each, whose lines are examples of all signatures with other
numbers. Builds the search index with the command's function, and requests the list of incidents with searches of each
kind, none of them cached. Prints the milliseconds of the whole page (wall clock and CPU time of this process), the
number of matching incidents, and in the same run a scan of the stored text for the same words. ``--url`` uses an
existing database and fills it if it is empty.
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

from measure.desk import database, percentile

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


def filled(asked: argparse.Namespace) -> Any:
    """The user who searches; fills the database if it is empty."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.db import connection
    from django.utils import timezone

    from measure.desk_data import fill
    from triage.models import Finding, Incident
    from triage.services.indexing import search_entries_build

    user, _ = get_user_model().objects.get_or_create(username="reader")
    user.groups.add(*Group.objects.filter(name__in=["engineer", "manager"]))
    if not Incident.objects.exists():
        fill(incidents=asked.incidents, jobs=2_000, findings_each=asked.findings, user=user, now=timezone.now())
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


def run(asked: argparse.Namespace) -> int:
    """Measure and print; 1 if the goal is missed."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client
    from django.test.utils import override_settings, setup_test_environment

    from triage.models import Finding, SearchEntry

    setup_test_environment()  # answers contain their context
    call_command("migrate", verbosity=0)
    user = filled(asked)
    rng = random.Random(asked.seed)
    lines = list(Finding.objects.order_by("pk").values_list("example", flat=True)[:20_000])
    everything: list[float] = []
    print(f"{'search':26}{'found':>9}{'p50':>7}{'p95':>7}{'CPU p50':>9}{'CPU p95':>9}{'scan p50':>10}   ms")
    memory = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
    with override_settings(CACHES=memory, STORAGES={"default": {"BACKEND": ""}, "staticfiles": {"BACKEND": plain}}):
        client = Client(headers={"host": "localhost"})
        client.force_login(user)
        client.get("/incidents/?q=warm")
        for title, make in kinds(rng, lines).items():
            wall, spent, scans, counts = [], [], [], []
            for text in dict.fromkeys(make() for _ in range(asked.times)):
                began, cpu = time.perf_counter(), time.process_time()
                response = client.get("/incidents/", {"q": text})
                wall.append((time.perf_counter() - began) * 1000)
                spent.append((time.process_time() - cpu) * 1000)
                assert response.status_code == 200, text
                counts.append(response.context["page"].total)
                if len(scans) < 2:
                    words = text.split(":")[-1].strip('"!*()')
                    began = time.perf_counter()
                    SearchEntry.objects.filter(said__contains=words.split(" OR ")[0].lower()).count()
                    scans.append((time.perf_counter() - began) * 1000)
            everything += wall
            columns = (statistics.median(wall), percentile(wall, 0.95))
            cost = (statistics.median(spent), percentile(spent, 0.95))
            print(
                f"{title:26}{statistics.median(counts):>9,.0f}{columns[0]:>7.0f}{columns[1]:>7.0f}"
                f"{cost[0]:>9.0f}{cost[1]:>9.0f}{statistics.median(scans):>10.0f}",
                flush=True,
            )
    p95 = percentile(everything, 0.95)
    print(f"{len(everything)} searches: p50 {statistics.median(everything):.0f} ms, p95 {p95:.0f} ms (goal {GOAL_MS})")
    return int(p95 >= GOAL_MS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--url", default="", help="a database of that kind, for instance from an earlier run")
    parser.add_argument("--incidents", type=int, default=100_000)
    parser.add_argument("--findings", type=int, default=10, help="findings an incident")
    parser.add_argument("--times", type=int, default=20, help="searches of each kind")
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="search-") as folder,
        database(asked.database, asked.url, Path(folder)) as url,
    ):
        os.environ |= {
            "FAULTLINE_DATA_DIR": folder,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "WARNING",
        }
        return run(asked)
