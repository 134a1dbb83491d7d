"""The one sentence. It names the first of the accused, and nobody who is not accused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from diagnosis import thresholds
from diagnosis.conclusion.condition import Situation
from diagnosis.conclusion.findings import iterations_text, repeated_iterations, slowdown_text
from diagnosis.conclusion.model import EPSILON, Fault, Slowdown
from diagnosis.conclusion.sentences import flow_sentence, log_sentence
from diagnosis.evidence import FactSummary, Place
from diagnosis.records.result import LogDiagnosis
from diagnosis.values.plain import amount, counted

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
#: What follows the broken part of a job that works all the same, by its outcome.
_END_BESIDE_FAULT: Final = {"succeeded": " The job completed.", "running": " The job is running."}
KIND_WORDS: Final = {"node": "", "rank": "rank ", "device": "device ", "link": "link ", "switch": "switch "}


def sentence(known: Situation, condition: str, fault: Sequence[Fault], leaf: str = "") -> str:
    """One or two short sentences as an engineer would write them, about a job in this
    ``condition``. ``leaf``: the category of the answer.
    """
    written = next(write(known, fault) for holds, write in _TABLE if holds(known, condition))
    text = f"{_reported_cause(known, leaf)}{written}"
    said = log_sentence.with_stated_outcome(known.stated_outcome, known.logs, text)
    return _with_culprit(said, fault)


def _reported_cause(known: Situation, leaf: str) -> str:
    """The cause that a report names, before what the logs show; empty where they agree."""
    if not known.logs.is_failure or known.logs.verdict.id == leaf:
        return ""
    causes = [f"{result.headline} Then: " for result in known.results if result.outcome.adds == leaf]
    return "".join(causes[:1])


def _failure_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    # stacks that show nobody say nothing where other evidence accuses somebody
    shown = known.stacks.headline if known.stacks.suspect_ranks or not fault else ""
    headline = log_sentence.headline(known.logs, _accused_nodes(fault), shown)
    return headline + _later_launch(known.logs)


def _log_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    headline = log_sentence.headline(known.logs, stated=known.stated_outcome)
    if known.outcome != "unknown":
        return headline
    return " ".join(filter(None, [headline, known.facts.differences]))


def _alarm_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    """The most severe alarm that holds, or the last one that ended."""
    lasting = [alarm for alarm in known.alarms if alarm.until is None]
    first = (lasting or known.alarms)[0]
    if first.ended_at is not None:
        return f"The job hung for {_seconds(first.since, first.ended_at)} until it was ended. {first.text}"
    if first.until is None:
        return f"{_ALARM_SENTENCES.get(first.kind, 'The running job has an alarm.')} {first.text}"
    lasted = _seconds(first.since, first.until)
    return f"The running job had an alarm for {lasted} and continued. {first.text}"


def _seconds(since: float, until: float) -> str:
    return f"{max(0.0, until - since):,.0f} s"


def _fault_beside_job(known: Situation, fault: Sequence[Fault]) -> str:
    """The broken part, then how the job went beside it."""
    return known.faults_shown[0].headline + _END_BESIDE_FAULT.get(known.outcome, "")


def _reports_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    """What was read where there are only reports of machines, and none shows a broken part."""
    if known.doubts:
        return f"{known.doubts[0].headline} This alone does not show a failure. Logs would show how the job went."
    return f"Only reports of machines were read: {_facts_text(known.facts)} Logs would show how the job went."


def _facts_text(facts: FactSummary) -> str:
    places = counted(facts.places, "place", "places")
    count = counted(facts.facts, "fact", "facts")
    read = f"{count} of {places}. None of them is known to be bad"
    return " ".join(filter(None, [f"{read}.", facts.differences]))


def _recovered_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    return f"An earlier launch failed; the last one completed.{_repeated_text(known.logs)}"


def _repeated_text(logs: LogDiagnosis) -> str:
    """How many iterations were run again; empty if none, or if the logs do not count them."""
    count = sum(itertools.starmap(repeated_iterations, pairwise(logs.attempts)))
    if not count:
        return ""
    return f" {iterations_text(count)} had to be run again."


def _later_launch(logs: LogDiagnosis) -> str:
    """What a launch after the failed one did."""
    later = [attempt for attempt in logs.attempts[-1:] if attempt.number > logs.attempt]
    if not later or later[0].outcome != "succeeded":
        return ""
    return f" A later launch completed.{_repeated_text(logs)}"


def _accused_nodes(fault: Sequence[Fault]) -> list[str]:
    """The accused nodes in words: the first one, and others that the same evidence accuses."""
    nodes = [f for f in fault if f.place.kind == "node"]
    return [place_text(f.place) for f in nodes if set(f.sources) & set(nodes[0].sources)]


def _slowdown_sentence(known: Situation, fault: Sequence[Fault]) -> str:
    worst, *others = known.slowdowns
    is_good_end = known.logs.outcome == "succeeded"
    begin = "The job completed, but " if is_good_end else "The job was slow: "
    lost = f", which cost {cost_text(worst)}" if worst.lost_s >= 1 else ""
    return f"{begin}{slowdown_text(worst)}{lost}.{_more_stretches(len(others))}"


def _more_stretches(count: int) -> str:
    if count == 0:
        return ""
    if count == 1:
        return " Another such stretch was seen."
    return f" {count} more such stretches were seen."


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
    """The first of the accused before the text, which does not name that one yet: lists cut the
    end of a sentence, and who comes first there too.
    """
    if not fault or contains_name(text, fault[0].place.name):
        return text
    lead = fault[0]
    least = min(lead.p - EPSILON, THRESHOLDS.stated)
    same = [f for f in fault if f.p >= least]
    names = [place_text(f.place) for f in same[:MAX_LISTED]]
    if lead.p >= THRESHOLDS.stated:
        names += ["others"] * (len(same) > MAX_LISTED)
        verb = "is" if len(same) == 1 else "are"
        return f"{' and '.join(names)} {verb} most probably at fault. {text}"
    shown = ", ".join(names)
    if len(same) == 1:
        return f"Perhaps {shown} is at fault. {text}"
    others = " and others" if len(same) > MAX_LISTED else ""
    return f"One of {len(same)} may be at fault ({shown}{others}). {text}"


def place_text(place: Place) -> str:
    """A place as a sentence calls it: ``node-3 (rank 5)``, ``rank 5``, ``switch leaf-2``."""
    rank = f" (rank {place.rank})" if place.kind != "rank" and place.rank is not None else ""
    return f"{KIND_WORDS[place.kind]}{place.name}{rank}"


def contains_name(text: str, name: str) -> bool:
    """Whether a name occurs in a text as a separate word."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


#: What the sentence tells, by situation and condition: the first row that holds.
_TABLE: Final[tuple[tuple[Callable[[Situation, str], bool], Callable[[Situation, Sequence[Fault]], str]], ...]] = (
    (lambda s, _: s.logs.is_failure, _failure_sentence),
    (lambda s, name: name == "failed" and bool(s.faults_shown), lambda s, _: s.faults_shown[0].headline),
    (lambda s, name: name == "hung" and s.shows_rank_behind, lambda s, _: s.faults_shown[0].headline),
    (lambda s, name: name == "hung" and bool(s.alarms), _alarm_sentence),
    (lambda s, name: name == "degraded" and bool(s.slowdowns), _slowdown_sentence),
    (lambda s, name: name == "degraded" and bool(s.alarms), _alarm_sentence),
    (lambda s, name: name == "degraded" and bool(s.faults_shown), _fault_beside_job),
    (lambda _, name: name == "recovered", _recovered_sentence),
    (lambda s, _: s.logs.has_evidence, _log_sentence),
    (lambda s, _: bool(s.stacks.reason), lambda s, _: s.stacks.reason),
    (lambda s, _: s.flows.has_evidence, lambda s, _: flow_sentence.headline(s.flows)),
    (lambda s, _: s.facts.facts > 0, _reports_sentence),
    (lambda s, _: True, lambda s, _: "Nothing to diagnose: no logs, flows or stacks could be read."),
)
