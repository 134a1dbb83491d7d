"""First paint of the log viewer on a log of any size: `python -m lab.measure log_window [--gb 10]`.

Makes a sparse file of that size below the temporary directory with lines only where they are read, and the column file
that parsing would write, then requests windows of the page at the beginning, middle and end, filtered and folded.
Deletes everything afterwards.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from diagnosis import Source
from diagnosis.files import parsed as parsed_files
from diagnosis.kinds.logs.columns.tables import COLUMNS, write_columns, write_part
from diagnosis.model import Kind, Parsed

ROOT = Path(__file__).resolve().parents[2]
#: bytes a line with its newline
LINE_BYTES = 200
PART_LINES = 4_000_000
#: one line of this number is an error
ERRORS = 1_000_000
BEGAN_NS = 1_790_000_000 * 10**9
SHA256 = "f" * 64


def part(first: int, count: int) -> pl.DataFrame:
    """Rows of the column file for ``count`` lines from the 0-based line ``first`` on."""
    n = pl.int_range(first, first + count, dtype=pl.Int64, eager=True).alias("n")
    return pl.DataFrame({"n": n}).select(
        line=(pl.col("n") + 1).cast(COLUMNS["line"]),
        offset=(pl.col("n") * LINE_BYTES).cast(COLUMNS["offset"]),
        length=pl.lit(LINE_BYTES - 1, COLUMNS["length"]),
        record=(pl.col("n") + 1).cast(COLUMNS["record"]),
        time=pl.lit(BEGAN_NS) + pl.col("n") * 10_000_000,
        source=(pl.col("n") % 8).cast(COLUMNS["source"]),
        level=pl.when(pl.col("n") % ERRORS == ERRORS - 1).then(4).otherwise(2).cast(COLUMNS["level"]),
        flags=pl.lit(0, COLUMNS["flags"]),
        masked=(pl.col("n") // 3 % 5_000).hash(7).cast(COLUMNS["masked"]),
    )


def line_at(n: int) -> bytes:
    text = f"[rank{n % 8}] iteration {n} | loss 2.5 | grad norm 1.25 | lr 3e-4 | tokens 1048576 | {'x' * 200}"
    return text.encode()[: LINE_BYTES - 1] + b"\n"


def evidence(lines: int, blob: Path, parsed: Path, read_at: list[int]) -> None:
    """The sparse file with a thousand lines from each of ``read_at`` on, and its parsed files."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    with blob.open("wb") as file:
        file.truncate(lines * LINE_BYTES)
        for first in read_at:
            file.seek(first * LINE_BYTES)
            file.write(b"".join(line_at(n) for n in range(first, min(lines, first + 1000))))
    parsed.mkdir(parents=True)
    parts: list[Path] = []
    for first in range(0, lines, PART_LINES):
        parts.append(parsed / f"{len(parts)}.part")
        write_part(part(first, min(PART_LINES, lines - first)), parts[-1])
    write_columns(parts, parsed / "columns.parquet")
    sources = tuple(Source(node=f"gpu-{n:04d}", rank=n) for n in range(8))
    parsed_files.save(Parsed(path="train.log", kind=Kind.LOG, lines=lines, sources=sources), parsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--times", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="log-window-") as folder:
        os.environ |= {
            "FAULTLINE_DATA_DIR": folder,
            "DATABASE_URL": f"sqlite:///{folder}/measure.sqlite3",
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "ERROR",
        }
        run(int(args.gb * 10**9) // LINE_BYTES, args.times, Path(folder))


def run(lines: int, times: int, folder: Path) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.test import Client

    from ingest.models import Artifact, Attempt, Blob, Cluster, Job

    # no broker is needed to read, and none runs
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    began = time.perf_counter()
    blob, parsed = folder / "blobs" / Blob.key_of(SHA256), folder / "parsed" / "wide"
    evidence(lines, blob, parsed, [0, lines // 2, lines - 1000])
    size = (parsed / "columns.parquet").stat().st_size
    print(f"{lines:,} lines, {blob.stat().st_size / 1e9:.1f} GB; column file {size / 1e6:.0f} MB", end=", ")
    print(f"made in {time.perf_counter() - began:.0f} s ({time.process_time():.0f} CPU s)")
    job = Job.objects.create(slug="wide", name="Wide", cluster=Cluster.objects.get_or_create(slug="default")[0])
    attempt = Attempt.objects.create(job=job, number=0)
    held = Blob.objects.create(sha256=SHA256, size_bytes=blob.stat().st_size)
    Artifact.objects.create(
        attempt=attempt, path="train.log", blob=held, kind="log", state="parsed", parsed_key="wide", lines=lines
    )
    user = get_user_model().objects.create_user("reader")
    user.groups.add(Group.objects.get(name="engineer"))
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    client.get("/jobs/wide/files/")  # the process has begun
    windows = {
        "top": "",
        "middle": f"?line={lines // 2 + 100}",
        "end": f"?line={lines}",
        "middle, one node": f"?line={lines // 2 + 100}&who=gpu-0003",
        "errors from the top": "?level=4&count=5",
        "middle, folded": f"?line={lines // 2 + 100}&fold=1",
    }
    for title, query in windows.items():
        report(title, client, f"/jobs/wide/logs/0/train.log{query}", times)


def report(title: str, client: Any, url: str, times: int) -> None:
    spent, worked, size = [], [], 0
    for _ in range(times + 1):
        began, before = time.perf_counter(), time.process_time()
        response = client.get(url)
        spent.append((time.perf_counter() - began) * 1000)
        worked.append((time.process_time() - before) * 1000)
        if response.status_code != 200:
            raise SystemExit(f"{url} answered {response.status_code}")
        size = len(response.content)
    first, *rest = spent
    print(
        f"{title:22} first {first:.0f} ms, then p50 {statistics.median(rest):.0f} max {max(rest):.0f} ms "
        f"(CPU first {worked[0]:.0f}, then {statistics.median(worked[1:]):.0f} ms), {size / 1000:.0f} kB",
        flush=True,
    )
