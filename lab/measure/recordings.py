"""Scores the whole engine on recordings of real training: `python -m lab.measure recordings DIR…`.

Each ``DIR`` is a recording of the testbed, a directory of them, or a directory of ``NAME.tar.gz`` with
``truth/NAME.tar.gz`` (:mod:`lab.measure.recorded`). The engine gets the files that a person would upload, without the
truth. Prints for each: condition, the accused in order, the truth, the slow steps; then one row a figure (for the
condition also without the recordings whose fault made no iteration longer, marked ~ where missed). ``--totals-only``
prints only these rows, for recordings that nobody may read. ``--without`` switches mechanisms off; ``--former DIR``
also runs the command line of another checkout, whose figures stand beside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from lab.measure.evidence import parse_files
from lab.measure.recorded import Ends, Recording, recordings

#: A true step this many times the median must be reported as slow; one below the second number must not.
SLOW: Final = 1.3
CALM: Final = 1.15
#: The figures that count recordings, in the order of printing.
ROWS: Final = {
    "condition": "condition right",
    "felt": "the same without faults that no iteration shows",
    "degraded": "slow jobs told as degraded",
    "slow": "slow jobs: the faulty node is the first accused",
    "slow_felt": "the same without faults that no iteration shows",
    "uplink": "slow uplinks: a link or switch is the first accused",
    "hung": "hung jobs: the culprit is the first accused",
    "known": "hung jobs: the category is known",
    "other": "other failures of a node: it is the first accused",
    "above": "faulty node: no healthy node or switch stands above it",
    "calm": "healthy jobs not raised as degraded",
    "nobody": "nobody at fault: no machine accused",
}


@dataclass
class Totals:
    """Counts over recordings; ``rows``: of each figure of :data:`ROWS`, right or wrong for each recording."""

    rows: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    slow: int = 0
    found_slow: int = 0
    told_slow: int = 0
    false: int = 0
    error_healthy: list[float] = field(default_factory=list)
    error_slow: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, str]:
        """Each figure by what it says."""
        shares = {key: f"{sum(self.rows[key])} of {len(self.rows[key])}" for key in ROWS}
        return shares | {
            "slow steps: recall": _ratio(self.found_slow, self.slow),
            "slow steps: precision": _ratio(self.told_slow - self.false, self.told_slow),
            "mean step of healthy jobs: error": _errors(self.error_healthy),
            "mean step of slow jobs: error": _errors(self.error_slow),
        }


def _errors(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3%} (worst {max(values):.3%}, {len(values)} jobs)" if values else "-"


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "-"


def report_of(recording: Recording, without: Iterable[str]) -> dict[str, Any]:
    """The report of this engine."""
    with tempfile.TemporaryDirectory() as work:
        parsed, read = parse_files(recording.files, Path(work))
        return to_json(diagnose(parsed, read=read, without=frozenset(without)))


def former_report(recording: Recording, checkout: Path) -> dict[str, Any]:
    """The report of another checkout, by its command line."""
    with tempfile.TemporaryDirectory() as work:
        for path, data in recording.files.items():
            target = Path(work) / recording.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        command = [sys.executable, "-m", "diagnosis", str(Path(work) / recording.name), "--json"]
        process = subprocess.run(command, cwd=checkout, capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


def judge(recording: Recording, report: Mapping[str, Any], totals: Totals) -> str:
    """Counts one report; returns its line."""
    conclusion = report.get("conclusion") or {}
    condition, wanted = str(conclusion.get("condition")), recording.wanted
    faulty, of = recording.places
    fault = conclusion.get("fault") or []
    names = [of.get(str(f["name"]), str(f["name"])) if f["kind"] == "rank" else str(f["name"]) for f in fault]
    machines = [n for n, f in zip(names, fault, strict=True) if f["kind"] in ("node", "rank")]
    is_right = condition == wanted

    def count(key: str, value: bool) -> None:
        totals.rows[key].append(value)

    count("condition", is_right)
    if recording.is_felt:
        count("felt", is_right)
    if wanted == "degraded":
        count("degraded", is_right)
    if wanted == "healthy":
        count("calm", condition != "degraded")
    if wanted == "hung":
        count("known", conclusion.get("id") not in ("unknown", "none", None))
    if faulty and len(faulty) < len(set(of.values())):
        is_first = bool(names) and names[0] in faulty
        count({"degraded": "slow", "hung": "hung"}.get(wanted, "other"), is_first)
        if wanted == "degraded" and recording.is_felt:
            count("slow_felt", is_first)
        count("above", is_first or not names)
    elif recording.is_uplink:
        count("uplink", bool(fault) and fault[0]["kind"] in ("link", "switch"))
        count("nobody", not machines)
    elif wanted != "recovered":
        count("nobody", not machines)
    shown = ", ".join(f"{f['name']} {f['p']:.2f}" for f in fault) or "nobody"
    truth = ", ".join(sorted(faulty)) or ("the uplink" if recording.is_uplink else "nobody")
    steps = _steps(recording, report, totals)
    mark = " " if is_right else "!" if recording.is_felt else "~"
    return f"{recording.name:24}{mark} {condition:10} {shown[:70]:70} true: {truth[:24]:24} {steps}"


def _steps(recording: Recording, report: Mapping[str, Any], totals: Totals) -> str:
    """Counts slow steps of each job, and compares its mean step time: each step of the flows is the iteration whose end
    is nearest.
    """
    jobs = [j for j in (report.get("flows") or {}).get("jobs") or () if j["steps"]]
    words: list[str] = []
    for truth in recording.jobs.values():
        matching = [j for j in jobs if truth.places & {str(m) for m in (*j["members"], *(j.get("nodes") or ()))}]
        if len(truth.ends) < 3:
            continue
        if not matching:
            words.append("no steps")
            continue
        job = max(matching, key=lambda j: len(j["steps"]))
        words.append(_steps_of(truth, job["steps"], totals))
        if recording.wanted in ("healthy", "degraded") and len(job["steps"]) > 1:
            mean = float(np.diff([s["end"] for s in job["steps"]]).mean())
            error = abs(mean / float(np.diff(truth.ends).mean()) - 1)
            (totals.error_healthy if recording.wanted == "healthy" else totals.error_slow).append(error)
            words[-1] += f", {error:.3%}"
    return "; ".join(words)


def _steps_of(truth: Ends, steps: Sequence[Mapping[str, Any]], totals: Totals) -> str:
    """Counts the slow steps of one job."""
    usual = float(np.median(truth.lengths))
    slow = {int(k) for k in np.flatnonzero(truth.lengths > SLOW * usual) if k > 1}
    calm = {int(k) for k in np.flatnonzero(truth.lengths < CALM * usual)}
    told = {int(np.abs(truth.ends - s["end"]).argmin()) for s in steps if s["slow"]} - {0, 1}
    found = {k for k in slow if told & {k}}
    totals.slow += len(slow)
    totals.found_slow += len(found)
    totals.told_slow += len(told)
    totals.false += len(told & calm)
    return f"steps {len(found)}/{len(slow)}, {len(told & calm)} false; {len(steps)} of {len(truth.ends)}"


def main() -> int:
    """Print a line a recording, then the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("places", nargs="+", type=Path, metavar="DIR")
    options.add_argument("--totals-only", action="store_true", help="nothing of single recordings")
    options.add_argument("--without", action="append", default=[], metavar="ID", help="switch a mechanism off")
    options.add_argument("--former", type=Path, metavar="DIR", help="a checkout to compare with")
    options.add_argument("--only", action="append", metavar="TEXT", help="recordings whose names begin so")
    options.add_argument("--leave-out", metavar="TEXT", help="no recordings whose names begin so")
    chosen = options.parse_args()
    now, before = Totals(), Totals()
    for place in chosen.places:
        if not place.is_dir():
            print(f"{place} is no directory of recordings", file=sys.stderr)
            return 2
        for recording in recordings(place, only=chosen.only or (), leave_out=chosen.leave_out):
            line = judge(recording, report_of(recording, chosen.without), now)
            former = judge(recording, former_report(recording, chosen.former), before) if chosen.former else ""
            if not chosen.totals_only:
                print(line, flush=True)
                if former:
                    print(f"{'   before':24}{former[24:]}", flush=True)
    print(f"{len(now.rows['condition'])} recordings")
    beside = before.figures() if chosen.former else {}
    for key, value in now.figures().items():
        earlier = f"  before: {beside[key]}" if chosen.former else ""
        print(f"  {ROWS.get(key, key):58} {value:32}{earlier}".rstrip())
    return 0
