"""Jobs of 512 ranks in one file: does the answer name the machine, and for a crash the rank? `python -m lab.measure
single_file`

    python -m lab.measure single_file [--seed N…] [--show]

Read failures of even numbers only: the odd ones show whether corrections generalise.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.conclusion.invariants import violations
from diagnosis.pipeline import diagnose
from lab.exams.job import Job
from lab.exams.single_file import Log, logs
from lab.measure.evidence import parse_files

FIGURES = ("node", "rank", "condition", "stranger", "contradictions")


def report_of(log: Log) -> dict[str, Any]:
    """The report of one log."""
    with tempfile.TemporaryDirectory() as work:
        parsed, read = parse_files({"job.log": log.text.encode()}, Path(work))
        return report.to_json(diagnose(parsed, read=read))


def row(log: Log, told: dict[str, Any]) -> dict[str, float | None]:
    """``node``: the faulty node is the first accused, or the only one where the failure was seen; ``rank``: the same of
    the rank; ``stranger``: another node is accused.
    """
    c = told["conclusion"]
    fault = [f["name"] for f in c["fault"] if f["kind"] == "node"]
    nodes = fault or [s["name"] for s in c["seen"] if s["kind"] == "node"]
    ranks = [f["rank"] for f in c["fault"] if f["rank"] is not None] or [
        s["rank"] for s in c["seen"] if s["kind"] == "rank"
    ]
    return {
        "node": float(nodes[:1] == [log.node] and (bool(fault) or len(nodes) == 1)),
        "rank": None if log.rank is None else float(ranks == [log.rank]),
        "condition": float(c["condition"] == "failed"),
        "stranger": float(any(name != log.node for name in fault)),
        "contradictions": float(len(violations(told))),
    }


def jobs(seed: int) -> Iterator[Job]:
    """The same logs as jobs of a set."""
    for log in logs(seed):
        yield Job(log.name, "", {"job.log": log.text.encode()}, {"log": log})


def job_row(job: Job, told: dict[str, Any]) -> dict[str, Any]:
    """The figures of one of them under the names of the other sets."""
    found = row(job.truth["log"], told)
    return {"node_top1": found["node"], "rank_ok": found["rank"], "node_false_accusation": found["stranger"]}


def main() -> None:
    """Print the figures of even and odd numbers."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, nargs="+", default=[1])
    options.add_argument("--show", action="store_true", help="print what was answered wrongly, of even numbers")
    options.add_argument("--only", default="", help="logs whose name contains this")
    chosen = options.parse_args()
    rows: list[tuple[int, dict[str, float | None]]] = []
    for seed in chosen.seed:
        for number, log in enumerate(logs(seed)):
            if chosen.only not in log.name:
                continue
            told = report_of(log)
            found = row(log, told)
            rows.append((number % 2, found))
            if chosen.show and number % 2 == 0 and (found["node"] == 0 or found["rank"] == 0 or found["stranger"]):
                c = told["conclusion"]
                seen = [(s["kind"], s["name"]) for s in c["seen"]][:6]
                print(f"{log.name}: true {log.node} rank {log.rank}\n   {told['headline'][:200]}")
                print(f"   fault {[(f['name'], f['rank'], f['p']) for f in c['fault']][:4]} seen {seen}")
    for part, words in enumerate(("even, failures may be read", "odd, figures alone")):
        mine = [found for of, found in rows if of == part]
        print(f"{words}: {len(mine)} logs")
        for name in FIGURES:
            values = [v for found in mine if (v := found[name]) is not None]
            if values:
                print(f"  {name:15} {sum(values) / len(values):.3f} of {len(values)}")


if __name__ == "__main__":
    main()
