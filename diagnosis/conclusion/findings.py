"""The findings of each kind of evidence in one type. Each function reads only one part of the report, and is linear in
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.conclusion.model import Slowdown
from diagnosis.evidence import Finding, FlowFinding, FlowJob, Place, Result, SilentMember, SlowFinding, StackFinding
from diagnosis.model import JobHints, Role
from diagnosis.plain import times_as_long
from diagnosis.quotes import quote
from diagnosis.result import Attempt, LineRef, LogDiagnosis, LogEvent

THRESHOLDS: Final = thresholds.of("findings")

#: Maximum number of findings of one kind in a conclusion; the report's events keep all.
MAX_FINDINGS: Final = 12
#: Maximum number of findings of flows about slow places.
MAX_SLOW_FINDINGS: Final = 48
#: Maximum characters of a line.
MAX_QUOTE_CHARS: Final = 400
#: Maximum number of places of one finding.
MAX_PLACES: Final = 64

_KIND_OF_ROLE: Final = {
    Role.ROOT.value: "root",
    Role.CASCADE.value: "consequence",
    Role.TEARDOWN.value: "teardown",
}


#: The category of a node that owes a message of a hung job: its process was stopped, or is cut off.
STUCK_HOST: Final = "hardware.host.stuck"
#: The findings that the alarms of a running job are.
_KIND_OF_ALARM: Final = {"hang": "silent", "silent": "silent", "slow": "slow"}
#: Category of a slow group by its measure; unevenly split work is nobody's fault.
_CATEGORY_OF_MEASURE: Final = {"late": "performance.straggler", "uneven": "performance.imbalance"}


def of_logs(logs: LogDiagnosis | None) -> list[Finding]:
    """The last progress, the root lines, their consequences, the end, and earlier launches."""
    if logs is None:
        return []
    found: list[Finding] = []
    last = _last_progress(logs)
    if last is not None:
        found.append(last)
    for role, what in _KIND_OF_ROLE.items():
        rows = [e for e in logs.events if e.role == role and not (logs.is_failure and e.recovered)]
        rows.sort(key=lambda e: (e.first_at is None, e.first_at or 0.0))
        found += [_event_finding(e, what) for e in rows[:MAX_FINDINGS]]
    for attempt, following in list(pairwise(logs.attempts))[-MAX_FINDINGS:]:
        lost = repeated_iterations(attempt, following)
        repeated_text = f" {iterations_text(lost)} had to be run again." if lost else ""
        text = f"Launch {attempt.number} ended ({attempt.outcome}).{repeated_text}"
        found.append(Finding("logs", "restart", text, at=attempt.t1, amount=float(lost)))
    ends = [a.t1 for a in logs.attempts if a.number == logs.attempt and a.t1 is not None]
    found.append(Finding("logs", "outcome", logs.outcome, at=max(ends, default=None)))
    return found


def repeated_iterations(attempt: Attempt, following: Attempt) -> int:
    """The iterations of a launch that the next one had to run again: those after the checkpoint that it loaded."""
    if attempt.outcome == "succeeded" or attempt.last is None or following.first is None:
        return 0
    return max(0, attempt.last - following.first + 1)


def iterations_text(count: int) -> str:
    """A number of iterations in words."""
    return f"{count:,} iteration{'' if count == 1 else 's'}"


def of_uploader(hints: JobHints) -> list[Finding]:
    """The uploader's statement about the end of the job."""
    if not hints.outcome or hints.outcome == "unknown":
        return []
    return [Finding("uploader", "outcome", hints.outcome, at=hints.ended_at, first_hand=False)]


def of_alarms(hints: JobHints) -> list[Finding]:
    """The alarms of the job while it runs, those that hold first."""
    return [
        Finding(
            "watch",
            _KIND_OF_ALARM.get(alarm.kind, "consequence"),
            alarm.text,
            at=alarm.since,
            until=alarm.until,
            category=alarm.category,
        )
        for alarm in hints.alarms[:MAX_FINDINGS]
    ]


def of_checks(results: Iterable[Result]) -> list[Finding]:
    """The results of checks with their machines."""
    return [
        Finding(
            "check",
            "check",
            r.sentence,
            places=(Place(r.kind, r.target),) if r.target else (),
            evidence=({"file": r.path, "line": r.line},),
        )
        for r in list(results)[:MAX_FINDINGS]
    ]


def of_slowdowns(rows: Iterable[Slowdown]) -> list[Finding]:
    """Stretches of slow steps."""
    return [
        Finding(
            row.source,
            "slow",
            slowdown_text(row),
            at=row.at,
            until=row.until,
            category="performance.step",
            amount=round(row.factor, 3),
            steps=row.steps,
        )
        for row in list(rows)[:MAX_FINDINGS]
    ]


def of_flows(flows: FlowFinding) -> list[Finding]:
    """Slow machines, switches and links."""
    groups = [(row, job) for job in flows.jobs for row in job.slow if row.kind == "slow_group"]
    found = [_slow_finding(row, _slow_machines(row, job)) for row, job in groups]
    found += [_slow_finding(row, _slow_fabric(row)) for row in flows.fabric if row.kind == "slow_switch"]
    return found[:MAX_SLOW_FINDINGS]


def _slow_machines(row: SlowFinding, job: FlowJob) -> list[Place]:
    """The culprits of a group that are machines of the job; all of them if its machines are unknown."""
    names, machines = row.culprits or row.members, set(job.nodes)
    return [Place("node", name) for name in names if not machines or name in machines]


def _slow_fabric(row: SlowFinding) -> list[Place]:
    """The link, or the switches of which one is slow."""
    if row.link:
        return [Place("link", row.link)]
    return [Place("switch", name) for name in row.switches]


def of_last_messages(flows: FlowFinding, *, is_hung: bool = True) -> list[Finding]:
    """When the training traffic of each node ended, of a job that stopped before its capture did: those that owed the
    next message, then the earliest others. Who owes a message proves something of hung jobs only: in a crash, whoever
    is still in the middle of an exchange does.
    """
    found: list[Finding] = []
    for job in flows.jobs:
        dated = [(not row.owes, row.last_at, row.name, row) for row in job.ceased if row.last_at is not None]
        dated.sort(key=lambda entry: entry[:3])
        found += [_last_message(row, last_at, is_hung=is_hung) for _, last_at, _, row in dated[:MAX_FINDINGS]]
    return found[:MAX_FINDINGS]


def _last_message(row: SilentMember, last_at: float, *, is_hung: bool) -> Finding:
    is_owing = is_hung and row.owes
    text = f"{row.name} sent its last training message"
    if is_owing:
        text += f"; what {row.by} sent to it in the last {row.unanswered_s:.2f} s was not answered"
    return Finding(
        "flows",
        "flows_ceased",
        f"{text}.",
        at=last_at,
        places=(Place("node", row.name),),
        category=STUCK_HOST if is_owing else "",
    )


def of_stacks(stacks: StackFinding) -> list[Finding]:
    """The ranks that wait and the ranks that they wait for, from the stacks."""
    if not stacks.reason and not stacks.suspect_ranks:
        return []
    text = stacks.headline or stacks.reason
    ranks, nodes = stacks.suspect_ranks[:MAX_PLACES], stacks.suspect_nodes[:MAX_PLACES]
    places = (*map(rank_place, ranks), *(Place("node", name) for name in nodes))
    if not ranks:
        first = [row.rank for row in stacks.ranks[:1] if row.rank]
        return [Finding("stacks", "stacks", text, places=tuple(map(rank_place, first)))]
    dumps = [row for row in stacks.ranks if row.rank in ranks and row.path]
    evidence = tuple({"file": row.path, "line": row.line or 1} for row in dumps[:MAX_FINDINGS])
    return [Finding("stacks", "waited_for", text, places=places, evidence=evidence)]


def rank_place(rank: int) -> Place:
    """A rank as a place."""
    return Place("rank", str(rank), rank)


def places_of(lines: Iterable[LineRef]) -> tuple[Place, ...]:
    """The ranks and nodes that wrote lines, each once, in their order."""
    found: dict[Place, None] = {}
    for line in lines:
        if line.node:
            found.setdefault(Place("node", line.node))
        if line.rank is not None:
            found.setdefault(rank_place(line.rank))
        if len(found) >= MAX_PLACES:
            break
    return tuple(found)


def slowdown_text(row: Slowdown) -> str:
    """One stretch as a clause: "steps 25 to 32 took 2.05 times as long as usual"."""
    first, last = row.steps
    times = f"{times_as_long(row.factor)} as usual"
    if first == last:
        return f"step {first:,} took {times}"
    return f"steps {first:,} to {last:,} took {times}"


def _event_finding(event: LogEvent, what: str) -> Finding:
    places = [Place("node", n) for n in event.node_names[:MAX_PLACES]]
    places += [p for p in places_of(event.lines) if p not in places]
    return Finding(
        "logs",
        what,
        quote(event.example, event.template, MAX_QUOTE_CHARS) or event.template,
        at=event.first_at,
        until=event.last_at,
        is_stamped=event.is_stamped,
        places=tuple(places[:MAX_PLACES]),
        p=event.score if what == "root" else 1.0,
        category=event.category,
        amount=float(event.count),
        evidence=tuple({"file": ref.file, "line": ref.line} for ref in event.lines[:3]),
    )


def _last_progress(logs: LogDiagnosis) -> Finding | None:
    beats: Sequence[Mapping[str, Any]] = logs.timeline.get("iterations") or ()
    known = [b for b in beats if b.get("t") is not None]
    if not known:
        return None
    last = max(known, key=lambda b: (b["t"], b["n"]))
    # If all have one time, it is that of a line before them: their own lines state none.
    is_own = len(known) < THRESHOLDS.shared_times or any(b["t"] != last["t"] for b in known)
    at = float(last["t"]) if is_own else None
    return Finding("logs", "progress", f"Last progress: iteration {int(last['n']):,}", at=at)


def _slow_finding(row: SlowFinding, places: Sequence[Place]) -> Finding:
    return Finding(
        "flows",
        "slow",
        row.reason,
        at=row.start,
        until=row.end,
        places=tuple(places[:MAX_PLACES]),
        p=row.confidence or THRESHOLDS.unstated,
        category=_CATEGORY_OF_MEASURE.get(row.measure, "performance.network"),
        amount=row.factor or 1.0,
    )
