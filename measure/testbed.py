"""Diagnoses our own recordings of real faults: `python -m measure testbed [--logs-only]`; prints whether the faulty
node comes first."""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from diagnosis import report
from diagnosis.pipeline import diagnose
from measure.running import SHARED, read_job

FAILURES = (
    "bad_argument",
    "disk_full_ckpt",
    "exc_all_ranks_keyerror",
    "exc_one_rank_shape",
    "hang_dataloader",
    "net_cut_node",
    "sigkill_rank5",
)
OTHERS = ("healthy_ddp_a", "healthy_ddp_b", "healthy_pp2_a", "delay_100ms_node", "slow_loader_rank")


def truth(name: str) -> dict[str, Any]:
    """The recording's truth."""
    with tarfile.open(SHARED / "data" / "testbed" / "truth" / f"{name}.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith("truth.json") else None
            if stream is not None:
                found: dict[str, Any] = json.load(stream)
                return found
    raise FileNotFoundError(name)


def main() -> None:
    """One line a recording, then the two counts asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--logs-only", action="store_true", help="leave flows and stacks aside")
    options.add_argument("names", nargs="*")
    chosen = options.parse_args()
    first = nobody = with_node = without = 0
    for name in chosen.names or (*FAILURES, *OTHERS):
        known = truth(name)
        with tempfile.TemporaryDirectory() as work:
            parsed, read = read_job(
                SHARED / "data" / "testbed" / f"{name}.tar.gz", Path(work), "/logs/" if chosen.logs_only else ""
            )
            told = report.to_json(diagnose(parsed, read=read))
        logs = told["logs"]
        suspects = [s for s in told["suspects"] if s["kind"] == "node"]
        accused = [s["entity"] for s in suspects if s["suspect"]]
        faulty = known["faulty_nodes"]
        if name in FAILURES and faulty:
            with_node += 1
            first += bool(suspects) and suspects[0]["entity"] in faulty
        if name in FAILURES and not faulty:
            without += 1
            nobody += not accused
        print(
            f"{name:24} {logs['outcome']:9} {logs['id']:28} {logs['symptom']:14} {logs['stage']!s:16} "
            f"iteration {logs['iteration']!s:5} (truth {known['failing_iteration']}) "
            f"accused {accused} (truth {faulty}) first {suspects[0]['entity'] if suspects else None}"
        )
        print(f"{'':24} {told['headline']}")
    print(f"faulty node first {first}/{with_node}; nobody accused where nobody is at fault {nobody}/{without}")
