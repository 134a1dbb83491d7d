"""How often a rule mistakes a line of a healthy run for a cause: `python -m lab.measure benign [--show]`.

Reads the successes of the real jobs, the healthy jobs of the practice set, the healthy recordings of the testbed and
loghub's general system logs (``FAULTLINE_SHARED``). Prints for each: lines, and lines that match a root rule, by
strength, per million. Loghub's systems sometimes report real faults; all count as false here.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from diagnosis.kinds.logs.meaning import signatures
from lab.measure.evidence import SHARED

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
