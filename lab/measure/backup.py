"""Time, memory and size of a backup and a restore, for a generated installation.

``python -m lab.measure backup --gigabytes 10 --rows 1000000``: files of random bytes in the store, findings in the
database; a backup, a second one, and a restore into an empty SQLite.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

FILE_BYTES = 64 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faultline-backup-") as folder:
        for name in ("DATABASE_URL", "REDIS_URL"):
            os.environ.pop(name, None)
        os.environ |= {"FAULTLINE_DATA_DIR": f"{folder}/data", "DJANGO_SETTINGS_MODULE": "triage.settings"}
        import django

        django.setup()
        _measure(Path(folder), int(args.gigabytes * 1e9), args.rows)


def _measure(folder: Path, size: int, rows: int) -> None:
    from django.core.management import call_command
    from django.db import connection

    from triage.services.backup import backup, restore

    call_command("migrate", verbosity=0)
    _fill(size, rows)
    print(f"{rows:,} rows of a run's log, {size / 1e9:.1f} GB of evidence")
    for what in ("backup", "second backup"):
        with _Timed(what) as timed:
            summary = backup(folder / "kept")
        timed.say(f"{summary.rows:,} rows, {summary.copied_bytes / 1e9:.2f} GB copied")
    print(f"file of rows: {(folder / 'kept' / 'rows.jsonl.zst').stat().st_size / 1e6:.1f} MB")
    connection.close()
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir()
    with _Timed("restore") as timed:
        summary = restore(folder / "kept")
    timed.say(f"{summary.rows:,} rows, {summary.copied_bytes / 1e9:.2f} GB copied")


def _fill(size: int, rows: int) -> None:
    from ingest import services, storage
    from ingest.models import Artifact, Blob, Run, RunLog

    job = services.job_create(name="job", slug="job", user=None)
    attempt = job.attempts.first() or job.attempts.create(number=0)
    run = Run.objects.create(job=job, kind=Run.Kind.PARSE, state=Run.State.SUCCEEDED)
    path = Path(os.environ["FAULTLINE_DATA_DIR"]) / "part"
    for number, start in enumerate(range(0, size, FILE_BYTES)):
        data = os.urandom(min(FILE_BYTES, size - start))
        digest = hashlib.sha256(data).hexdigest()
        path.write_bytes(data)
        Blob.objects.create(sha256=digest, size_bytes=len(data))
        storage.blob_put(path, digest)
        Artifact.objects.create(attempt=attempt, path=f"{number}.log", blob_id=digest)
    for start in range(0, rows, 10_000):
        batch = range(start, min(start + 10_000, rows))
        RunLog.objects.bulk_create(RunLog(run=run, path=f"rank{n}.log", message=f"read {n} lines") for n in batch)


class _Timed:
    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> _Timed:
        self._wall, self._cpu = time.monotonic(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._wall, self._cpu = time.monotonic() - self._wall, time.process_time() - self._cpu

    def say(self, text: str) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{self.what:14} {self._wall:6.1f} s, {self._cpu:6.1f} CPU s, peak {peak:.0f} MB: {text}", flush=True)


if __name__ == "__main__":
    main()
