"""Grouping accuracy of templates, compared with Drain3 and with masking each word with a digit: `python -m lab.measure
templates [--folder DIR …] [--raw] [--errors SYSTEM]`.

GA is the share of lines whose predicted group equals the true one exactly; FGA the F1 of such groups. One set of masks
for all systems; Drain3 gets the same masked messages. Systems: the public 2,000-line samples of the reference evidence
(`FAULTLINE_SHARED`, default `../shared`), which are not part of the project, or those of each `--folder`; and the
made-up ones of `lab.exams.messages`, whose truth is known by construction. `--raw` reads the whole lines of the public
samples, with their headers, instead of the message column.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig

from diagnosis import Kind, ParseHints, parse
from diagnosis.kinds.logs.rows import templates
from lab.exams.messages import world
from lab.measure.evidence import SHARED

#: Name, lines and the true event of each line.
type System = tuple[str, list[str], list[str]]


def systems(folder: Path, is_raw: bool) -> Iterator[System]:
    """The public samples below a folder."""
    for place in sorted(one for one in folder.iterdir() if one.is_dir()):
        truth = place / f"{place.name}_2k.log_structured_corrected.csv"
        with truth.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        lines = [row["Content"] for row in rows]
        if is_raw:
            text = (place / f"{place.name}_2k.log").read_text(encoding="utf-8", errors="replace")
            lines = [line.rstrip("\r") for line in text.split("\n")][: len(rows)]
        yield place.name, lines, [row["EventId"] for row in rows]


def scores(true: Sequence[str], found: Sequence[object]) -> tuple[float, float, int]:
    """GA, FGA and the number of groups found."""
    truly: dict[str, set[int]] = defaultdict(set)
    predicted: dict[object, set[int]] = defaultdict(set)
    for index, (event, group) in enumerate(zip(true, found, strict=True)):
        truly[event].add(index)
        predicted[group].add(index)
    right = [group for group in predicted.values() if group == truly[true[next(iter(group))]]]
    precision, recall = len(right) / len(predicted), len(right) / len(truly)
    fga = 2 * precision * recall / (precision + recall) if right else 0.0
    return sum(map(len, right)) / len(true), fga, len(predicted)


def group_lines(lines: list[str]) -> tuple[list[str], list[str]]:
    """Of each line its template and its own masked text."""
    with tempfile.TemporaryDirectory() as work:
        stream = io.BytesIO("\n".join(lines).encode() + b"\n")
        parsed = parse(stream, "x.log", ParseHints(kind=Kind.LOG), Path(work))
        texts = dict(pl.read_parquet(parsed.uniques, columns=["masked", "text"]).iter_rows())
        own = [texts[masked] for masked in pl.read_parquet(parsed.columns, columns=["masked"])["masked"]]
        template_of = templates.of_texts(own)
        return [template_of[text] for text in own], own


def drain_clusters(masked: list[str]) -> list[int]:
    """Drain3's cluster of each masked message, with its default parameters."""
    miner = TemplateMiner(config=TemplateMinerConfig())
    return [miner.add_log_message(text)["cluster_id"] for text in masked]


def mask_digits(lines: list[str]) -> list[str]:
    """The simplest grouping that works: lines that are equal once each word with a digit is masked."""
    return [" ".join("*" if re.search(r"\d", word) else word for word in line.split()) for line in lines]


def errors(true: Sequence[str], found: Sequence[str], lines: Sequence[str]) -> None:
    """Prints the groups that differ from the truth."""
    truly: dict[str, set[int]] = defaultdict(set)
    predicted: dict[object, set[int]] = defaultdict(set)
    for index, (event, group) in enumerate(zip(true, found, strict=True)):
        truly[event].add(index)
        predicted[group].add(index)
    for members in sorted(predicted.values(), key=len, reverse=True):
        first = min(members)
        if members != truly[true[first]]:
            events = len({true[index] for index in members})
            print(
                f"    {len(members)} lines, {events} events, {len(truly[true[first]])} true: {found[first][:90]} <- "
                f"{lines[first][:90]}"
            )


def sets(folders: Sequence[Path], is_raw: bool, work: Path) -> Iterator[tuple[str, list[System]]]:
    """Title and systems of each set."""
    if not folders:
        archive = SHARED / "data" / "loghub.tar.gz"
        if archive.exists():
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")
            folders = [work / "loghub"]
        else:
            print(f"{archive} is not there: set FAULTLINE_SHARED or give --folder", file=sys.stderr)
    for folder in folders:
        yield f"public: {folder.name}", list(systems(folder, is_raw))
    yield "made up", [(name, *world.lines(name)) for name in world.systems()]


def measure_system(system: System, wanted: str) -> list[float]:
    """Prints one system's row; returns its figures."""
    name, lines, true = system
    found, own = group_lines(lines)
    ours, theirs, plain = scores(true, found), scores(true, drain_clusters(own)), scores(true, mask_digits(lines))
    row = "".join(f"{ga:9.3f}{fga:7.3f}{groups:7}" for ga, fga, groups in (ours, theirs, plain))
    print(f"{name:18}{len(set(true)):6}{row}", flush=True)
    if name == wanted:
        errors(true, found, lines)
    return [*ours[:2], *theirs[:2], *plain[:2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, nargs="+", default=[], help="one directory a system")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--errors", metavar="SYSTEM", default="")
    options = parser.parse_args()
    names = "".join(f"{name:>9}{'FGA':>7}{'groups':>7}" for name in ("GA", "Drain3", "digits"))
    with tempfile.TemporaryDirectory() as work:
        for title, each in sets(options.folder, options.raw, Path(work)):
            print(f"{title:18}{'true':>6}{names}")
            rows = [measure_system(system, options.errors) for system in each]
            means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
            pairs = zip(means[::2], means[1::2], strict=True)
            print(f"{'mean':24}" + "".join(f"{ga:9.3f}{fga:7.3f}{'':7}" for ga, fga in pairs) + "\n")


if __name__ == "__main__":
    main()
