"""`python -m lab.exam unpack|take|score`: see README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from lab.exam.baselines import BASELINES
from lab.exam.engine import answer_by_engine
from lab.exam.papers import VERSION, Paper, PaperError, read_paper, truths, unpack
from lab.exam.scoring import ROWS, Score, score

_ROOT = Path(__file__).resolve().parents[2]
_AT_A_TIME = 2


def main() -> int:
    """Run one command of the exam."""
    options = argparse.ArgumentParser(prog="python -m lab.exam", description=__doc__)
    commands = options.add_subparsers(dest="command", required=True)
    unpacking = commands.add_parser("unpack", help="write the evidence of all jobs")
    unpacking.add_argument("directory", type=Path)
    taking = commands.add_parser("take", help="let the engine or a baseline answer; prints a paper")
    taking.add_argument("tool", choices=["engine", *BASELINES])
    taking.add_argument("--checkout", type=Path, default=_ROOT, help="the engine of another one")
    scoring = commands.add_parser("score", help="print the figures of papers side by side")
    scoring.add_argument("papers", type=Path, nargs="+")
    scoring.add_argument("--show", action="store_true", help="name the jobs that are wrong")
    chosen = options.parse_args()
    if chosen.command == "unpack":
        for name, _path in unpack(chosen.directory):
            print(name)
    elif chosen.command == "take":
        paper = take(chosen.tool, chosen.checkout)
        print(msgspec.json.format(msgspec.json.encode(paper), indent=1).decode())
    else:
        return _print_scores(chosen.papers, show=chosen.show)
    return 0


def take(tool: str, checkout: Path) -> Paper:
    """The answers of the engine of a checkout, or of a baseline."""
    answer = BASELINES.get(tool) or partial(answer_by_engine, checkout=checkout)
    with tempfile.TemporaryDirectory() as directory:
        jobs = dict(unpack(Path(directory)))
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            answers = dict(zip(jobs, pool.map(answer, jobs.values()), strict=True))
    return Paper(exam=VERSION, tool=tool, answers=answers)


def _print_scores(papers: Sequence[Path], *, show: bool) -> int:
    try:
        scores = [score(read_paper(path), truths()) for path in papers]
    except (PaperError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"| version {VERSION} | {' | '.join(found.tool for found in scores)} |")
    print(f"|---|{'---|' * len(scores)}")
    for row, words in ROWS.items():
        print(f"| {words} | {' | '.join(found.shown(row) for found in scores)} |")
    if show:
        _print_wrong(scores)
    return 0


def _print_wrong(scores: Sequence[Score]) -> None:
    for found in scores:
        for row in ROWS:
            for name in found.wrong(row):
                print(f"{found.tool}: {row}: {name}")


if __name__ == "__main__":
    sys.exit(main())
