"""The finding of a capture in one sentence: what is slow, how much, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from diagnosis.plain import times_as_long

#: More names than this are counted.
MAX_NAMED = 2


def headline(flows: Mapping[str, Any]) -> str:
    """One or two sentences for the top of a report that has only flows.

    ``flows`` is the object of ``diagnose_flows``. A slow switch or group comes before single slow steps; among equals
    the more certain one, then the slower one.
    """
    jobs = list(flows.get("jobs") or [])
    found: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = [(d, None) for d in flows.get("diagnoses") or []]
    found += [(d, job) for job in jobs for d in job.get("diagnoses") or []]
    found = [pair for pair in found if pair[0].get("measure") != "planned"]  # an evaluation or a checkpoint
    causes = [pair for pair in found if pair[0]["kind"] != "slow_step"]
    steps = [pair for pair in found if pair[0]["kind"] == "slow_step"]
    if causes:
        causes.sort(key=lambda pair: (-float(pair[0]["confidence"]), -float(pair[0]["factor"])))
        more = _and_more(len(causes) - 1, "more slow group or switch", "more slow groups or switches")
        unexplained = _and_more(len(steps), "slow step without a cause", "slow steps without a cause")
        rest = " and ".join(part for part in (more, unexplained) if part)
        return _cause(*causes[0], many=len(jobs) > 1) + (f" Besides: {rest}." if rest else "")
    if steps:
        return _steps_text(steps, many=len(jobs) > 1)
    return _nothing_slow(flows, jobs)


def _and_more(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def _cause(slow: Mapping[str, Any], job: Mapping[str, Any] | None, *, many: bool) -> str:
    when = _time_text(slow, list((job or {}).get("steps") or []))
    if slow["kind"] == "slow_switch":
        if slow.get("link"):
            return f"The link {slow['link']} is slow: transfers across it take {_factor_text(slow)} {when}."
        switches = [str(c) for c in slow.get("candidates") or []] or [str(slow["switch"])]
        if len(switches) == 1:
            return f"Switch {switches[0]} is slow: transfers across it take {_factor_text(slow)} {when}."
        named = (
            f"{', '.join(switches[:-1])} and {switches[-1]}"
            if len(switches) <= 2 * MAX_NAMED
            else f"{switches[0]}, {switches[1]}, …"
        )
        factor = _factor_text(slow)
        return f"One of {len(switches)} switches ({named}) is slow: transfers across them take {factor} {when}."
    of = f" of {job['id']}" if job is not None and many else ""
    culprits = [str(c) for c in slow.get("culprits") or []]
    who = [c for c in culprits if c in set((job or {}).get("nodes") or [])] or culprits
    if not who:
        who = [str(m) for m in slow.get("members") or []]
    if slow.get("measure") == "uneven":
        return str(slow["reason"])
    if len(who) > MAX_NAMED:
        return f"A group of {len(who)} ({', '.join(who[:MAX_NAMED])}, …){of} is slow: {_factor_text(slow)} {when}."
    return f"{' and '.join(who)}{of} {'is' if len(who) == 1 else 'are'} slow: {_factor_text(slow)} {when}."


def _factor_text(slow: Mapping[str, Any]) -> str:
    return f"{times_as_long(float(slow['factor']))} as usual"


def _time_text(slow: Mapping[str, Any], steps: list[Mapping[str, Any]]) -> str:
    """The affected steps and the time; only the time if the finding belongs to no job."""
    t0, t1 = float(slow["t0"]), float(slow["t1"])
    inside = [n for n, s in enumerate(steps, 1) if t0 <= (float(s["start"]) + float(s["end"])) / 2 <= t1]
    if not inside:
        return f"from {_clock(t0)} to {_clock(t1)}"
    if len(inside) >= 0.9 * len(steps):
        return "in every step"
    if inside[-1] == len(steps):
        return f"since step {inside[0]} ({_clock(t0)})"
    if len(inside) == 1:
        return f"in step {inside[0]} ({_clock(t0)})"
    return f"in steps {inside[0]} to {inside[-1]}, from {_clock(t0)}"


def _steps_text(found: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]], *, many: bool) -> str:
    worst, job = max(found, key=lambda pair: float(pair[0]["factor"]))
    step = f"step {worst['step']}{f' of {job["id"]}' if job is not None and many else ''}"
    took = f"took {_factor_text(worst)} at {_clock(worst['t0'])}; flows show no cause."
    if len(found) == 1:
        return f"One step is slow: {step} {took}"
    total = sum(len(j["steps"]) for j in {id(j): j for _, j in found if j is not None}.values())
    return f"{len(found)} of {total} steps are slow: the worst, {step}, {took}"


def _nothing_slow(flows: Mapping[str, Any], jobs: list[Mapping[str, Any]]) -> str:
    why_not = str(flows.get("why_not") or "")
    if not jobs:
        ports = sum(int(p.get("ports_total") or 0) for p in flows.get("ports") or [])
        if ports:
            return f"Bandwidth of {ports} switch ports; add flow records to see jobs, steps and slow groups."
        return why_not or "No training traffic was recognised in the network flows."
    members = sum(len(j["members"]) for j in jobs)
    seen = f"{len(jobs)} job{'s' * (len(jobs) > 1)} with {members:,} members"
    if not flows.get("usable_for_timeline"):
        return f"Network flows of {seen}, without a timeline of steps. {why_not.partition('. ')[0].rstrip('.')}."
    steps = sum(len(j["steps"]) for j in jobs)
    if not steps:
        return (
            f"Network flows of {seen}, but nothing in them repeats like steps: too short a capture, too many records "
            "lost, or no training."
        )
    blind = "; the late member is unknown" if flows.get("late_unknown") else ""
    return f"No slow step in the network flows of {seen} and {steps} steps{blind}."


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
