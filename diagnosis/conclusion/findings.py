"""The findings of each kind of evidence in one type. Each function reads only one part of the
report, and is linear in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion.model import Slowdown
from diagnosis.evidence import (
    Finding,
    FlowFinding,
    FlowJob,
    Place,
    Reference,
    Result,
    SilentMember,
    SlowFinding,
    StackFinding,
)
from diagnosis.model import JobHints, Role
from diagnosis.records.result import Attempt, LineRef, LogDiagnosis, LogEvent
from diagnosis.values.plain import counted, duration, times_as_long
from diagnosis.values.quotes import quote

THRESHOLDS: Final = thresholds.of("findings")

#: Maximum number of findings of one kind in a conclusion; the report's events keep all.
MAX_FINDINGS: Final = 12
#: Maximum number of findings of flows about slow places.
MAX_SLOW_FINDINGS: Final = 48
#: Maximum characters of a line.
MAX_QUOTE_CHARS: Final = 400
#: Maximum number of places of one finding.
MAX_PLACES: Final = 64
#: Lines of an event that a finding names.
MAX_LINES: Final = 3

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


def of_logs(logs: LogDiagnosis) -> list[Finding]:
    """The last progress, the root lines, their consequences, the end, and earlier launches."""
    if not logs.has_evidence:
        return []
    found = _last_progress(logs)
    open_events = [event for event in logs.events if not (logs.is_failure and event.recovered)]
    for role, what in _KIND_OF_ROLE.items():
        events = [event for event in open_events if event.role == role]
        events.sort(key=lambda event: (event.first_at is None, event.first_at or 0.0))
        found += [_event_finding(event, what) for event in events[:MAX_FINDINGS]]
    found += [_restart(*both) for both in list(pairwise(logs.attempts))[-MAX_FINDINGS:]]
    own = [attempt.t1 for attempt in logs.attempts if attempt.number == logs.attempt]
    ended_at = max((at for at in own if at is not None), default=None)
    return [*found, Finding("logs", "outcome", logs.outcome, at=ended_at)]


def _restart(attempt: Attempt, following: Attempt) -> Finding:
    """The end of an earlier launch, and what the next one had to do again."""
    text = f"Launch {attempt.number} ended ({attempt.outcome})."
    lost = repeated_iterations(attempt, following)
    if lost:
        text += f" {iterations_text(lost)} had to be run again."
    return Finding("logs", "restart", text, at=attempt.t1, amount=float(lost))


def repeated_iterations(attempt: Attempt, following: Attempt) -> int:
    """The iterations that the next launch ran again: those after the checkpoint that it loaded."""
    if attempt.outcome == "succeeded" or attempt.last is None or following.first is None:
        return 0
    return max(0, attempt.last - following.first + 1)


def iterations_text(count: int) -> str:
    """A number of iterations in words."""
    return counted(count, "iteration", "iterations")


def of_uploader(hints: JobHints) -> list[Finding]:
    """The uploader's statement about the end of the job."""
    if hints.outcome in ("", "unknown"):
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
    return [_checked(result) for result in list(results)[:MAX_FINDINGS]]


def _checked(result: Result) -> Finding:
    """One result. What changes no probability is a check that was run, also a comparison."""
    is_remark = result.outcome.ratio == 1.0
    return Finding(
        "check",
        "check" if is_remark else result.check.finding,
        result.sentence,
        places=(_place_of(result),) if result.target else (),
        category=result.outcome.adds,
        evidence=(Reference(result.path, result.line),),
    )


def _place_of(result: Result) -> Place:
    """What was checked; a rank by its number, as other findings name it."""
    number = result.target.removeprefix("rank ")
    is_rank = result.kind == "rank" and number.isdecimal() and number.isascii()
    return rank_place(int(number)) if is_rank else Place(result.kind, result.target)


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
    """The culprits of a group that are machines of the job; all if its machines are unknown."""
    names, machines = row.culprits or row.members, set(job.nodes)
    return [Place("node", name) for name in names if not machines or name in machines]


def _slow_fabric(row: SlowFinding) -> list[Place]:
    """The link, or the switches of which one is slow."""
    if row.link:
        return [Place("link", row.link)]
    return [Place("switch", name) for name in row.switches]


def of_last_messages(flows: FlowFinding, condition: str) -> list[Finding]:
    """When the training traffic of each node ended, of a job that stopped before its capture did:
    those that owed the next message, then the earliest others. Who owes a message proves something
    of hung jobs only: in a crash, whoever is still in the middle of an exchange does.
    """
    if condition not in ("hung", "failed"):
        return []
    found: list[Finding] = []
    for job in flows.jobs:
        dated = [row for row in job.ceased if row.last_at is not None]
        dated.sort(key=lambda row: (not row.owes, row.last_at, row.name))
        found += [_last_message(row, is_hung=condition == "hung") for row in dated[:MAX_FINDINGS]]
    return found[:MAX_FINDINGS]


def _last_message(row: SilentMember, *, is_hung: bool) -> Finding:
    text = f"{row.name} sent its last training message"
    category = ""
    if is_hung and row.left_unanswered:
        last = duration(row.unanswered_s)
        text += f"; what {row.by} sent to it in the last {last} was not answered"
        category = STUCK_HOST
    place = Place("node", row.name)
    return Finding("flows", "flows_ceased", f"{text}.", at=row.last_at, places=(place,), category=category)


def of_stacks(stacks: StackFinding) -> list[Finding]:
    """The ranks that wait and the ranks that they wait for, from the stacks."""
    text = stacks.headline or stacks.reason
    ranks = stacks.suspect_ranks[:MAX_PLACES]
    if ranks:
        return [_waited_for(stacks, text, ranks)]
    if not stacks.reason:
        return []
    first = [row.rank for row in stacks.ranks[:1] if row.rank]
    return [Finding("stacks", "stacks", text, places=tuple(map(rank_place, first)))]


def _waited_for(stacks: StackFinding, text: str, ranks: Sequence[int]) -> Finding:
    """The ranks that others wait for, their nodes, and the lines of their dumps."""
    nodes = [Place("node", name) for name in stacks.suspect_nodes[:MAX_PLACES]]
    places = (*map(rank_place, ranks), *nodes)
    dumps = [row for row in stacks.ranks if row.path and row.rank in ranks]
    lines = [Reference(row.path, row.line or 1) for row in dumps[:MAX_FINDINGS]]
    return Finding("stacks", "waited_for", text, places=places, evidence=tuple(lines))


def rank_place(rank: int) -> Place:
    """A rank as a place."""
    return Place("rank", str(rank), rank)


def places_of(lines: Iterable[LineRef]) -> tuple[Place, ...]:
    """The ranks and nodes that wrote lines, each once, in their order."""
    found: dict[Place, None] = {}
    for line in lines:
        if line.node:
            found[Place("node", line.node)] = None
        if line.rank is not None:
            found[rank_place(line.rank)] = None
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
    nodes = [Place("node", name) for name in event.node_names[:MAX_PLACES]]
    places = dict.fromkeys((*nodes, *places_of(event.lines)))
    line = quote(event.example, event.template, MAX_QUOTE_CHARS)
    return Finding(
        "logs",
        what,
        line or event.template,
        at=event.first_at,
        until=event.last_at,
        is_stamped=event.is_stamped,
        places=tuple(places)[:MAX_PLACES],
        p=event.score if what == "root" else 1.0,
        category=event.category,
        amount=float(event.count),
        evidence=tuple(Reference(ref.file, ref.line) for ref in event.lines[:MAX_LINES]),
    )


def _last_progress(logs: LogDiagnosis) -> list[Finding]:
    """The last iteration that the logs show. If all have one time, it is that of a line before
    them: their own lines state none.
    """
    dated = logs.timeline.dated_iterations
    if not dated:
        return []
    last_at, number = max(dated)
    times = {at for at, _ in dated}
    is_of_line_before = len(times) == 1 and len(dated) >= THRESHOLDS.shared_times
    at = None if is_of_line_before else last_at
    return [Finding("logs", "progress", f"Last progress: iteration {number:,}", at=at)]


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
