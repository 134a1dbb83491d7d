"""Flow engine on real recordings: `python -m lab.measure flows_recorded`.

Testbed: mean step time and ends of steps against the recorded truth, slow steps of the two slow scenarios. ByteDance
ST: step error and whether the last stage is named. Needs the reference data next to the repository or in
$FAULTLINE_SHARED.
"""

from __future__ import annotations

import csv
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from diagnosis.evidence.inventory import machine_of
from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.tell.engine import diagnose_flows
from diagnosis.model import ParseHints
from diagnosis.values.plain import plain
from lab.measure.evidence import SHARED

DATA = SHARED / "data"
HEALTHY = ("healthy_ddp_a", "healthy_ddp_b", "healthy_pp2_a")
SLOW = ("delay_100ms_node", "slow_loader_rank")


def analyse(path: Path, inventory: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    """The flows object of one file."""
    with path.open("rb") as stream:
        report = diagnose_flows(
            [parse_flow(stream, path.name, ParseHints(), work)], inventory=list(map(machine_of, inventory))
        )
    return dict(msgspec.to_builtins(report, enc_hook=plain))


def unpack(name: str, target: Path) -> tuple[Path, list[dict[str, Any]], dict[str, Any], Path]:
    """flows.csv, inventory rows, truth and the truth's directory of one recording."""
    for archive, place in ((f"{name}.tar.gz", target), (f"truth/{name}.tar.gz", target / "truth")):
        with tarfile.open(DATA / "testbed" / archive) as tar:
            tar.extractall(place, filter="data")
    flows = next(target.glob("*/flows.csv"))
    job = json.loads(next(target.glob("*/job.json")).read_text())
    hosts = [(n, h) for j in job["jobs"] for n, h in j["hosts"].items()]
    truth = next(target.glob("truth/*/truth.json"))
    return (
        flows,
        [{"ip": h["ip"], "node": n, "switch": h["switch"]} for n, h in hosts],
        json.loads(truth.read_text()),
        truth.parent,
    )


def true_steps(directory: Path) -> np.ndarray:
    """The time when the last rank ended each iteration."""
    ends: dict[int, float] = {}
    for row in csv.DictReader((directory / "truth_steps.csv").open()):
        n = int(row["iteration"])
        ends[n] = max(ends.get(n, 0.0), float(row["t1"]))
    return np.array([ends[n] for n in sorted(ends)])


def testbed(name: str) -> None:
    """Prints one recording's figures."""
    with tempfile.TemporaryDirectory() as directory:
        flows, inventory, truth, where = unpack(name, Path(directory))
        job = max(analyse(flows, inventory, Path(directory) / "work")["jobs"], key=lambda j: len(j["steps"]))
        ends = true_steps(where)
        found = np.array([s["end"] for s in job["steps"]])
        mean, true_mean = np.diff(found).mean(), np.diff(ends).mean()
        error = abs(mean / true_mean - 1) * 100
        line = (
            f"{name:18} steps {len(found)} of {len(ends)}; mean {mean:.5f} s, true {true_mean:.5f}, error {error:.3f} %"
        )
        if name in HEALTHY and len(found) == len(ends):
            off = float(np.median(np.abs(found - ends)))
            line += f"; ends off by {off * 1e3:.2f} ms = {off / true_mean * 100:.2f} % of a step (median)"
        print(line)
        if name in SLOW:
            slow = [n for n, s in enumerate(job["steps"], 1) if s["slow"]]
            wanted = truth["jobs"][0]["slow_steps_injected"]
            hit = [w for w in wanted if any(abs(w - s) <= 1 for s in slow)]
            print(
                f"{'':18} slow steps injected {wanted[0]}..{wanted[-1]}: {len(hit)} of {len(wanted)} found (±1), "
                f"{len(slow)} named"
            )


def bytedance() -> None:
    """Prints the figures of the ByteDance trace."""
    base = DATA / "bytedance_st"
    truth = json.loads((base / "ST_truth.json").read_text())
    with tempfile.TemporaryDirectory() as work:
        report = analyse(base / "ST_flows.csv", [], Path(work))
    job = report["jobs"][0]
    found = np.array([s["end"] for s in job["steps"]])
    ends = np.array([s["end"] for s in truth["steps"]])
    nearest = np.abs(found[:, None] - ends[None, :]).argmin(axis=1)
    error = np.abs(np.diff(found) / np.diff(ends)[nearest[:-1]] - 1)
    last = {ip for ip, r in truth["ip_of_rank"].items() if r["pp"] == truth["meta"]["pp_size"] - 1}
    named = any(d["kind"] == "slow_group" and set(d.get("culprits", [])) & last for d in job["diagnoses"])
    print(
        f"bytedance_st       steps {len(found)} of {len(ends)}; step error mean {error.mean() * 100:.3f} %; "
        f"layout {job['parallelism']}; last stage named: {named}"
    )


def main() -> int:
    if not DATA.exists():
        print(f"no data below {DATA}; set FAULTLINE_SHARED", file=sys.stderr)
        return 2
    for name in (*HEALTHY, *SLOW):
        testbed(name)
    bytedance()
    return 0
