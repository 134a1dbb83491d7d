"""The one sentence. It names the first of the accused, and nobody who is not accused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion import flow_sentence, log_sentence
from diagnosis.conclusion.condition import Situation
from diagnosis.conclusion.findings import iterations_text, repeated_iterations, slowdown_text
from diagnosis.conclusion.model import Fault, Slowdown
from diagnosis.evidence import Place
from diagnosis.model import AlarmNote
from diagnosis.plain import amount
from diagnosis.result import LogDiagnosis

THRESHOLDS: Final = thresholds.of("sentence")
LIMITS: Final = thresholds.limits("sentence")

MAX_LISTED: Final = 4
#: What an alarm says of the running job.
_ALARM_SENTENCES: Final = {
    "error": "The running job printed an error that jobs do not survive.",
    "hang": "The running job hangs.",
    "loss": "The running job computes wrong numbers.",
    "silent": "A part of the running job is silent.",
    "slow": "The running job became slow.",
    "burst": "The running job prints many errors.",
    "retries": "The running job retries more and more.",
    "disk": "The running job fills a file system.",
}
KIND_WORDS: Final = {"node": "", "rank": "rank ", "device": "device ", "link": "link ", "switch": "switch "}


def sentence(known: Situation, condition: str, fault: Sequence[Fault]) -> str:
    """One or two short sentences as an engineer would write them, about a job in this ``condition``."""
    text = next(write(known, fault) for holds, write in _TABLE if holds(known, condition))
    return _with_culprit(log_sentence.with_stated_outcome(known.stated_outcome, known.logs, text), fault)


def _failure_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    assert known.logs is not None
    # stacks that show nobody say nothing where other evidence accuses somebody
    shown = known.stacks.headline if known.stacks.suspect_ranks or not fault else ""
    return log_sentence.headline(known.logs, _accused_nodes(fault), shown) + _later_launch(known.logs)


def _log_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    assert known.logs is not None
    return log_sentence.headline(known.logs, stated=known.stated_outcome)


def _alarm_sentence(alarms: Sequence[AlarmNote]) -> str:
    """The most severe alarm that holds, or the last one that ended."""
    first = next((alarm for alarm in alarms if alarm.until is None), alarms[0])
    if first.ended_at is not None:
        return f"The job hung for {max(0.0, first.ended_at - first.since):,.0f} s until it was ended. {first.text}"
    if first.until is None:
        return f"{_ALARM_SENTENCES.get(first.kind, 'The running job has an alarm.')} {first.text}"
    return f"The running job had an alarm for {max(0.0, first.until - first.since):,.0f} s and continued. {first.text}"


def _fault_beside_job(known: Situation) -> str:
    """A job that runs or completed beside a broken part."""
    first = known.faults_shown[0]
    begin = {"succeeded": "The job completed, but ", "running": "The job is running, but "}.get(known.outcome, "")
    found = first.headline
    return begin + (found if first.target or not begin else found[:1].lower() + found[1:])


def _recovered_sentence(logs: LogDiagnosis | None) -> str:
    return f"An earlier launch failed; the last one completed.{_repeated_text(logs)}"


def _repeated_text(logs: LogDiagnosis | None) -> str:
    """How many iterations were run again after restarts; empty if none, or if the logs do not count them."""
    count = sum(repeated_iterations(a, b) for a, b in pairwise(logs.attempts)) if logs is not None else 0
    return f" {iterations_text(count)} had to be run again." if count else ""


def _later_launch(logs: LogDiagnosis) -> str:
    """What a launch after the failed one did."""
    last = logs.attempts[-1] if logs.attempts else None
    if last is None or last.number <= logs.attempt or last.outcome != "succeeded":
        return ""
    return f" A later launch completed.{_repeated_text(logs)}"


def _accused_nodes(fault: Sequence[Fault]) -> list[str]:
    """The accused nodes in words: the first one, and others that the same evidence accuses."""
    nodes = [f for f in fault if f.place.kind == "node"]
    return [place_text(f.place) for f in nodes if set(f.sources) & set(nodes[0].sources)]


def _slowdown_sentence(logs: LogDiagnosis | None, slowdowns: Sequence[Slowdown]) -> str:
    worst = slowdowns[0]
    what = slowdown_text(worst)
    begin = "The job completed, but " if logs is not None and logs.outcome == "succeeded" else "The job was slow: "
    lost = f", which cost {cost_text(worst)}" if worst.lost_s >= 1 else ""
    more = f" {len(slowdowns) - 1} more such stretches were seen." if len(slowdowns) > 2 else ""
    more = more or (" Another such stretch was seen." if len(slowdowns) == 2 else "")
    return f"{begin}{what}{lost}.{more}"


def cost_text(row: Slowdown) -> str:
    """The cost of a stretch, in words."""
    return f"{row.lost_s:.0f} s" if row.lost_gpu_s is None else gpu_hours(row.lost_gpu_s)


def gpu_hours(gpu_s: float) -> str:
    """A cost in words, in the unit of all pages."""
    hours = gpu_s / 3600
    if hours < LIMITS.hours:
        return "less than 0.01 GPU-hours"
    return f"{amount(hours)} GPU-hours"


def _with_culprit(text: str, fault: Sequence[Fault]) -> str:
    """The text with the first of the accused, if it does not name that one yet."""
    if not fault or contains_name(text, fault[0].place.name):
        return text
    lead = fault[0]
    if lead.p >= THRESHOLDS.stated:
        return f"{text} Most probably at fault: {place_text(lead.place)}."
    same = [f for f in fault if f.p >= lead.p - 1e-6]
    shown = ", ".join(place_text(f.place) for f in same[:MAX_LISTED])
    if len(same) == 1:
        return f"{text} Perhaps at fault: {shown}."
    return f"{text} One of {len(same)} may be at fault: {shown}{' and others' if len(same) > MAX_LISTED else ''}."


def place_text(place: Place) -> str:
    """A place as a sentence calls it: ``node-3 (rank 5)``, ``rank 5``, ``switch leaf-2``."""
    rank = f" (rank {place.rank})" if place.kind != "rank" and place.rank is not None else ""
    return f"{KIND_WORDS[place.kind]}{place.name}{rank}"


def contains_name(text: str, name: str) -> bool:
    """Whether a name occurs in a text as a separate word."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in "_-") and not (after.isalnum() or after in "_-"):
            return True
        at = text.find(name, at + 1)
    return False


#: What the sentence tells, by situation and condition: the first row that holds.
_TABLE: Final[tuple[tuple[Callable[[Situation, str], bool], Callable[[Situation, Sequence[Fault]], str]], ...]] = (
    (lambda s, _: s.is_failure, _failure_sentence),
    (lambda s, name: name == "failed" and bool(s.faults_shown), lambda s, _: s.faults_shown[0].headline),
    (lambda s, name: name == "hung" and bool(s.alarms), lambda s, _: _alarm_sentence(s.alarms)),
    (lambda s, name: name == "degraded" and bool(s.slowdowns), lambda s, _: _slowdown_sentence(s.logs, s.slowdowns)),
    (lambda s, name: name == "degraded" and bool(s.alarms), lambda s, _: _alarm_sentence(s.alarms)),
    (lambda s, name: name == "degraded" and bool(s.faults_shown), lambda s, _: _fault_beside_job(s)),
    (lambda s, name: name == "recovered", lambda s, _: _recovered_sentence(s.logs)),
    (lambda s, _: s.logs is not None, _log_sentence),
    (lambda s, _: bool(s.stacks.reason), lambda s, _: s.stacks.reason),
    (lambda s, _: s.flows.has_evidence, lambda s, _: flow_sentence.headline(s.flows)),
    (lambda s, _: True, lambda s, _: "Nothing to diagnose: no logs, flows or stacks could be read."),
)
