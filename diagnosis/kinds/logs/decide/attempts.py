"""Several global launches, or several jobs, in one tree: each is diagnosed separately, and the last unsuccessful one is
reported.

A directory such as ``attempt-2/`` or ``run_01/`` above the nodes is a launch. torchrun's ``attempt_N/<local rank>/`` is
not: it counts the restarts of one node's agent. Files with the numbers of different scheduler jobs, and directories
with different job descriptions, are different jobs; files without a number belong to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from diagnosis import inventory as inventories
from diagnosis import thresholds
from diagnosis.evidence import Fact, Measure
from diagnosis.kinds.logs.causes.case import Case, open_case
from diagnosis.kinds.logs.causes.scene import Given
from diagnosis.kinds.logs.compare import stated_setups
from diagnosis.kinds.logs.compare.detectors import uneven, watchdogs
from diagnosis.kinds.logs.decide import verdict
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.rows import events
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Kind, Parsed
from diagnosis.result import Attempt, LogDiagnosis

LIMITS: Final = thresholds.limits("attempts")

THRESHOLDS: Final = thresholds.of("attempts")

#: The number that a scheduler gave to a job, in a path; numbers that begin like a year are dates, and what follows a
#: number and a dot is a server's name ("3915417.pbs-0001").
_JOB_NUMBER: Final = re.compile(
    r"(?i)(?:^|[/_-]|(?<!\d)\.)(?:slurm|job|jobid|lsf|pbs|raysubmit)[-_.]?(?!20\d{6}(?!\d))(\d{4,12})(?=[/_.-]|$)"
)
_LAUNCH: Final = re.compile(r"(?i)(?:^|/)(?:attempt|launch|restart|try|relaunch)[-_ ]?(\d{1,4})/(?!\d+(?:/|$))")


def launch_numbers(paths: Sequence[str]) -> dict[str, int]:
    """The launch of each path; empty if there is only one."""
    found = {p: int(m.group(1)) for p in paths if (m := _LAUNCH.search(p))}
    return found if len(set(found.values())) > 1 and len(found) >= THRESHOLDS.named * len(paths) else {}


def jobs_of_paths(parsed: Sequence[Parsed], logs: Sequence[Parsed]) -> dict[str, str]:
    """The job of each path, by its description's directory or by the scheduler's number in the path; empty if there is
    only one.
    """
    described = {}
    for p in parsed:
        data = p.facts.get("json")
        if p.kind == Kind.INVENTORY and isinstance(data, dict) and data.get("job_id"):
            described[p.path.rpartition("/")[0]] = str(data["job_id"])
    if len(set(described.values())) > 1 and all(described):
        homes = {p.path: [d for d in described if p.path.startswith(f"{d}/")] for p in logs}
        found = {path: described[max(known, key=len)] for path, known in homes.items() if known}
        if len(set(found.values())) > 1:
            return found
    found = {p.path: match.group(1) for p in logs if (match := _JOB_NUMBER.search(p.path))}
    is_of_most = len(found) >= THRESHOLDS.share * sum(p.kind == Kind.LOG for p in logs)
    return found if 1 < len(set(found.values())) <= THRESHOLDS.jobs and is_of_most else {}


def diagnose_logs(parsed: Sequence[Parsed], given: Given) -> LogDiagnosis | None:
    """The report's ``logs``: of the last unsuccessful launch, or of the last; None without log lines."""
    logs = events.log_artifacts(parsed)
    launch_of = launch_numbers([p.path for p in logs])
    job_of = {} if launch_of else jobs_of_paths(parsed, logs)
    names = sorted(set(job_of.values()), key=lambda name: (len(name), name))
    launch_of = launch_of or {path: names.index(name) for path, name in job_of.items()}
    groups = sorted(set(launch_of.values())) or [0]
    diagnoses: list[LogDiagnosis] = []
    for number in groups:
        launch_logs = [p for p in logs if launch_of.get(p.path, number) == number]
        if job_of:
            own = inventories.read(_artifacts_of_job(parsed, job_of, names[number]), given.hints)
            given = replace(given, inventory=own)
        if case := open_case(launch_logs, given):
            diagnoses.append(_as_attempt(verdict.conclude(case), case, number))
    if not diagnoses:
        return None
    failed = [d for d in diagnoses if d.is_failure]
    chosen = failed[-1] if failed else diagnoses[-1]
    attempts = tuple(a for d in diagnoses for a in d.attempts)
    apart = _several_jobs_sentence(chosen, attempts, names) if job_of and len(diagnoses) > 1 else ()
    if apart:  # the others are jobs of their own, and no launches of this one
        attempts = chosen.attempts
    return replace(chosen, attempts=attempts, missing=(*apart, *chosen.missing))


def _launch(case: Case, number: int) -> Attempt:
    """One launch, with its first and last iteration, if its logs count them."""
    beats = case.progress.beats if case.progress.kind == "iteration" else case.progress.beats.head(0)
    first_at, first = case.catalogue.cells["first_at"].min(), beats["n"].min()
    t0, t1 = (None if at is None else at / SECOND for at in (first_at, case.last_at))  # type: ignore[operator]
    last = case.progress.last if beats.height else None
    return Attempt(number, t0, t1, case.ending.outcome, first, last)  # type: ignore[arg-type]


def _artifacts_of_job(parsed: Sequence[Parsed], job_of: dict[str, str], name: str) -> list[Parsed]:
    """The artifacts of one job, and those that belong to none of several."""
    others = {path.rpartition("/")[0] for path, job in job_of.items() if job != name}
    folders = {path.rpartition("/")[0] for path, job in job_of.items() if job == name}
    away = others - folders - {""}
    return [
        p
        for p in parsed
        if job_of.get(p.path, name) == name
        and not any(p.path.startswith(f"{d}/") for d in away if p.path not in job_of)
    ]


def _several_jobs_sentence(chosen: LogDiagnosis, attempts: Sequence[Attempt], names: Sequence[str]) -> tuple[str, ...]:
    """The sentence about several jobs in one upload: which of them this is, and why this one."""
    spans = sorted((a.t0, a.t1) for a in attempts if a.t0 is not None and a.t1 is not None)
    is_at_once = any(later[0] < earlier[1] for earlier, later in pairwise(spans))
    shown = ", ".join(names[: LIMITS.shown]) + (
        f" and {len(names) - LIMITS.shown} more" if len(names) > LIMITS.shown else ""
    )
    how = "that ran at the same time" if is_at_once else "one after another"
    why = "the last one that did not succeed" if chosen.is_failure else "the last one; none of them failed"
    return (
        f"These are the logs of {len(names)} jobs {how} ({shown}). Each was diagnosed separately; this is "
        f"{names[chosen.attempt]}, {why}. Upload the others by themselves to read of them.",
    )


def _as_attempt(result: LogDiagnosis, case: Case, number: int) -> LogDiagnosis:
    return replace(
        result,
        attempt=number,
        attempts=(_launch(case, number),),
        framework=words.first(case.table.messages["example"], "frameworks") or "unknown",
        scheduler=words.first(case.table.messages["example"], "schedulers"),
        node_names=case.catalogue.nodes,
        world_size=_world_size(case),
        protocol=_protocol(case) if result.is_failure else (),
        stated=_stated_setup(case),
        measures=() if result.is_failure else _measures(case),
    )


def _protocol(case: Case) -> tuple[watchdogs.State, ...]:
    return case.budgets.run("watchdogs", lambda: tuple(watchdogs.states(case)), ())


def _measures(case: Case) -> tuple[Measure, ...]:
    nothing: tuple[Measure, ...] = ()
    return case.budgets.run("measures", lambda: uneven.measured(case), nothing)


def _stated_setup(case: Case) -> tuple[tuple[str, Fact], ...]:
    nothing: tuple[tuple[str, Fact], ...] = ()
    return case.budgets.run("set-up", lambda: stated_setups.stated_setup(case), nothing)


def _world_size(case: Case) -> int | None:
    ranks = case.table.sources["rank"].drop_nulls()
    return int(ranks.max()) + 1 if ranks.len() else None  # type: ignore[arg-type]
