"""The sets of jobs on which the log engine is scored: made up (``exams``), recorded (``FAULTLINE_SHARED``), sealed."""

from __future__ import annotations

import csv
import importlib
import json
import tarfile
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from diagnosis.model import Kind
from lab.exams import sealed as sealed_folder
from lab.exams.clusters import exam as clusters
from lab.exams.courses import exam as courses
from lab.exams.job import Job
from lab.exams.logs import exam as logs
from lab.measure import public, recorded, score, single_file
from lab.measure.evidence import SHARED, members

type Jobs = Callable[[int], Iterator[Job]]

PRACTICE = SHARED / "data" / "practice"
REAL = SHARED / "data" / "real_jobs"
TESTBED = SHARED / "data" / "testbed"
CASES = SHARED / "data" / "cases"
RECORDINGS = SHARED / "data" / "recordings3"
#: Names every set that is still sealed.
SEALED = "sealed"
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


@dataclass(frozen=True)
class JobSet:
    """``jobs`` are scored by ``row``; ``successes`` are learnt as history. ``is_alone``: its history is used only with
    an option. ``kind``: the kind of its files, if their names do not show it.
    """

    name: str
    about: str
    jobs: Jobs
    successes: Jobs
    row: Callable[[Job, dict[str, Any]], dict[str, Any]] = score.row
    is_alone: bool = False
    kind: Kind | None = None
    is_sealed: bool = False


def practice(_: int) -> Iterator[Job]:
    """The cases of the practice set."""
    for case in _practice()["cases"]:
        truth = json.loads((PRACTICE / "truth" / "logs" / f"{case['job_id']}.json").read_text())
        yield Job(case["job_id"], case["profile"], dict(members(PRACTICE / case["path"])), truth)


def practice_successes(_: int) -> Iterator[Job]:
    """Its healthy jobs."""
    for case in _practice()["history"]:
        yield Job(case["job_id"], case["profile"], dict(members(PRACTICE / case["path"])), {"healthy": True})


def _practice() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PRACTICE / "exam.json").read_text())["logs"]
    return found


def testbed(_: int) -> Iterator[Job]:
    """Recordings of real faults on the testbed: logs, flows and stacks."""
    for name in (*FAILURES, *OTHERS):
        truth = next(d for p, d in members(TESTBED / "truth" / f"{name}.tar.gz") if p.endswith("truth.json"))
        files = dict(members(TESTBED / f"{name}.tar.gz"))
        yield Job(name, "", files, {**json.loads(truth), "is_failure": name in FAILURES})


def testbed_logs(seed: int) -> Iterator[Job]:
    """The same, logs alone."""
    for job in testbed(seed):
        yield job._replace(files={p: d for p, d in job.files.items() if "/logs/" in p})


def real(_: int, *, is_healthy: bool = False) -> Iterator[Job]:
    """Logs of real cluster jobs, each a job of its own; only the healthy ones are history."""
    labels = {row["file"]: row for row in csv.DictReader((REAL / "labels.csv").open())}
    roots: dict[str, list[int]] = defaultdict(list)
    for row in csv.DictReader((REAL / "line_labels.csv").open()):
        if row["label"] == "root":
            roots[row["file"]].append(int(row["line"]))
    with tarfile.open(REAL / "logs.tar.gz") as archive:
        held = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isfile()}  # type: ignore[union-attr]
    for file, label in sorted(labels.items()):
        if file in held and (label["outcome"] == "success" or not is_healthy):
            truth = {**label, "root_lines": roots[file]}
            yield Job(file, label["group"], {file: held[file]}, truth)


def public_logs(_: int, *, part: str) -> Iterator[Job]:
    """The labelled jobs of public logs of one part (:mod:`lab.measure.public`)."""
    chosen = {label.name: label for label in public.jobs(part)}
    files: dict[str, dict[str, bytes]] = {name: {} for name in chosen}
    with tarfile.open(public.PUBLIC / "logs.tar.xz") as archive:
        for member in archive:
            path = member.name.removeprefix("./")
            name = _job_of_path(path, files)
            stream = archive.extractfile(member) if name and member.isfile() else None
            if stream is not None:
                inside = PurePosixPath(path).name if path == name else path.removeprefix(f"{name}/")
                files[name][inside] = stream.read()
    for name, label in chosen.items():
        yield Job(name, "", files[name], {"label": label})


def _job_of_path(path: str, names: Container[str]) -> str:
    """The name of the job that a path belongs to; empty if there is none."""
    above = (path, *map(str, PurePosixPath(path).parents))
    return next((name for name in above if name in names), "")


def cases(_: int) -> Iterator[Job]:
    """Small inputs with a known answer."""
    for name, expected in json.loads((CASES / "expected.json").read_text()).items():
        yield Job(name, "", dict(members(CASES / name)), expected)


def recorded_jobs(_: int) -> Iterator[Job]:
    """Recordings of real training by another recorder."""
    for recording in recorded.recordings(RECORDINGS):
        yield Job(recording.name, "", recording.files, {"recording": recording})


def no_jobs(_: int) -> Iterator[Job]:
    """No healthy jobs."""
    return iter(())


def _sealed() -> Iterator[JobSet]:
    for folder in sorted(path.parent for path in Path(sealed_folder.__file__).parent.glob("*/exam.py")):
        module = importlib.import_module(f"lab.exams.sealed.{folder.name}.exam")
        is_sealed = folder.name not in sealed_folder.opened()
        about = "sealed: only scores are printed" if is_sealed else "was sealed, is open"
        yield JobSet(f"sealed-{folder.name}", about, module.jobs, module.successes, is_sealed=is_sealed)


def chosen_sets(names: Iterable[str], known: dict[str, JobSet]) -> list[JobSet]:
    """The sets that a command line names; ``sealed`` stands for every set that is still sealed."""
    found = {s.name: s for name in names for s in known.values() if s.name == name or (name == SEALED and s.is_sealed)}
    return list(found.values())


def load() -> dict[str, JobSet]:
    """Every set by name."""
    return {
        s.name: s
        for s in (
            JobSet("practice", "the practice set", practice, practice_successes),
            JobSet("testbed", "recordings of real faults", testbed, no_jobs, score.testbed_row),
            JobSet("testbed-logs", "the same, logs alone", testbed_logs, no_jobs, score.testbed_row),
            JobSet(
                "real", "logs of real jobs", real, partial(real, is_healthy=True), score.real_row, True, kind=Kind.LOG
            ),
            JobSet("logs", "frameworks and causes without rules", logs.jobs, logs.successes),
            JobSet("logs-held-out", "the held-out third", partial(logs.jobs, held_out=True), logs.successes),
            JobSet("courses", "whole courses of events", courses.jobs, courses.successes),
            JobSet("courses-held-out", "the held-out half", partial(courses.jobs, held_out=True), courses.successes),
            JobSet("clusters", "larger clusters, by another author", clusters.jobs, clusters.successes),
            JobSet("single-file", "512 ranks in one file", single_file.jobs, no_jobs, single_file.job_row),
            *(
                JobSet(f"public-{part}", "public logs", partial(public_logs, part=part), no_jobs, score.public_row)
                for part in public.PARTS
            ),
            JobSet("cases", "small inputs with a known answer", cases, no_jobs, score.case_row),
            JobSet("recordings", "recordings by another recorder", recorded_jobs, no_jobs, score.recording_row),
            *_sealed(),
        )
    }
