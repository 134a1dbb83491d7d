"""The part of the sentence that the logs give: what failed, where, when, in which words, and what followed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from diagnosis import quotes, taxonomy, thresholds
from diagnosis.model import Role
from diagnosis.plain import times_as_long
from diagnosis.result import LogDiagnosis, LogEvent
from diagnosis.taxonomy import UNKNOWN

LIMITS: Final = thresholds.limits("sentences")

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
#: what people say of a job that has ended
STATED_ENDS: Final = ("succeeded", "failed", "cancelled")


def headline(logs: LogDiagnosis, accused: Sequence[str] = (), stacks: str = "", stated: str = "") -> str:
    """One sentence as an engineer would write it.

    ``accused``: the nodes that all evidence together accuses. ``stacks``: the finding of the stacks, which comes first
    if no line of the logs names a cause. ``stated``: the outcome as people state it.
    """
    if not logs.is_failure:
        return _without_failure(logs, stated)
    roots = [event for event in logs.events if event.role == Role.ROOT]
    if stacks and not roots:
        return f"{stacks.rstrip('.')}: {_END_OF_SYMPTOM.get(logs.symptom, 'the job failed')}{_location(logs)}."
    who = _who(logs, accused, roots)
    when = _location(logs)
    is_unknown = logs.verdict.id == UNKNOWN
    if logs.symptom == "hang" and is_unknown and not roots:
        return f"The job hung{who}{when}, cause unknown{_silence(logs)}."
    title = taxonomy.load().get(logs.verdict.id).title
    cause = "Unknown cause" if is_unknown else title[:1].upper() + title[1:]
    end = _END_OF_SYMPTOM.get(logs.symptom, "")
    first = f"{cause}{who}{when}" + (f"; {end}" if end else "")
    return f"{first}{_root_clause(logs, roots, first)}.{_aftermath(logs, roots)}"


def _without_failure(logs: LogDiagnosis, stated: str) -> str:
    """How a job without a failure goes or went."""
    at = _at(logs.iteration)
    if logs.outcome == "running" and stated in STATED_ENDS:
        return f"No failure found: the job works up to the last line{at}, which does not show its end."
    if logs.outcome == "running":
        return f"The job is running{at}; no failure so far."
    if logs.outcome == "succeeded" and logs.slow_phase:
        return f"The job completed, but {slow_phase(logs)}."
    if logs.outcome == "succeeded":
        return "The job completed; no failure found."
    return "Not enough evidence: no failure was seen, and nothing shows how the job went or ended."


def _who(logs: LogDiagnosis, accused: Sequence[str], roots: Sequence[LogEvent]) -> str:
    """The accused nodes, else the switch above the suspects, else on how many nodes the cause was seen."""
    if accused:
        return f" on {_some_names(accused)}"
    switch = next((culprit.entity for culprit in logs.culprits if culprit.kind == "switch"), None)
    return f" below {switch}" if switch else _spread(roots)


def with_stated_outcome(stated: str, logs: LogDiagnosis | None, headline: str) -> str:
    """The ``headline`` after the outcome that people ``stated``, if the logs show another one."""
    if logs is None or stated in ("", logs.outcome) or "running" in (stated, logs.outcome):
        return headline
    if stated == "succeeded" and logs.is_failure:
        return f"Reported as succeeded, but the logs show a failure: {headline}"
    if stated in ("failed", "cancelled") and not logs.is_failure:
        return f"Reported as {stated}, but the logs show no failure: {headline}"
    return headline


def _root_clause(logs: LogDiagnosis, roots: Sequence[LogEvent], sentence: str) -> str:
    """The informative clause of the first root line, or of its fallback; nothing if it only repeats what was
    ``said``.
    """
    first = logs.lines[:1]
    stand_in = next((e for e in logs.events if first and first[0] in e.lines), None)
    event = roots[0] if roots else stand_in
    if event is None:
        return ""
    fault = logs.indicators[0].text if logs.indicators and roots else quotes.quote(event.example, event.template)
    clause = quotes.clause(quotes.quote(event.example, event.template, LIMITS.clause_from), fault)
    return f": “{clause}”" if clause and clause.lower() not in sentence.lower() else ""


def _location(logs: LogDiagnosis) -> str:
    return f" {_STAGE.get(logs.stage or '', '')}".rstrip() + _at(logs.iteration)


def _silence(logs: LogDiagnosis) -> str:
    """For an unexplained hang: the time of the last progress, and the duration until something ended."""
    beats = [beat for beat in logs.timeline.get("iterations") or () if beat["t"] is not None]
    if not beats:
        return ""
    last = max(beats, key=lambda beat: (beat["t"], beat["n"]))
    at = datetime.fromtimestamp(last["t"], UTC)
    ends = [e.first_at for e in logs.events if e.role in (Role.TEARDOWN.value, Role.CASCADE.value)]
    after = [t for t in ends if t is not None and t > last["t"]]
    until = f"; the end came{_delay(min(after) - last['t'])}" if after else ""
    return f": no progress since iteration {last['n']:,} at {at:%H:%M:%S} UTC{until}"


def _aftermath(logs: LogDiagnosis, roots: Sequence[LogEvent]) -> str:
    cascades = [e for e in logs.events if e.role == Role.CASCADE and e.nodes]
    starts = [e.first_at for e in roots if e.first_at is not None]
    if not cascades or not starts:
        return ""
    widest = max(cascades, key=lambda e: (e.nodes, e.count))
    home = set().union(*(set(e.node_names) for e in roots)) if roots else set()
    # Only some node names are listed; the number of others cannot exceed that of the job.
    others = min(widest.nodes - len(home & set(widest.node_names)), widest.of_nodes - len(home))
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


def slow_phase(logs: LogDiagnosis) -> str:
    """The clause about iterations that took longer for some time; empty if there are none."""
    if logs.slow_phase is None:
        return ""
    first, last, ratio = logs.slow_phase
    return f"steps {first:,} to {last:,} took {times_as_long(ratio)} as usual"


def _at(iteration: int | None) -> str:
    return f" at iteration {iteration:,}" if iteration is not None else ""


def _some_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - LIMITS.shown} more nodes" if len(names) > LIMITS.shown else ""
    return ", ".join(names[: LIMITS.shown]) + more


def _spread(roots: Sequence[LogEvent]) -> str:
    seen = max((e.nodes for e in roots), default=0)
    return f" on {seen} of {roots[0].of_nodes} nodes alike" if seen > 1 and roots else ""
