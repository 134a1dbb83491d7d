"""Recordings of real training as an upload and its truth.

A recording is a directory of the testbed (``flows.parquet``, ``logs``, ``stacks``, ``truth.json``,
``truth_steps.csv``), or ``NAME.tar.gz`` with ``truth/NAME.tar.gz``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from lab.measure.evidence import members

#: Not evidence, or a part of it in another form.
_TRUTH_FILES: Final = ("truth.json", "truth_steps.csv", "connections.json", "sample.pcap")
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
        stated = self.truth.get("condition")
        if stated is not None:
            return "healthy" if stated.startswith("completed") else str(stated)
        exits = [code for job in self.truth["jobs"] for code in exit_codes(job).values()]
        if self.truth.get("recovered") and not any(exits):
            return "recovered"  # a restart was planned, and worked
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
    def is_uplink(self) -> bool:
        """Whether the fault is of the path between two leaf switches."""
        return "uplink" in self.truth["subcategory"]

    @property
    def places(self) -> tuple[set[str], dict[str, str]]:
        """The names of the faulty nodes, and the node of each rank."""
        of = {str(r["rank"]): str(r["host"]) for job in self.truth["jobs"] for r in job.get("ranks") or ()}
        return {str(n) for n in self.truth.get("faulty_nodes") or ()}, of


def exit_codes(job: Mapping[str, Any]) -> Mapping[str, int]:
    """The exit code of the launcher on each host; recorders call it by two names."""
    codes: Mapping[str, int] = job["agent_exit"] if "agent_exit" in job else job["exit"]
    return codes


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
    given = {p: d for p, d in files.items() if p not in _TRUTH_FILES and not p.startswith("truth/")}
    if "flows.parquet" in given:
        given.pop("flows.csv", None)  # the same records
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
