"""Contribution of each part of the log engine: `python -m lab.measure ablate [--sets SET…] [--seed N…] [--most N]`.

Switches off every step and every family of rules, one at a time, and moves every threshold by 30 % both ways. Diagnoses
the jobs again and prints for each switch how many answers changed, how many became better or worse, and the change of a
job's mean figure with its 95 % interval (bootstrap over jobs; the seeds of one course are drawn together). Parsed jobs
and answers are kept on disk, so that a second run continues where the first one ended. A step or a detector is switched
off only on jobs where it had a result, a family only where one of its rules matches. A threshold is moved only where it
was read. Steps after the gathering of facts (``logs.case.gather``) reuse those facts. Numbers of one module are moved
together first, and separately only on the jobs whose answer changed: two that cancel each other out count as without
effect. ``--factor 0 1000`` moves thresholds so far that what they limit acts never or always.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import replace

from diagnosis import pipeline, report
from diagnosis.history import History
from diagnosis.kinds.logs.causes import case
from diagnosis.kinds.logs.causes.failure_facts import Facts, Given
from diagnosis.kinds.logs.meaning.signatures import load
from diagnosis.model import JobHints, Parsed, ReadRange
from diagnosis.pipeline import diagnose
from lab.exams.job import Job
from lab.measure import sets, switches
from lab.measure.evidence import parse_files
from lab.measure.logs import history
from lab.measure.score import interval, quality
from lab.measure.sets import JobSet
from lab.measure.switches import Switch

KINDS = ("comparison", "detector", "step", "rules", "threshold")
#: Kinds that may act after the gathering of facts; a family of rules acts during it.
_LATE_KINDS = ("detector", "step", "threshold")
HISTORY = Switch("comparison", "cross-job (no history)")
_DEFAULT = ("logs", "courses", "logs-held-out", "courses-held-out", "clusters", "single-file")


@dataclass(frozen=True)
class Ready:
    """One parsed job, ready to be diagnosed many times; ``facts``: the gathered facts of each of its attempts."""

    key: str
    of: JobSet
    job: Job
    parsed: list[Parsed]
    read: ReadRange
    known: History
    facts: dict[tuple[str, ...], Facts | None] = field(default_factory=dict)
    flows: list[Any] = field(default_factory=list)


class Bench:
    """Jobs, their answers under each switch, and the files that store both."""

    def __init__(self, work: Path) -> None:
        self.parsed_dir = work / f"parsed-{switches.digest('diagnosis.files.parsing')}"
        self.answers_file = work / f"answers-{switches.digest('diagnosis.pipeline')}.jsonl"
        self.answers: dict[tuple[str, str], dict[str, Any]] = {}
        self.runs = 0
        work.mkdir(parents=True, exist_ok=True)
        if self.answers_file.exists():
            for line in self.answers_file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.answers[row["switch"], row["key"]] = row

    def ready(self, of: JobSet, seed: int, most: int) -> Iterator[Ready]:
        """An even sample of ``most`` jobs of a set, parsed."""
        base = self.parsed_dir / f"{of.name}-{seed}"
        learnt = base / f"history-{switches.digest('diagnosis.history')}.pickle"
        if learnt.exists():
            known = pickle.loads(learnt.read_bytes())
        else:
            known = History() if of.is_alone else history(of.successes(seed), base / "healthy")
            base.mkdir(parents=True, exist_ok=True)
            learnt.write_bytes(pickle.dumps(known))
        jobs = list(of.jobs(seed))
        if most and len(jobs) > most:
            jobs = [jobs[k * len(jobs) // most] for k in range(most)]
        for job in jobs:
            folder = base / job.name.replace("/", "_")
            parsed, read = parse_files(job.files, folder, kind=of.kind, is_kept=True)
            yield Ready(f"{of.name}/{seed}/{job.name}", of, job, parsed, read, known)

    def early(self, ready: Ready) -> set[str]:
        """The steps and thresholds that act on a job while its facts are gathered."""
        return set(self.answer(ready, ())["early"])

    def answer(self, ready: Ready, group: Sequence[Switch]) -> dict[str, Any]:
        """The answer for a job under some switches: its quality, and the fields that are compared."""
        label = " + ".join(s.label for s in group)
        if (label, ready.key) not in self.answers:
            row = {"switch": label, "key": ready.key, **self._diagnosed(ready, group)}
            self.answers[label, ready.key] = row
            with self.answers_file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        return self.answers[label, ready.key]

    def _diagnosed(self, ready: Ready, group: Sequence[Switch]) -> dict[str, Any]:
        self.runs += 1
        hints = JobHints(job_id=ready.job.name if ready.of.is_alone else "", family=ready.job.family)
        known = History() if HISTORY in group else ready.known
        watched = switches.steps() if not group else ()
        early: set[str] = set()
        is_late = bool(group) and all(s.kind in _LATE_KINDS and s.id not in self.early(ready) for s in group)
        with (
            switches.applied([s for s in group if s != HISTORY]) as rules,
            switches.used_steps(watched) as used,
            switches.used_detectors() as spoke,
            switches.read_thresholds() if not group else nullcontext(set[str]()) as read,
            flows_once(ready, group),
            gather_once(ready, is_late, lambda: early.update(read, (s.id for s in used))),
        ):
            try:
                found = diagnose(
                    ready.parsed,
                    job=hints,
                    history=known,
                    read=ready.read,
                    rules=rules,
                    without=switches.switched_off_ids(group),
                )
                whole = {"logs": None, "suspects": [], **report.to_json(found)}
                value = quality(ready.of.row(ready.job, whole))
            except Exception as error:  # a step that others cannot do without
                return {"quality": 0.0, "said": f"raised {type(error).__name__}"}
        logs = whole["logs"] or {}
        said = [logs.get(k) for k in ("outcome", "id", "symptom", "stage", "iteration")]
        said += [sorted(s["entity"] for s in whole["suspects"] if s["suspect"])]
        said += [[[x["file"], x["line"]] for x in logs.get("lines", ())], round(logs.get("confidence") or 0.0, 2)]
        row = {"quality": value, "said": json.dumps(said)}
        if not group:
            row["used"] = sorted(s.id for s in used)
            row["spoke"] = sorted(spoke)
            row["read"] = sorted(read)
            row["early"] = sorted(early)
            row["families"] = sorted(_families(ready.parsed))
        return row


@contextmanager
def gather_once(ready: Ready, is_late: bool, done: Callable[[], None]) -> Iterator[None]:
    """``logs.case.gather`` keeps the facts of a job. If all switched parts act later (``is_late``), it returns the
    facts of the first time. ``done`` is called whenever facts were gathered.
    """
    gather = case.collect_facts

    def act(parsed: Sequence[Parsed], given: Given) -> Facts | None:
        key = tuple(p.path for p in parsed)
        if is_late and key in ready.facts:
            kept = ready.facts[key]
            return None if kept is None else replace(kept, without=given.without)
        facts = gather(parsed, given)
        if is_late:
            ready.facts[key] = facts
        done()
        return facts

    with switches.patched("diagnosis.kinds.logs.causes.case", "collect_facts", act):
        yield


@contextmanager
def flows_once(ready: Ready, group: Sequence[Switch]) -> Iterator[None]:
    """The flows of a job are analysed once: among the switches, only thresholds may act on them."""
    analyse = pipeline._flows

    def act(*args: Any, **options: Any) -> Any:
        if not ready.flows:
            ready.flows.append(analyse(*args, **options))
        return ready.flows[0]

    is_shared = not any(switch.kind == "threshold" for switch in group)
    with switches.patched("diagnosis.pipeline", "_flows", act) if is_shared else nullcontext():
        yield


def _families(parsed: Sequence[Parsed]) -> set[str]:
    """Families of which a rule matches a message."""
    tables = [pl.read_parquet(p.uniques, columns=["masked", "example"]) for p in parsed if p.uniques]
    if not tables:
        return set()
    texts, rules = pl.concat(tables), load()
    orders = rules.match(texts.unique("masked"), every=True)["order"].unique().to_list()
    return {rules.signatures[order].id.partition(".")[0] for order in orders}


def worse_jobs(bench: Bench, jobs: Iterable[Ready], switch: Switch, enough: int) -> list[Ready]:
    """The jobs whose answer a switch changes, in order, until ``enough`` more of them are worse than better."""
    different: list[Ready] = []
    balance = 0
    for ready in jobs:
        usual, other = bench.answer(ready, ()), bench.answer(ready, [switch])
        if usual["said"] == other["said"]:
            continue
        different.append(ready)
        balance += (other["quality"] < usual["quality"] - 0.001) - (other["quality"] > usual["quality"] + 0.001)
        if balance >= enough:
            break
    return different


def changed_jobs(bench: Bench, jobs: Sequence[Ready], group: Sequence[Switch]) -> dict[Switch, list[Ready]]:
    """The jobs whose answer each switch of a group changes: all switches are tried at once, then halves of the
    group.
    """
    different = [r for r in jobs if bench.answer(r, group)["said"] != bench.answer(r, ())["said"]]
    if not different:
        return {switch: [] for switch in group}
    if len(group) == 1:
        return {group[0]: different}
    half = len(group) // 2
    return {**changed_jobs(bench, different, group[:half]), **changed_jobs(bench, different, group[half:])}


def tried_switches(
    bench: Bench,
    jobs: Sequence[Ready],
    kinds: Sequence[str],
    only: Sequence[str],
    factors: Sequence[float],
    enough: int,
) -> Iterator[tuple[Switch, list[Ready]]]:
    """Every switch whose id contains one of ``only``, with the jobs whose answer it changes."""

    def wanted(found: Sequence[Switch]) -> list[Switch]:
        return [s for s in found if any(part in s.id for part in only)]

    if "comparison" in kinds and wanted([HISTORY]):
        yield from changed_jobs(bench, jobs, [HISTORY]).items()
    candidates = (
        ("step", switches.steps(), "used"),
        ("rules", switches.families(), "families"),
        ("detector", switches.detectors(), "spoke"),
    )
    for kind, found, key in candidates:
        for switch in wanted(found) if kind in kinds else ():
            acting = [r for r in jobs if switch.id in bench.answer(r, ())[key]]
            yield switch, worse_jobs(bench, acting, switch, enough)
    read_ids = {x for r in jobs for x in bench.answer(r, ())["read"]} if "threshold" in kinds else set()
    for factor in factors if "threshold" in kinds else ():
        groups: dict[str, list[Switch]] = defaultdict(list)
        for switch in wanted(switches.thresholds(factor)):
            if switch.id not in read_ids:
                yield switch, []
            else:
                groups[switch.module].append(switch)
        for group in groups.values():
            names = {s.id for s in group}
            yield from changed_jobs(bench, [r for r in jobs if names & set(bench.answer(r, ())["read"])], group).items()


def line(bench: Bench, jobs: Sequence[Ready], switch: Switch, apart: Sequence[Ready]) -> tuple[float, str]:
    """Change of the mean figure, and the row of the table."""
    moved = {r.key: bench.answer(r, [switch])["quality"] - bench.answer(r, ())["quality"] for r in apart}
    values = [moved.get(r.key, 0.0) for r in jobs]
    mean = sum(values) / len(values)
    low, high = interval(values, [r.job.name for r in jobs])
    gained, lost = sum(v > 0.001 for v in values), sum(v < -0.001 for v in values)
    row = (
        f"| {switch.kind} | {switch.label} | {len(apart)} | {gained} | {lost} | {mean:+.4f} [{low:+.3f}, {high:+.3f}] |"
    )
    return mean, row


def _size() -> str:
    lines, typed, expressions = switches.size()
    moved = len(switches.thresholds(1.3))
    return f"{lines} lines, {typed} named numbers, {expressions} expressions, {moved} thresholds"


def main() -> None:
    """Print the table, the most valuable first."""
    known = sets.load()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="+", choices=known, default=_DEFAULT, metavar="SET")
    options.add_argument("--seed", type=int, nargs="+", default=[1])
    options.add_argument("--most", type=int, default=12, help="jobs of each set and seed, an even sample; 0: all")
    options.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS)
    options.add_argument("--only", nargs="+", default=[""], help="switches whose id contains one of these")
    options.add_argument("--factor", nargs="+", type=float, default=[0.7, 1.3], help="what thresholds are moved by")
    options.add_argument(
        "--enough",
        type=int,
        default=sys.maxsize,
        metavar="N",
        help="leave a switch once N more jobs are worse",
    )
    options.add_argument("--show", action="store_true", help="name the jobs whose answer changed (of open sets)")
    options.add_argument(
        "--sizes", action="store_true", help="print only the size of each deciding module, and the sums"
    )
    options.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "faultline-ablate")
    chosen = options.parse_args()
    if chosen.sizes:
        for module, size in sorted(switches.sizes().items(), key=lambda row: -row[1][0]):
            print(*size, module)
        print(_size())
        return
    bench, cpu = Bench(chosen.work), time.process_time()
    jobs = [r for s in chosen.sets for seed in chosen.seed for r in bench.ready(known[s], seed, chosen.most)]
    base = [bench.answer(r, ())["quality"] for r in jobs]
    low, high = interval(base, [r.job.name for r in jobs])
    print(f"{len(jobs)} jobs of {', '.join(chosen.sets)}, seeds {' '.join(map(str, chosen.seed))}")
    print(f"mean figure {sum(base) / len(base):.4f} [{low:.3f}, {high:.3f}]\n", flush=True)
    print("| kind | switched off or moved | answers changed | better | worse | change of the mean figure |")
    print("|---|---|---|---|---|---|")
    idle: dict[str, list[str]] = defaultdict(list)
    used_ids = {x for r in jobs for key in ("used", "families", "spoke", "read") for x in bench.answer(r, ())[key]}
    rows, moving = [], set[str]()
    for switch, apart in tried_switches(bench, jobs, chosen.kind, chosen.only, chosen.factor, chosen.enough):
        if not apart:
            is_silent = switch.kind != "comparison" and switch.id not in used_ids
            idle[f"{switch.kind}, never heard in these jobs" if is_silent else switch.kind].append(switch.id)
            continue
        moving.add(switch.id)
        rows.append(line(bench, jobs, switch, apart))
        print(f"  {rows[-1][1]}", file=sys.stderr, flush=True)
        if chosen.show:
            shown = [r.key for r in apart if not r.of.is_sealed]
            print(f"  {switch.label}: {' '.join(shown)}", flush=True)
    for _, row in sorted(rows):
        print(row)
    for kind, ids in idle.items():
        still = sorted(set(ids) - moving)
        print(f"\n{kind}: {len(still)} changed no answer: {', '.join(still)}")
    print(f"\n{_size()}")
    print(f"\n{bench.runs} diagnoses, {time.process_time() - cpu:.0f} CPU s")
