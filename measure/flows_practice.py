"""Figures of the flow engine on the practice sets: `python -m measure flows_practice [--cases]`.

Needs the practice data beside the repository (or in $FAULTLINE_SHARED); prints what the scorer says and the time each
set took.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from diagnosis.flows import diagnose_flows, parse_flow
from diagnosis.model import ParseHints
from measure.evidence import SHARED
from measure.score import scorer


def run(path: Path, inventory: Path | None, work: Path) -> dict[str, Any]:
    """The flows object of one set."""
    rows = list(csv.DictReader(inventory.open())) if inventory and inventory.exists() else []
    with path.open("rb") as stream:
        parsed = parse_flow(stream, path.name, ParseHints(), work)
    return diagnose_flows([parsed], inventory=rows)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", action="store_true", help="print every set")
    options.add_argument("--no-inventory", action="store_true")
    chosen = options.parse_args()
    exam = SHARED / "data" / "practice"
    if not exam.exists():
        print(f"practice data not found below {SHARED}; set FAULTLINE_SHARED", file=sys.stderr)
        return 2
    score = scorer()
    predictions: dict[str, Any] = {}
    for entry in json.loads((exam / "exam.json").read_text())["flows"]:
        with tempfile.TemporaryDirectory() as work:
            began = time.perf_counter(), time.process_time()
            inventory = None if chosen.no_inventory else exam / entry["inventory"]
            predictions[entry["set_id"]] = run(exam / entry["path"], inventory, Path(work))
            wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            print(f"{entry['set_id']}: {wall:.2f} s wall, {cpu:.2f} s CPU")
    truth, arrays = score.load_truth(str(exam))
    report = score.score({"flows": truth["flows"]}, {"flows": predictions}, None, arrays)["flows"]
    for key, value in report["all"].items():
        print(f"  {key:32} {value}")
    if chosen.cases:
        for name, row in report["cases"].items():
            print(name, json.dumps(row))
    return 0
