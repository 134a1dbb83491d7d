"""Public logs that nobody here made, by source: `python -m lab.measure public [--against CHECKOUT] [--part
read|unread]`.

The labels are read from ``data/public_logs`` of ``FAULTLINE_SHARED``. A source is a repository or a thread; a third of
the sources, chosen by the digest of their names, is the unread part: its misses are counted, not printed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.measure.evidence import SHARED
from lab.measure.reports import ROOT, reports

PUBLIC = SHARED / "data" / "public_logs"
PARTS = ("read", "unread")
#: One source in three is left unread.
_PARTS_OF_SOURCES = 3
#: A verdict said with at least this confidence counts as a sure one.
_SURE = 0.90
#: Root lines are labelled by reading: a neighbour of the labelled line is as good.
_LINE_SLACK = 1


@dataclass(frozen=True, slots=True)
class Label:
    """What a reader says of one job.

    ``leaves``: accepted categories with their subcategories (``hardware/host_oom``), the best first. ``root_lines``:
    file and number of each accepted line; the file is empty where the job has one. ``outcomes``: the accepted ones.
    """

    name: str
    source: str
    outcomes: frozenset[str]
    is_failure: bool
    leaves: tuple[str, ...]
    root_lines: tuple[tuple[str, int], ...]

    @property
    def part(self) -> str:
        """``unread`` for a third of the sources, else ``read``."""
        digest = hashlib.sha256(self.source.encode()).digest()
        return "unread" if digest[0] % _PARTS_OF_SOURCES == 0 else "read"


def labels(folder: Path | None = None) -> list[Label]:
    """All labelled jobs of a folder; of the public ones without one."""
    with ((folder or PUBLIC) / "labels.csv").open(encoding="utf-8", newline="") as rows:
        return [_label(row) for row in csv.DictReader(rows)]


def _label(row: dict[str, str]) -> Label:
    leaves = tuple(leaf for leaf in row["labels"].split("|") if leaf)
    lines = tuple(_root_line(text) for text in row["root_lines"].split("|") if text)
    source = "/".join(row["url"].split(" ")[0].split("/")[:5])
    return Label(row["file"], source, frozenset(row["outcome"].split("|")), row["is_failure"] == "1", leaves, lines)


def _root_line(text: str) -> tuple[str, int]:
    file, _, number = text.rpartition(":")
    return file, int(number)


def row(label: Label, report: dict[str, Any] | None) -> dict[str, int]:
    """One job's figures: 1 is right, 0 wrong; a figure that does not apply is absent."""
    if report is None:
        return {"answered": 0}
    conclusion, logs = report.get("conclusion") or {}, report.get("logs") or {}
    failed = bool(logs.get("is_failure")) or conclusion.get("condition") in ("failed", "hung", "degraded")
    found = {"answered": 1, "outcome": int(conclusion.get("outcome") in label.outcomes)}
    if not label.is_failure:
        return found | {"quiet": int(not failed)}
    category, leaf = conclusion.get("category"), f"{conclusion.get('category')}/{conclusion.get('subcategory')}"
    found |= {
        "seen": int(failed),
        "category": int(failed and category in {one.partition("/")[0] for one in label.leaves}),
        "leaf": int(failed and leaf in label.leaves),
    }
    if label.root_lines:
        found["root first"] = int(failed and _is_root(label, logs))
    if (conclusion.get("confidence") or 0) >= _SURE:
        found["sure and right"] = found["leaf"]
    return found


def _is_root(label: Label, logs: dict[str, Any]) -> bool:
    lines = [(line["file"], line["line"]) for line in (logs.get("lines") or [])[:1]]
    for file, number in lines:
        for of_file, wanted in label.root_lines:
            if file.endswith(of_file) and abs(number - wanted) <= _LINE_SLACK:
                return True
    return False


def jobs(part: str) -> Iterator[Label]:
    """The labelled jobs of a part, or of all parts for ``all``."""
    return (label for label in labels() if part in ("all", label.part))


def score(checkout: Path, chosen: Sequence[Label], folder: Path) -> list[tuple[Label, dict[str, int], Any]]:
    """Each job's label, figures and report, of the engine of a checkout."""
    answers = reports(checkout, [folder / label.name for label in chosen])
    rows = []
    for label, (_, report, _) in zip(chosen, answers, strict=True):
        rows.append((label, row(label, report), report))
    return rows


def table(rows: Sequence[tuple[Label, dict[str, int], Any]]) -> str:
    """The mean of each figure with the number of jobs it is over, in one line."""
    names = list(dict.fromkeys(name for _, figures, _ in rows for name in figures))
    cells = []
    for name in sorted(names):
        values = [figures[name] for _, figures, _ in rows if name in figures]
        cells.append(f"{name} {sum(values) / len(values):.3f} ({len(values)})")
    return "  ".join(cells)


def main() -> int:
    """Figures of each part, of this checkout and of another; the misses of the read part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    options = parser.parse_args()
    if not PUBLIC.is_dir():
        print(f"{PUBLIC} is absent: set FAULTLINE_SHARED")
        return 2
    chosen = list(jobs(options.part))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(PUBLIC / "logs.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        for checkout in filter(None, (options.against, ROOT)):
            rows = score(checkout.resolve(), chosen, Path(folder))
            for part in PARTS:
                if of_part := [one for one in rows if one[0].part == part]:
                    print(f"{checkout.name} {part}: {table(of_part)}")
    for label, figures, report in rows:
        missed = [name for name, value in figures.items() if not value]
        if missed and label.part == "read":
            conclusion = (report or {}).get("conclusion") or {}
            told = f"{conclusion.get('id')} {conclusion.get('outcome')} {conclusion.get('confidence')}"
            print(f"{label.name}: {', '.join(missed)}; told {told}; labelled {'|'.join(label.leaves)}")
    return 0
