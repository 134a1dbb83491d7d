"""Grouping accuracy of templates on the public 2,000-line samples, beside Drain3: `python -m measure templates
[--folder DIR] [--raw] [--errors SYSTEM]`.

GA is the share of lines whose predicted group equals the true one exactly; FGA the F1 of such groups. One set of masks
for all systems; Drain3 gets the same masked messages. `--raw` reads the whole lines, headers and all, instead of the
message column. The sets are read from the reference evidence (`FAULTLINE_SHARED`, default `../shared`) and are not part
of the project.
"""

from __future__ import annotations

import argparse
import csv
import io
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
from diagnosis.logs import templates
from measure.evidence import SHARED


def systems(folder: Path, is_raw: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, lines, true event of each line)."""
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
    truly, predicted = defaultdict(set), defaultdict(set)
    for index, (event, group) in enumerate(zip(true, found, strict=True)):
        truly[event].add(index)
        predicted[group].add(index)
    right = [group for group in predicted.values() if group == truly[true[next(iter(group))]]]
    precision, recall = len(right) / len(predicted), len(right) / len(truly)
    fga = 2 * precision * recall / (precision + recall) if right else 0.0
    return sum(map(len, right)) / len(true), fga, len(predicted)


def grouped(lines: list[str]) -> tuple[list[int], list[str], list[str]]:
    """Of each line its template, the template's text and its own masked text."""
    with tempfile.TemporaryDirectory() as work:
        stream = io.BytesIO("\n".join(lines).encode() + b"\n")
        parsed = parse(stream, "x.log", ParseHints(kind=Kind.LOG), Path(work))
        uniques = pl.read_parquet(parsed.uniques)
        table = pl.read_parquet(parsed.columns).join(templates.mine([uniques]), on="masked", maintain_order="left")
        table = table.join(uniques.select("masked", own="text"), on="masked", maintain_order="left")
        return table["template"].to_list(), table["text"].to_list(), table["own"].to_list()


def drained(masked: list[str]) -> list[int]:
    """Drain3's cluster of each masked message, with its default parameters."""
    miner = TemplateMiner(config=TemplateMinerConfig())
    return [miner.add_log_message(text)["cluster_id"] for text in masked]


def errors(true: Sequence[str], found: Sequence[int], texts: Sequence[str], lines: Sequence[str]) -> None:
    """Prints the groups that differ from the truth."""
    truly, predicted = defaultdict(set), defaultdict(set)
    for index, (event, group) in enumerate(zip(true, found, strict=True)):
        truly[event].add(index)
        predicted[group].add(index)
    for group in sorted(predicted.values(), key=len, reverse=True):
        first = next(iter(sorted(group)))
        if group != truly[true[first]]:
            events = len({true[index] for index in group})
            print(
                f"    {len(group)} lines, {events} events, {len(truly[true[first]])} true: {texts[first][:90]} <- "
                f"{lines[first][:90]}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="one directory a system, instead of the reference evidence")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--errors", metavar="SYSTEM", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder
        if folder is None:
            archive = SHARED / "data" / "loghub.tar.gz"
            if not archive.exists():
                sys.exit(f"{archive} is not there: set FAULTLINE_SHARED or give --folder")
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
            folder = Path(place) / "loghub"
        rows = []
        print(f"{'':14}{'GA':>8}{'FGA':>8}{'groups':>8}{'true':>6}   {'Drain3 GA':>10}{'FGA':>8}{'groups':>8}")
        for name, lines, true in systems(folder, options.raw):
            found, texts, own = grouped(lines)
            ours, theirs = scores(true, found), scores(true, drained(own))
            rows.append((*ours[:2], *theirs[:2]))
            print(
                f"{name:14}{ours[0]:8.3f}{ours[1]:8.3f}{ours[2]:8}{len(set(true)):6}   "
                f"{theirs[0]:10.3f}{theirs[1]:8.3f}{theirs[2]:8}"
            )
            if name == options.errors:
                errors(true, found, texts, lines)
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"{'mean':14}{means[0]:8.3f}{means[1]:8.3f}{'':14}   {means[2]:10.3f}{means[3]:8.3f}")
