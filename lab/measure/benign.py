"""How often a rule mistakes a line of a healthy run for a cause: `python -m lab.measure benign [--show]`.

Reads the successes of the real jobs, the healthy jobs of the practice set, the healthy recordings of the testbed,
loghub's general system logs, and of the public jobs of the read part those without a failure and the first half of
what the others print before their root line (``FAULTLINE_SHARED``). Prints for each: lines, and lines that match a root
rule, by strength, per million. Loghub's systems sometimes report real faults; all count as false here.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from diagnosis.kinds.logs.meaning import signatures
from lab.measure import public
from lab.measure.evidence import SHARED, members

DATA = SHARED / "data"
_NUMBER = re.compile(r"\d+")


def main() -> None:
    """One line a source; ``--show`` prints each rule with an example of a matching line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--show", action="store_true", help="print the rules that matched lines")
    options.add_argument("--weak", action="store_true", help="print the weak ones too")
    chosen = options.parse_args()
    rules = signatures.load()
    for name, lines in (
        ("real jobs", real_jobs()),
        ("practice", practice()),
        ("testbed", archives(sorted((DATA / "testbed").glob("healthy*.tar.gz")))),
        ("public", public_starts()),
        ("loghub", archives([DATA / "loghub.tar.gz"], suffix="_2k.log")),
    ):
        counts: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for line in lines:
            key = _NUMBER.sub("0", line)
            counts[key] += 1
            examples.setdefault(key, line)
        cpu = time.process_time()
        frame = pl.DataFrame(
            {"masked": range(len(counts)), "example": list(examples.values()), "count": list(counts.values())},
            schema_overrides={"masked": pl.UInt64},
        )
        hits = rules.match(frame).filter(pl.col("role") == "root").join(frame, on="masked")
        cpu = time.process_time() - cpu
        total = sum(counts.values())
        print(f"{name}: {total:,} lines, {len(counts):,} different, {cpu:.1f} s CPU", end="")
        for strength in ("decisive", "strong", "weak"):
            found = hits.filter(pl.col("strength") == strength)["count"].sum() or 0
            print(f"; {strength} {found} ({found / max(1, total) * 1e6:.0f} per million)", end="")
        print()
        if chosen.show:
            kept = hits if chosen.weak else hits.filter(pl.col("strength") != "weak")
            rows = kept.group_by("signature").agg(pl.col("count").sum(), pl.col("example").first())
            for rule, count, example in rows.sort("count", descending=True).iter_rows():
                print(f"    {count:6d} {rule:28} {example.strip()[:150]}")


def real_jobs() -> Iterator[str]:
    """Lines of the real jobs that succeeded."""
    base = DATA / "real_jobs"
    labels = {row["file"]: row for row in csv.DictReader((base / "labels.csv").open())}
    with tarfile.open(base / "logs.tar.gz") as archive:
        for member in archive:
            if labels.get(member.name.removeprefix("./"), {}).get("outcome") == "success":
                yield from _lines(_bytes(archive, member))


def public_starts() -> Iterator[str]:
    """Lines of public jobs without a failure, and of the others long before their root line."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(public.PUBLIC / "logs.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        for label in public.jobs("read"):
            for path, raw in members(Path(folder) / label.name):
                yield from _start(list(_lines(raw)), label, path)


def _start(lines: list[str], label: public.Label, path: str) -> list[str]:
    """All lines of a job without a failure; else the first half of those before the root line of their file."""
    if not label.is_failure:
        return lines
    roots = [number for file, number in label.root_lines if path.endswith(file)]
    return lines[: min(roots, default=1) // 2]


def practice() -> Iterator[str]:
    """Lines of the practice set's healthy jobs."""
    base = DATA / "practice"
    for row in json.loads((base / "exam.json").read_text())["logs"]["history"]:
        with zipfile.ZipFile(base / row["path"]) as job:
            for name in job.namelist():
                raw = job.read(name)
                yield from _lines(gzip.decompress(raw) if name.endswith(".gz") else raw)


def archives(paths: list[Path], suffix: str = "") -> Iterator[str]:
    """Lines of the text members of archives."""
    for path in paths:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(suffix) and not member.name.endswith((".pcap", ".csv")):
                    yield from _lines(_bytes(archive, member))


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    return stream.read() if stream else b""


def _lines(raw: bytes) -> Iterator[str]:
    if b"\0" not in raw[:4096]:
        yield from io.StringIO(raw.decode("utf-8", "replace"))
