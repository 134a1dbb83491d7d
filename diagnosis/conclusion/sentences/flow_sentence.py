"""The finding of a capture in one sentence: what is slow, how much, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import FlowFinding, FlowJob, Interval, SlowFinding
from diagnosis.values.plain import counted, times_as_long

THRESHOLDS: Final = thresholds.of("flow_sentence")

#: More names than this are counted.
MAX_NAMED = 2


class _Slow(NamedTuple):
    """What is slow, and the job that it is slow in, an empty one for the fabric."""

    row: SlowFinding
    job: FlowJob


def headline(flows: FlowFinding) -> str:
    """The sentences of a report with flows alone: what is slow, who stopped in an exchange."""
    return _slowness(flows) + _stopped_text(flows)


def _stopped_text(flows: FlowFinding) -> str:
    """The members that still owed a message when their job's traffic ended."""
    ceased = chain.from_iterable(job.ceased for job in flows.jobs)
    members = [member for member in ceased if member.owes]
    owing = [member.name for member in members]
    if not owing:
        return ""
    more = len(owing) - MAX_NAMED
    shown = " and ".join(owing[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f" {shown} {members[0].stop_words}."


def _slowness(flows: FlowFinding) -> str:
    """A slow switch or group before single steps; then the more certain, then the slower one."""
    found = [_Slow(row, FlowJob()) for row in flows.fabric]
    for job in flows.jobs:
        found += [_Slow(row, job) for row in job.slow]
    unplanned = [slow for slow in found if not slow.row.is_planned]
    causes = [slow for slow in unplanned if slow.row.kind != "slow_step"]
    steps = [slow for slow in unplanned if slow.row.kind == "slow_step"]
    is_one_of_many = len(flows.jobs) > 1
    if causes:
        return _causes(causes, len(steps), many=is_one_of_many)
    if steps:
        return _steps_text(steps, many=is_one_of_many)
    return _nothing_slow(flows)


def _causes(causes: Sequence[_Slow], steps: int, *, many: bool) -> str:
    """The first of the slow groups and switches, and how many more there are."""
    first = min(causes, key=lambda slow: (-slow.row.confidence, -slow.row.factor))
    more = counted(len(causes) - 1, "more slow group or switch", "more slow groups or switches")
    unexplained = counted(steps, "slow step without a cause", "slow steps without a cause")
    numbered = ((len(causes) - 1, more), (steps, unexplained))
    rest = " and ".join(words for count, words in numbered if count)
    besides = f" Besides: {rest}." if rest else ""
    return _cause(first, many=many) + besides


def _cause(slow: _Slow, *, many: bool) -> str:
    when = _time_text(slow.row, slow.job.steps)
    if slow.row.kind == "slow_switch":
        return _switch_text(slow.row, when)
    if slow.row.measure == "uneven":
        return slow.row.reason
    return _group_text(slow, when, many=many)


def _switch_text(row: SlowFinding, when: str) -> str:
    took = f"{_factor_text(row)} {when}."
    switches = row.switches
    if row.link:
        return f"The link {row.link} is slow: transfers across it take {took}"
    if len(switches) == 1:
        return f"Switch {switches[0]} is slow: transfers across it take {took}"
    if len(switches) <= 2 * MAX_NAMED:
        named = f"{', '.join(switches[:-1])} and {switches[-1]}"
    else:
        named = f"{switches[0]}, {switches[1]}, …"
    return f"One of {len(switches)} switches ({named}) is slow: transfers across them take {took}"


def _group_text(slow: _Slow, when: str, *, many: bool) -> str:
    """A slow machine, or a slow group of machines or members."""
    took = f"{_factor_text(slow.row)} {when}."
    of = _of_job(slow.job, many=many)
    who = _culprits(slow)
    if len(who) > MAX_NAMED:
        return f"A group of {len(who)} ({', '.join(who[:MAX_NAMED])}, …){of} is slow: {took}"
    verb = "is" if len(who) == 1 else "are"
    return f"{' and '.join(who)}{of} {verb} slow: {took}"


def _culprits(slow: _Slow) -> Sequence[str]:
    """The machines among the culprits, else all culprits, else the members of the group."""
    known = [name for name in slow.row.culprits if name in slow.job.nodes]
    return known or slow.row.culprits or slow.row.members


def _of_job(job: FlowJob, *, many: bool) -> str:
    """Which job, if there are several."""
    return f" of {job.id}" if many and job.id else ""


def _factor_text(row: SlowFinding) -> str:
    return f"{times_as_long(row.factor)} as usual"


def _time_text(row: SlowFinding, steps: Sequence[Interval]) -> str:
    """The affected steps and the time; only the time if the finding belongs to no job."""
    inside = [n for n, step in enumerate(steps, 1) if row.start <= step.middle <= row.end]
    if not inside:
        return f"from {_clock(row.start)} to {_clock(row.end)}"
    if len(inside) >= THRESHOLDS.every * len(steps):
        return "in every step"
    if inside[-1] == len(steps):
        return f"since step {inside[0]} ({_clock(row.start)})"
    if len(inside) == 1:
        return f"in step {inside[0]} ({_clock(row.start)})"
    return f"in steps {inside[0]} to {inside[-1]}, from {_clock(row.start)}"


def _steps_text(found: Sequence[_Slow], *, many: bool) -> str:
    worst = max(found, key=lambda slow: slow.row.factor)
    step = f"step {worst.row.step}{_of_job(worst.job, many=many)}"
    took = f"took {_factor_text(worst.row)} at {_clock(worst.row.start)}; flows show no cause."
    if len(found) == 1:
        return f"One step is slow: {step} {took}"
    steps_of = {slow.job.id: len(slow.job.steps) for slow in found}
    total = sum(steps_of.values())
    return f"{len(found)} of {total} steps are slow: the worst, {step}, {took}"


def _nothing_slow(flows: FlowFinding) -> str:
    if not flows.jobs:
        return _without_jobs(flows)
    members = sum(len(job.members) for job in flows.jobs)
    jobs = counted(len(flows.jobs), "job", "jobs")
    seen = f"Network flows of {jobs} with {members:,} members"
    if not flows.has_timeline:
        reason = flows.why_not.partition(". ")[0].rstrip(".")
        return f"{seen}, without a timeline of steps. {reason}."
    steps = sum(len(job.steps) for job in flows.jobs)
    if not steps:
        return (
            f"{seen}, but nothing in them repeats like steps: too short a capture, too many records "
            "lost, or no training."
        )
    blind = "; the late member is unknown" if flows.is_late_unknown else ""
    found = f"No slow step in the n{seen[1:]} and {steps} steps{blind}."
    return f"{found} {flows.cannot_tell}".rstrip()


def _without_jobs(flows: FlowFinding) -> str:
    ports = sum(capture.ports_total for capture in flows.ports)
    if ports:
        more = "add flow records to see jobs, steps and slow groups."
        return f"Bandwidth of {ports} switch ports; {more}"
    return flows.why_not or "No training traffic was recognised in the network flows."


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
