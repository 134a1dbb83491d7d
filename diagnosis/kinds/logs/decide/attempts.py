"""Several global launches, or several jobs, in one tree: each is diagnosed separately, and the last
unsuccessful one is reported, if no later launch completed or still runs.

A directory such as ``attempt-2/`` or ``run_01/`` above the nodes is a launch. torchrun's
``attempt_N/<local rank>/`` is
not: it counts the restarts of one node's agent. Files with the numbers of different scheduler jobs,
and directories with different job descriptions, are different jobs, and so are the directories that
one description names; files without a number belong to all of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.evidence import Fact, Result
from diagnosis.evidence import inventory as inventories
from diagnosis.kinds.logs.causes import case as case_of
from diagnosis.kinds.logs.causes import divergence, not_finite
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.failure_facts import Given
from diagnosis.kinds.logs.compare import behind, launched, pauses, stalled
from diagnosis.kinds.logs.decide import read_notes, steps_aside, verdict
from diagnosis.kinds.logs.decide.steps_aside import StepsAside
from diagnosis.kinds.logs.meaning import event_words
from diagnosis.kinds.logs.rows import events
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Kind, Parsed
from diagnosis.records.result import Attempt, LogDiagnosis
from diagnosis.values.extremes import greatest, least
from diagnosis.values.plain import listed

LIMITS: Final = thresholds.limits("attempts")

THRESHOLDS: Final = thresholds.of("attempts")

#: The number that a scheduler gave to a job, in a path; numbers that begin like a year are dates,
#: and what follows a number and a dot is a server's name ("3915417.pbs-0001").
_JOB_NUMBER: Final = re.compile(
    r"(?i)(?:^|[/_-]|(?<!\d)\.)(?:slurm|job|jobid|lsf|pbs|raysubmit)[-_.]?(?!20\d{6}(?!\d))(\d{4,12})(?=[/_.-]|$)"
)
_LAUNCH: Final = re.compile(r"(?i)(?:^|/)(?:attempt|launch|restart|try|relaunch)[-_ ]?(\d{1,4})/(?!\d+(?:/|$))")


def launch_numbers(paths: Sequence[str]) -> dict[str, int]:
    """The launch of each path; empty if there is only one."""
    matches = {path: _LAUNCH.search(path) for path in paths}
    found = {path: int(match[1]) for path, match in matches.items() if match}
    is_of_most = len(found) >= THRESHOLDS.named * len(paths)
    return found if is_of_most and len(set(found.values())) > 1 else {}


def jobs_of_paths(parsed: Sequence[Parsed], logs: Sequence[Parsed]) -> dict[str, str]:
    """The job of each path, by its description's directory or its number; empty for one."""
    rooted = _jobs_by_directory(logs, _log_roots(parsed))
    if len(set(rooted.values())) > 1:
        return rooted
    described = _described_jobs(parsed)
    if len(set(described.values())) > 1 and all(described):
        found = _jobs_by_directory(logs, described)
        if len(set(found.values())) > 1:
            return found
    matches = {part.path: _JOB_NUMBER.search(part.path) for part in logs}
    numbered = {path: match[1] for path, match in matches.items() if match}
    plain_logs = sum(part.kind == Kind.LOG for part in logs)
    is_of_most = len(numbered) >= THRESHOLDS.share * plain_logs
    is_few = 1 < len(set(numbered.values())) <= THRESHOLDS.jobs
    return numbered if is_few and is_of_most else {}


def _log_roots(parsed: Sequence[Parsed]) -> dict[str, str]:
    """The directories of the logs of several jobs that one description names, each with its job."""
    found = {}
    for part in parsed:
        data = part.facts.get("json") if part.kind == Kind.INVENTORY else None
        jobs = data.get("jobs") if isinstance(data, dict) else None
        described = [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
        for job in described:
            root = job.get("log_root")
            if job.get("job_id") and isinstance(root, str):
                place = f"{_directory(part.path)}/{root.strip('/')}".strip("/")
                found[place] = str(job["job_id"])
    return found


def _described_jobs(parsed: Sequence[Parsed]) -> dict[str, str]:
    """The job that a description in each directory names."""
    found = {}
    for part in parsed:
        data = part.facts.get("json") if part.kind == Kind.INVENTORY else None
        if isinstance(data, dict) and data.get("job_id"):
            found[_directory(part.path)] = str(data["job_id"])
    return found


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _jobs_by_directory(logs: Sequence[Parsed], described: Mapping[str, str]) -> dict[str, str]:
    """The job of each path: that of the innermost described directory above it."""
    innermost = sorted(described, key=len, reverse=True)
    found = {}
    for part in logs:
        above = [directory for directory in innermost if part.path.startswith(f"{directory}/")]
        for directory in above[:1]:
            found[part.path] = described[directory]
    return found


def diagnose_logs(parsed: Sequence[Parsed], given: Given) -> LogDiagnosis | None:
    """The report's ``logs``: of the last unsuccessful launch, or of the last; None without log
    lines.
    O(messages × rules + occurrences) a launch, and lines that are read back, which are bounded.
    """
    logs = events.log_artifacts(parsed)
    launch_of = launch_numbers([part.path for part in logs])
    job_of = {} if launch_of else jobs_of_paths(parsed, logs)
    names = sorted(set(job_of.values()), key=lambda name: (len(name), name))
    number_of = launch_of or {path: names.index(name) for path, name in job_of.items()}
    diagnoses: list[LogDiagnosis] = []
    for number in sorted(set(number_of.values())) or [0]:
        own_logs = [part for part in logs if number_of.get(part.path, number) == number]
        known = given
        if job_of:
            own = inventories.read(_artifacts_of_job(parsed, job_of, names[number]), given.hints)
            known = replace(given, inventory=own)
        facts = case_of.collect_facts(own_logs, known)
        if facts is not None:
            steps = steps_aside.begin(facts)
            case = case_of.decide(facts)
            told = verdict.conclude(case)
            diagnoses.append(_as_attempt(told, case, steps, number, has_others=bool(number_of)))
    return _reported(diagnoses, names)


def _reported(diagnoses: Sequence[LogDiagnosis], jobs: Sequence[str]) -> LogDiagnosis | None:
    """The last unsuccessful of the diagnoses, with all launches; the last launch, if it shows that
    the job completed or runs. Other ``jobs`` are no launches of this one.
    """
    if not diagnoses:
        return None
    failed = [one for one in diagnoses if one.is_failure]
    is_recovered = not jobs and diagnoses[-1].outcome in ("succeeded", "running")
    chosen = diagnoses[-1] if is_recovered or not failed else failed[-1]
    attempts = tuple(itertools.chain.from_iterable(one.attempts for one in diagnoses))
    notes = dict(itertools.chain.from_iterable(one.read_notes.items() for one in diagnoses))
    chosen = replace(chosen, read_notes=notes)
    if not jobs or len(diagnoses) == 1:
        return replace(chosen, attempts=attempts)
    sentence = _several_jobs_sentence(chosen, attempts, jobs)
    return replace(chosen, missing=(sentence, *chosen.missing))


def _restarted(case: Case, whole: Attempt) -> tuple[Attempt, ...]:
    """The launches that one set of logs shows one after another: those that ended badly before the
    job counted again from an earlier step, and the last one.
    """
    begun, first = whole.t0, whole.first
    found: list[Attempt] = []
    for restart in case.lives.restarts:
        ended = None if restart.at is None else restart.at / SECOND
        found.append(Attempt(whole.number + len(found), begun, ended, "failed", first, restart.last))
        begun, first = ended, restart.first
    last = structs.replace(whole, number=whole.number + len(found), t0=begun, first=first)
    return (*found, last)


def _launch(case: Case, number: int) -> Attempt:
    """One launch, with its first and last iteration, if its logs count them."""
    points = case.progress.points if case.progress.kind == "iteration" else case.progress.points.clear()
    first = least(points["n"])
    last = case.progress.last if points.height else None
    begun = least(case.catalogue.occurrences["first_at"])
    t0 = None if begun is None else begun / SECOND
    t1 = None if case.last_at is None else case.last_at / SECOND
    return Attempt(number, t0, t1, case.ending.outcome, first, last)


def _artifacts_of_job(parsed: Sequence[Parsed], job_of: Mapping[str, str], name: str) -> list[Parsed]:
    """The artifacts of one job, and those that belong to none of several."""
    own = {_directory(path) for path, job in job_of.items() if job == name}
    others = {_directory(path) for path, job in job_of.items() if job != name} - own - {""}
    away = tuple(f"{directory}/" for directory in others)

    def is_own(part: Parsed) -> bool:
        job = job_of.get(part.path)
        return not part.path.startswith(away) if job is None else job == name

    return [_with_job_alone(part, name) for part in parsed if is_own(part)]


def _with_job_alone(part: Parsed, name: str) -> Parsed:
    """A description of several jobs as one of this job; any other artifact as it is."""
    data = part.facts.get("json") if part.kind == Kind.INVENTORY else None
    jobs = data.get("jobs") if isinstance(data, dict) else None
    listed = jobs if isinstance(jobs, list) else []
    own = [job for job in listed if isinstance(job, dict) and str(job.get("job_id")) == name]
    if not own or not isinstance(data, dict):
        return part
    return replace(part, facts={**part.facts, "json": {**data, "jobs": own}})


def _several_jobs_sentence(chosen: LogDiagnosis, attempts: Sequence[Attempt], names: Sequence[str]) -> str:
    """The sentence about several jobs in one upload: which of them this is, and why this one."""
    spans = sorted((a.t0, a.t1) for a in attempts if a.t0 is not None and a.t1 is not None)
    is_at_once = any(later[0] < earlier[1] for earlier, later in pairwise(spans))
    shown = listed(names, LIMITS.shown)
    how = "that ran at the same time" if is_at_once else "one after another"
    why = "the last one that did not succeed" if chosen.is_failure else "the last one; none of them failed"
    return (
        f"These are the logs of {len(names)} jobs {how} ({shown}). Each was diagnosed separately; this is "
        f"{names[chosen.attempt]}, {why}. Upload the others by themselves to read of them."
    )


def _as_attempt(result: LogDiagnosis, case: Case, steps: StepsAside, number: int, *, has_others: bool) -> LogDiagnosis:
    """``has_others``: directories separate launches or jobs, and number them."""
    whole = _launch(case, number)
    launches = (whole,) if has_others else _restarted(case, whole)
    stated = steps.setup()
    return replace(
        result,
        attempt=launches[-1].number,
        attempts=launches,
        framework=event_words.first_row(case.table.messages["example"], "frameworks") or "unknown",
        scheduler=event_words.first_row(case.table.messages["example"], "schedulers"),
        node_names=case.catalogue.nodes,
        world_size=_world_size(case),
        protocol=steps.protocol() if result.is_failure else (),
        read_notes=_read_notes(case, stated),
        stated=stated,
        shown=_accused(case, result.symptom) if result.is_failure else _shown(case),
        measures=steps.measures(),
    )


def _shown(case: Case) -> tuple[Result, ...]:
    nothing: tuple[Result, ...] = ()
    late = case.budgets.run("launched collectives", lambda: launched.ranks_behind(case), nothing)
    lost = case.budgets.run("losses", lambda: not_finite.lost_numbers(case), nothing)
    risen = case.budgets.run("divergence", lambda: divergence.risen_loss(case), nothing)
    slower = case.budgets.run("pauses", lambda: pauses.longer_pauses(case), nothing)
    return (*late, *(lost or risen), *slower)


def _read_notes(case: Case, stated: Sequence[tuple[str, Fact]]) -> dict[str, str]:
    nothing: dict[str, str] = {}
    facts = Counter(path for path, _ in stated)
    return case.budgets.run("what was read", lambda: read_notes.read_notes(case, facts), nothing)


def _accused(case: Case, symptom: str) -> tuple[Result, ...]:
    nothing: tuple[Result, ...] = ()
    missing = case.budgets.run("missing ranks", lambda: stalled.ranks_missing(case), nothing)
    if missing or symptom != "hang":
        return missing
    return case.budgets.run("ranks behind", lambda: behind.ranks_behind(case), nothing)


def _world_size(case: Case) -> int | None:
    last = greatest(case.table.sources["rank"])
    return None if last is None else last + 1
