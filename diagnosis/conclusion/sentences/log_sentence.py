"""The part of the sentence that the logs give: what failed, where, when, in which words, and what
followed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from diagnosis import taxonomy, thresholds
from diagnosis.conclusion.model import STATED_ENDS
from diagnosis.facts.measure_tables import in_words
from diagnosis.model import Role
from diagnosis.records.result import LineRef, LogDiagnosis, LogEvent
from diagnosis.taxonomy import UNKNOWN
from diagnosis.values import quotes
from diagnosis.values.plain import times_as_long

LIMITS: Final = thresholds.limits("sentences")
THRESHOLDS: Final = thresholds.of("sentences")

_STAGE: Final = {
    "launch": "while launching",
    "rendezvous": "while the ranks were meeting",
    "model_build": "while building the model",
    "checkpoint_load": "while loading a checkpoint",
    "training": "in training",
    "evaluation": "in evaluation",
    "checkpoint_save": "while saving a checkpoint",
    "shutdown": "while shutting down",
}
#: What became of the job, by its symptom.
_END_OF_SYMPTOM: Final = {
    "hang": "the job hung",
    "slow": "the job became slow",
    "launch_failure": "the job did not start",
}
#: What comes before the headline, by the outcome that people state and whether the logs show a failure.
_CONTRADICTED: Final = {
    ("succeeded", True): "Reported as succeeded, but the logs show a failure: ",
    ("failed", False): "Reported as failed, but the logs show no failure: ",
    ("cancelled", False): "Reported as cancelled, but the logs show no failure: ",
}
_NO_EVENT: Final = LogEvent(id="", template="", role="")
_ENDING_ROLES: Final = (Role.TEARDOWN, Role.CASCADE)


def headline(logs: LogDiagnosis, accused: Sequence[str] = (), stacks: str = "", stated: str = "") -> str:
    """One sentence as an engineer would write it.

    ``accused``: the nodes that all evidence together accuses. ``stacks``: the finding of the
    stacks, which comes first if no line of the logs names a cause. ``stated``: the outcome as
    people state it.
    """
    if not logs.is_failure:
        return _without_failure(logs, stated)
    end = _END_OF_SYMPTOM.get(logs.symptom, "")
    roots = logs.roots
    if not roots and stacks:
        return f"{stacks.rstrip('.')}: {end or 'the job failed'}{_location(logs)}."
    where = f"{_who(logs, accused, roots)}{_location(logs)}"
    is_unexplained_hang = logs.symptom == "hang" and logs.verdict.id == UNKNOWN
    if not roots and is_unexplained_hang:
        return f"The job hung{where}, cause unknown{_silence(logs)}."
    first = f"{_cause(logs)}{where}"
    if end:
        first += f"; {end}"
    after = _aftermath(logs, accused, roots)
    return f"{first}{_root_clause(logs, roots, first)}.{after}{_earlier_progress(logs)}"


def _earlier_progress(logs: LogDiagnosis) -> str:
    """The progress before a launch that failed without any: an earlier launch made it."""
    reached = max((number for _, number in logs.timeline.dated_iterations), default=None)
    if logs.stage != "launch" or logs.iteration is not None or reached is None:
        return ""
    return f" An earlier launch reached iteration {reached:,}."


def _cause(logs: LogDiagnosis) -> str:
    if logs.verdict.id == UNKNOWN:
        return "Unknown cause"
    title = taxonomy.load().get(logs.verdict.id).title
    return title[:1].upper() + title[1:]


def _without_failure(logs: LogDiagnosis, stated: str) -> str:
    """How a job without a failure goes or went."""
    if logs.outcome == "running":
        return _of_running_logs(_at(logs.iteration), stated)
    if logs.outcome != "succeeded":
        return "Not enough evidence: no failure was seen, and nothing shows how the job went or ended."
    if logs.slow_phase is None:
        return "The job completed; no failure found."
    first, last, factor = logs.slow_phase
    took = f"took {times_as_long(factor)} as usual"
    return f"The job completed, but steps {first:,} to {last:,} {took}."


def _of_running_logs(at: str, stated: str) -> str:
    """What logs that run to their last line show of a job that people may say has ended."""
    if stated in STATED_ENDS:
        return f"No failure found: the job works up to the last line{at}, which does not show its end."
    return f"The job is running{at}; no failure so far."


def _who(logs: LogDiagnosis, accused: Sequence[str], roots: Sequence[LogEvent]) -> str:
    """The accused nodes, else the switch above the suspects, else on how many nodes it was seen."""
    if accused:
        return f" on {_some_names(accused)}"
    switch = next((culprit.entity for culprit in logs.culprits if culprit.kind == "switch"), None)
    return f" below {switch}" if switch else _spread(roots)


def with_stated_outcome(stated: str, logs: LogDiagnosis, headline: str) -> str:
    """The ``headline`` after the outcome that people ``stated``, if the logs show another one."""
    if not logs.has_evidence or logs.outcome in (stated, "running"):
        return headline
    return _CONTRADICTED.get((stated, logs.is_failure), "") + headline


def _root_clause(logs: LogDiagnosis, roots: Sequence[LogEvent], sentence: str) -> str:
    """The informative clause of the first root line; nothing if it repeats the ``sentence``."""
    event = next(iter(roots or _events_of_first_line(logs)), None)
    if event is None:
        return ""
    fault = quotes.quote(event.example, event.template)
    if roots and logs.indicators:
        fault = logs.indicators[0].text
    clause = quotes.clause(quotes.quote(event.example, event.template, LIMITS.clause_from), fault)
    if clause.lower() in sentence.lower():
        return ""
    return f": “{clause}”"


def _events_of_first_line(logs: LogDiagnosis) -> list[LogEvent]:
    """The events with the line to read first."""
    first = set(logs.lines[:1])
    return [event for event in logs.events if first.intersection(event.lines)]


def _location(logs: LogDiagnosis) -> str:
    return f" {_STAGE.get(logs.stage or '', '')}".rstrip() + _at(logs.iteration)


def _silence(logs: LogDiagnosis) -> str:
    """For an unexplained hang: the last progress, and how long until something ended."""
    dated = logs.timeline.dated_iterations
    if not dated:
        return ""
    last_at, number = max(dated)
    at = datetime.fromtimestamp(last_at, UTC)
    said = f": no progress since iteration {number:,} at {at:%H:%M:%S} UTC"
    ended_at = _first_end_after(last_at, logs.events)
    if ended_at is None:
        return said
    return f"{said}; the end came{_delay(ended_at - last_at)}"


def _first_end_after(at: float, events: Sequence[LogEvent]) -> float | None:
    """The time of the first end or consequence later than this."""
    ends = [event.first_at for event in events if event.role in _ENDING_ROLES]
    later = [end for end in ends if end is not None and end > at]
    return min(later, default=None)


def _aftermath(logs: LogDiagnosis, accused: Sequence[str], roots: Sequence[LogEvent]) -> str:
    """How many nodes followed, other than those of the cause or else the accused, and when."""
    starts = [root.first_at for root in roots if root.first_at is not None]
    consequences = [event for event in logs.events if event.role == Role.CASCADE]
    widest = max(consequences, key=lambda event: (event.nodes, event.count), default=None)
    if not starts or widest is None:
        return ""
    of_cause = set(itertools.chain.from_iterable(root.node_names for root in roots))
    root_nodes = of_cause or set(accused)
    # Only some node names are listed; the number of others cannot exceed that of the job.
    followers = widest.nodes - len(root_nodes.intersection(widest.node_names))
    others = min(followers, widest.of_nodes - len(root_nodes))
    if others < 2 or widest.first_at is None:
        return ""
    return f" {others:,} other nodes followed{_delay(widest.first_at - min(starts))}."


def _delay(seconds: float) -> str:
    if seconds < 1:
        return " at once"
    if seconds < LIMITS.in_seconds_s:
        return f" {seconds:.0f} s later"
    if seconds < LIMITS.in_minutes_s:
        return f" {seconds / 60:.0f} minutes later"
    return f" {seconds / 3600:.1f} hours later"


def _at(iteration: int | None) -> str:
    return f" at iteration {iteration:,}" if iteration is not None else ""


def _some_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - LIMITS.shown} more nodes" if len(names) > LIMITS.shown else ""
    return ", ".join(names[: LIMITS.shown]) + more


def _spread(roots: Sequence[LogEvent]) -> str:
    """On how many nodes the quoted line was seen, and who printed it first, if one node clearly did."""
    quoted = next(iter(roots), _NO_EVENT)
    if quoted.nodes < 2:
        return ""
    seen = f" on {quoted.nodes:,} of {quoted.of_nodes:,} nodes"
    lead = lead_of(quoted.writers)
    return f"{seen}, first on {quoted.writers[0].node} by {in_words(lead, 's')}" if lead else seen


def lead_of(writers: Sequence[LineRef]) -> float | None:
    """Seconds by which the first writer was earlier than the second; None if clocks cannot tell."""
    times = list(filter(None, [writer.at for writer in writers]))
    is_coarse = all(map(float.is_integer, times))
    lead_s = sum(times[1:2]) - sum(times[:1])
    return lead_s if lead_s > max(float(is_coarse), THRESHOLDS.lead_s) else None
