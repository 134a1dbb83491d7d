"""Scores the whole engine on recordings of real training: `python -m measure recordings DIR…`.

Each ``DIR`` is a recording of the testbed (``flows.parquet``, ``logs``, ``stacks``, ``truth.json``,
``truth_steps.csv``), a directory of them, or a directory of ``NAME.tar.gz`` with ``truth/NAME.tar.gz``. The engine gets
the files that a person would upload, without the truth. Prints for each: condition, the accused in order, the truth,
the slow steps; then totals, in brackets without the recordings whose fault made no iteration longer (marked ~ where
missed). ``--totals-only`` prints only the totals, for recordings that nobody may read. ``--without`` switches
mechanisms off; ``--former DIR`` also runs the command line of another checkout.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from measure.evidence import members, parse_files

#: Not evidence, or the same evidence in another form.
_KEPT_BACK: Final = ("truth.json", "truth_steps.csv", "connections.json", "flows.csv", "sample.pcap")
#: A fault that makes its iterations longer by less than this share, or costs less GPU-time than this, leaves the job as
#: it was: the machine's noise hides it. The totals tell the other recordings apart.
COST: Final = 0.05
COST_GPU_S: Final = 5.0
#: A true step this many times the median must be reported as slow; one below the second number must not.
SLOW: Final = 1.3
CALM: Final = 1.15


@dataclass(frozen=True)
class Ends:
    """The hosts and addresses of a job, its iterations, when the last rank ended each, and how long each took."""

    places: frozenset[str]
    numbers: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Recording:
    """The upload (path to bytes), the truth, and of each job its :class:`Ends`."""

    name: str
    files: Mapping[str, bytes]
    truth: Mapping[str, Any]
    jobs: Mapping[str, Ends]

    @property
    def wanted(self) -> str:
        """The condition that is right."""
        if self.truth.get("slow"):
            return "degraded"
        if self.truth["category"] == "none":
            return "healthy"
        return "hung" if "hang" in self.truth["subcategory"] else "failed"

    @property
    def is_felt(self) -> bool:
        """Whether the fault of a slow job made its iterations longer than the others; true where the truth does not say
        which these are. Of several jobs, that of the faulty machine counts.
        """
        for job in self.truth["jobs"]:
            own = self.jobs[str(job["id"])]
            touched = np.isin(own.numbers, job.get("slow_steps_injected") or ())
            if not self.truth.get("slow") or not touched.any() or touched.all():
                continue
            if self.places[0] and not self.places[0] & own.places:
                continue
            beyond = own.lengths[touched] - float(np.median(own.lengths[~touched]))
            ranks = int(job["nproc_per_node"]) * len(job["hosts"])
            if beyond.sum() * ranks < COST_GPU_S or beyond.sum() < COST * own.lengths[touched].sum():
                return False
        return True

    @property
    def places(self) -> tuple[set[str], dict[str, str]]:
        """The names of the faulty nodes, and the node of each rank."""
        of = {str(r["rank"]): str(r["host"]) for job in self.truth["jobs"] for r in job.get("ranks") or ()}
        return {str(n) for n in self.truth.get("faulty_nodes") or ()}, of


@dataclass
class Totals:
    """Counts over recordings."""

    condition: list[bool] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    felt: list[bool] = field(default_factory=list)
    first_felt: list[bool] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)
    above: int = 0
    accused_calm: int = 0
    calm: int = 0
    slow: int = 0
    found: int = 0
    told: int = 0
    false: int = 0
    error_healthy: list[float] = field(default_factory=list)
    error_slow: list[float] = field(default_factory=list)

    def words(self) -> str:
        """One line."""

        def share(rows: list[bool]) -> str:
            return f"{sum(rows)} of {len(rows)}"

        def felt(rows: list[bool]) -> str:
            return share([row for row, one in zip(rows, self.felt, strict=True) if one])

        return (
            f"condition right {share(self.condition)} ({felt(self.condition)} without faults that no iteration shows); "
            f"faulty node first {share(self.first)} ({share(self.first_felt)}), among the accused "
            f"{share(self.named)}; healthy node first {self.above}; of {self.calm} recordings without a faulty node "
            f"{self.accused_calm} accuse one; slow steps: recall {_ratio(self.found, self.slow)}, precision "
            f"{_ratio(self.told - self.false, self.told)}; error of the mean step of a job: healthy "
            f"{_errors(self.error_healthy)}, slow {_errors(self.error_slow)}"
        )


def _errors(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3%} (worst {max(values):.3%}, {len(values)} jobs)" if values else "-"


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "-"


def recordings(place: Path, *, only: Sequence[str] = (), leave_out: str | None = None) -> Iterator[Recording]:
    """The recordings at a place, in order of name: those that begin with ``only`` and not with ``leave_out``. Omitted
    recordings are not opened.
    """

    def wanted(name: str) -> bool:
        return (not only or name.startswith(tuple(only))) and not (leave_out and name.startswith(leave_out))

    if (place / "truth.json").exists():
        yield _recording(place.name, dict(members(place)))
        return
    for path in sorted(p for p in place.iterdir() if wanted(p.name)):
        if path.is_dir() and (path / "truth.json").exists():
            yield _recording(path.name, dict(members(path)))
        elif path.name.endswith(".tar.gz") and (place / "truth" / path.name).exists():
            both = dict(members(path)) | dict(members(place / "truth" / path.name))
            name = path.name.removesuffix(".tar.gz")
            yield _recording(name, {p.removeprefix("./").removeprefix(f"{name}/"): d for p, d in both.items()})


def _recording(name: str, files: Mapping[str, bytes]) -> Recording:
    truth = json.loads(files["truth.json"])
    given = {p: d for p, d in files.items() if p not in _KEPT_BACK and not p.startswith("truth/")}
    given.setdefault("job.json", json.dumps(_job_file(truth)).encode())
    rows = list(csv.DictReader(io.StringIO(files["truth_steps.csv"].decode())))
    jobs = {
        str(job["id"]): _ends(job, truth, [row for row in rows if row["job"] == job["id"]]) for job in truth["jobs"]
    }
    return Recording(name, given, truth, jobs)


def _ends(job: Mapping[str, Any], truth: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> Ends:
    """When and how long the iterations of one job were."""
    ends: dict[int, float] = {}
    begun: dict[int, float] = {}
    for row in rows:
        n = int(row["iteration"])
        ends[n] = max(ends.get(n, 0.0), float(row["t1"]))
        begun[n] = min(begun.get(n, np.inf), float(row["t0"]))
    order = sorted(ends)
    last = np.array([ends[n] for n in order])
    first = np.array([begun[n] for n in order])
    before = np.append(first[:1], last[:-1])
    places = frozenset(str(h) for h in job["hosts"]) | {str(truth["nodes"][h]["ip"]) for h in job["hosts"]}
    # A step lasts from the end of the one before, but not over a pause in which nobody trained (a checkpoint).
    return Ends(places, np.array(order), last, last - np.where(first - before > 0.05, first, before))


def _job_file(truth: Mapping[str, Any]) -> dict[str, Any]:
    """What an uploading person knows, if the recorder did not write it: hosts and command lines, no answers."""
    jobs = [
        {
            "job_id": job["id"],
            "launcher": "torchrun (c10d rendezvous)",
            "backend": "gloo",
            "nproc_per_node": job["nproc_per_node"],
            "world_size": job["nproc_per_node"] * len(job["hosts"]),
            "command": "pretrain_gpt.py " + " ".join(job["args"]),
            "hosts": {host: truth["nodes"][host] for host in job["hosts"]},
            "log_root": "logs" if len(truth["jobs"]) == 1 else f"logs/{job['id']}",
        }
        for job in truth["jobs"]
    ]
    return {"submitted": truth["started"], "ended": truth["ended"], "timezone": "UTC", "jobs": jobs}


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
        done = subprocess.run(command, cwd=checkout, capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def judge(recording: Recording, report: Mapping[str, Any], totals: Totals) -> str:
    """Counts one report; returns its line."""
    conclusion = report.get("conclusion") or {}
    condition = str(conclusion.get("condition"))
    totals.condition.append(condition == recording.wanted)
    totals.felt.append(recording.is_felt)
    faulty, of = recording.places
    fault = [f for f in conclusion.get("fault") or () if f["kind"] in ("node", "rank")]
    names = [of.get(str(f["name"]), str(f["name"])) if f["kind"] == "rank" else str(f["name"]) for f in fault]
    if faulty and len(faulty) < len(set(of.values())):
        totals.first.append(bool(names) and names[0] in faulty)
        if recording.is_felt:
            totals.first_felt.append(totals.first[-1])
        totals.named.append(bool(faulty & set(names)))
        totals.above += bool(names) and names[0] not in faulty
    else:
        totals.calm += 1
        totals.accused_calm += bool(names)
    shown = ", ".join(f"{f['name']} {f['p']:.2f}" for f in conclusion.get("fault") or ()) or "nobody"
    truth = ", ".join(sorted(faulty)) or "nobody"
    steps = _steps(recording, report, totals)
    mark = " " if condition == recording.wanted else "!" if recording.is_felt else "~"
    return f"{recording.name:24}{mark} {condition:10} {shown[:70]:70} true: {truth[:24]:24} {steps}"


def _steps(recording: Recording, report: Mapping[str, Any], totals: Totals) -> str:
    """Counts slow steps of each job, and compares its mean step time: each step of the flows is the iteration whose end
    is nearest.
    """
    said = [j for j in (report.get("flows") or {}).get("jobs") or () if j["steps"]]
    words: list[str] = []
    for truth in recording.jobs.values():
        own = [j for j in said if truth.places & {str(m) for m in (*j["members"], *(j.get("nodes") or ()))}]
        if len(truth.ends) < 3:
            continue
        if not own:
            words.append("no steps")
            continue
        job = max(own, key=lambda j: len(j["steps"]))
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
    said = {int(np.abs(truth.ends - s["end"]).argmin()) for s in steps if s["slow"]} - {0, 1}
    found = {k for k in slow if said & {k}}
    totals.slow += len(slow)
    totals.found += len(found)
    totals.told += len(said)
    totals.false += len(said & calm)
    return f"steps {len(found)}/{len(slow)}, {len(said & calm)} false; {len(steps)} of {len(truth.ends)}"


def main() -> int:
    """Print a line a recording, and totals."""
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
    print(f"{len(now.condition)} recordings: {now.words()}")
    if chosen.former:
        print(f"before: {before.words()}")
    return 0
