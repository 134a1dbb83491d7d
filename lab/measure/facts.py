"""Facts of many nodes compared, and their page: `python -m lab.measure facts [--nodes 4096] [--facts 100000]`.

Nodes state versions, ports and temperatures; one has another driver, one a slow port. Prints the CPU seconds that the
comparison of set-ups takes, those of the table of all facts, and the time of the Facts page (the middle, p95) for a
person who opens, searches and pages, with a database and a web application of its own in this process.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from diagnosis.evidence import Fact, Place
from diagnosis.facts import fact_table, setups
from lab.measure.site import quantile

#: What nodes state alike, and what each has of its own.
_ALIKE = {
    "Driver Version": "570.12",
    "NCCL version": "2.26.2",
    "kernel": "6.8.0",
    "MTU": "4096",
    "CUDA Version": "12.8",
}
_PORTS = 8
_ADDRESSES = ("", "?words=rate", "?odd=1", "?words=temperature", "?page=2")


def stated(nodes: int, facts: int) -> Iterator[tuple[str, Fact]]:
    """Path and fact of each node; together ``facts`` of them."""
    each = max(1, facts // nodes)
    for node in range(nodes):
        name = f"gpu-{node:04d}"
        path = f"{name}/report.txt"
        for number in range(each):
            yield path, _fact(name, node, number)


def _fact(name: str, node: int, number: int) -> Fact:
    place = Place("node", name)
    if number < len(_ALIKE):
        words, value = list(_ALIKE.items())[number]
        is_other = node == 7 and words == "Driver Version"
        return Fact(place, words, "550.54" if is_other else value, number)
    part = f"mlx5_{number % _PORTS} Port 1"
    if number % 2:
        return Fact(place, "Rate", "100" if (node, number) == (11, 7) else "400", number, part)
    return Fact(place, f"Temperature {number}", str(40 + (7 * node + number) % 23), number, part)


def _cpu_s[T](function: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    found = function()
    return time.process_time() - began, found


def page_times(folder: Path, summary: object, reads: int) -> tuple[list[float], list[float]]:
    """Seconds, and CPU seconds, of each read of the Facts page of a job with the table in ``folder``."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    os.environ["DATABASE_URL"] = f"sqlite:///{folder / 'facts.sqlite3'}"
    os.environ["FAULTLINE_DATA_DIR"] = str(folder / "data")
    import django  # its settings are chosen above

    django.setup()
    logging.disable(logging.WARNING)  # the cache of other processes is not started
    import msgspec
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.test import Client

    from ingest.models import Attempt, Cluster, Job
    from triage.diagnosis_tables import tables_store
    from triage.services.diagnosing import diagnosis_store

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    job = Job.objects.create(slug="wide", name="Wide", cluster=Cluster.objects.get_or_create(slug="default")[0])
    report = {"engine": "m", "facts": msgspec.to_builtins(summary)}
    stored = diagnosis_store(attempt=Attempt.objects.create(job=job, number=0), revision=1, report=report)
    tables_store(stored, folder / "tables")
    reader = get_user_model().objects.create_user("reader", password="a-measured-password")
    reader.groups.add(Group.objects.get(name="engineer"))
    client = Client(HTTP_HOST="localhost")
    client.force_login(reader)
    took: list[float] = []
    cpu: list[float] = []
    for number in range(reads):
        began, begun_cpu = time.perf_counter(), time.process_time()
        response = client.get(f"/jobs/wide/facts/{_ADDRESSES[number % len(_ADDRESSES)]}")
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - begun_cpu)
        assert response.status_code == 200, response.status_code
    return took, cpu


def main() -> None:
    """Prints what the module says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4_096)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--reads", type=int, default=100)
    given = parser.parse_args()
    facts = list(stated(given.nodes, given.facts))
    compared_s, found = _cpu_s(lambda: setups.compare_nodes(facts))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "tables").mkdir()
        table_s, summary = _cpu_s(lambda: fact_table.summarise(facts, folder / "tables"))
        print(f"{len(facts):,} facts of {given.nodes:,} nodes")
        print(f"set-ups compared   {compared_s:.2f} CPU s, {len(found)} findings")
        print(f"table of facts     {table_s:.2f} CPU s")
        for what, each in zip(("Facts page", "  its CPU"), page_times(folder, summary, given.reads), strict=True):
            middle, most = (1000 * quantile(each, share) for share in (0.5, 0.95))
            print(f"{what:18} {middle:.0f} ms, p95 {most:.0f} ms")


if __name__ == "__main__":
    main()
