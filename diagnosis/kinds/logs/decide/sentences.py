"""The sentences of the report: the headline, observations, inferences, and missing evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import polars as pl

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.fallbacks import first_consequence
from diagnosis.kinds.logs.causes.phase import Moment
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.meaning import quotes
from diagnosis.kinds.logs.rows import messages
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role
from diagnosis.plain import times_as_long
from diagnosis.result import LogDiagnosis, LogEvent

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


#: what people say of a job that has ended
STATED_ENDS: Final = ("succeeded", "failed", "cancelled")


def headline(logs: LogDiagnosis, accused: Sequence[str] = (), stacks: str = "", stated: str = "") -> str:
    """One sentence as an engineer would write it.

    ``accused``: the nodes that all evidence together accuses. ``stacks``: the finding of the stacks, which comes first
    if no line of the logs names a cause. ``stated``: the outcome as people state it.
    """
    if logs.outcome == "running" and not logs.is_failure and stated in STATED_ENDS:
        return f"No failure found: the job works up to the last line{_at(logs.iteration)}, which does not show its end."
    if not logs.is_failure:
        return {
            "succeeded": f"The job completed, but {slow_phase(logs)}."
            if logs.slow_phase
            else "The job completed; no failure found.",
            "running": f"The job is running{_at(logs.iteration)}; no failure so far.",
        }.get(logs.outcome, "Not enough evidence: no failure was seen, and nothing shows how the job went or ended.")
    switch = next((c.entity for c in logs.culprits if c.kind == "switch"), None)
    title = taxonomy.load().get(logs.verdict.id).title
    cause = title[:1].upper() + title[1:] if logs.verdict.id != "unknown" else "Unknown cause"
    roots = [e for e in logs.events if e.role == Role.ROOT]
    if stacks and not roots:
        end = {"hang": "the job hung", "slow": "the job became slow", "launch_failure": "the job did not start"}
        return f"{stacks.rstrip('.')}: {end.get(logs.symptom, 'the job failed')}{_location(logs)}."
    who = f" on {_some_names(accused)}" if accused else f" below {switch}" if switch else _spread(roots)
    when = _location(logs)
    if logs.symptom == "hang" and logs.verdict.id == "unknown" and not roots:
        return f"The job hung{who}{when}, cause unknown{_silence(logs)}."
    what = {"hang": "the job hung", "slow": "the job became slow", "launch_failure": "the job did not start"}.get(
        logs.symptom, ""
    )
    first = f"{cause}{who}{when}" + (f"; {what}" if what else "")
    return f"{first}{_root_clause(logs, roots, first)}.{_aftermath(logs, roots)}"


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


def observed_facts(case: Case, when: Moment, where: Place, roots: Sequence[LogEvent]) -> tuple[str, ...]:
    """Only facts that are in the evidence."""
    out = [_root_sentence(case, same) for same in _by_rule(roots)[:4]]
    if case.progress.last is not None:
        out.append(f"The last {case.progress.kind} that the logs show is {case.progress.last:,}.")
    if when.silence_s is not None and when.silence_s > 1:
        usual = f"; progress lines come every {case.pace.usual_s:.1f} s" if case.pace.usual_s else ""
        out.append(f"From the last progress to the first sign of the end passed {when.silence_s:,.0f} s{usual}.")
    out.extend(_early_silent_ranks(case, when))
    if case.pace.slow_from is not None:
        out.append(
            f"From iteration {case.pace.slow_from:,} on an iteration takes {times_as_long(case.pace.ratio)} as before."
        )
    for node in [n for n in where.nodes if n.is_suspect][:3]:
        out.extend(node.reasons[:2])
    return tuple(dict.fromkeys(out))


def _by_rule(roots: Sequence[LogEvent]) -> list[list[LogEvent]]:
    """Root events in groups: those that one rule knows say the same in several wordings."""
    groups: dict[str, list[LogEvent]] = {}
    for event in roots:
        groups.setdefault(event.signature or f"event {event.id}", []).append(event)
    return list(groups.values())


def _root_sentence(case: Case, same: Sequence[LogEvent]) -> str:
    """Root events of one meaning as one clause: how many lines, on how many nodes, where the first is."""
    lead = same[0]
    count, names = sum(event.count for event in same), {name for event in same for name in event.node_names}
    nodes = max(len(names), *(event.nodes for event in same))
    lines = [event.lines[0] for event in same if event.lines]
    first = min(lines, key=lambda line: math.inf if line.at is None else line.at, default=None)
    at = f", first at {first.file}:{first.line}" if first is not None else ""
    spread = f"on {nodes} of {lead.of_nodes} nodes" if nodes else "in logs that name no node"
    meaning = case.meaning(lead.signature, lead.example, lead.template)
    wordings = f" in {len(same)} wordings" if len(same) > 1 else ""
    return f"{f'{meaning}: ' if meaning else ''}{count:,} {'line' if count == 1 else 'lines'}{wordings} {spread}{at}"


def _early_silent_ranks(case: Case, when: Moment) -> tuple[str, ...]:
    """The few ranks of a hang whose last line came well before the last lines of the others."""
    if when.symptom != "hang" or when.ended_at is None:
        return ()
    own = case.catalogue.cells.filter(pl.col("last_at") < when.ended_at).drop_nulls("rank")
    last = own.group_by("rank").agg(at=pl.col("last_at").max()).sort("at", "rank")
    if last.height < THRESHOLDS.ranks_least:
        return ()
    usual = int(last["at"].median())  # type: ignore[arg-type]
    least = max(THRESHOLDS.silent_least_s, THRESHOLDS.silent_beats * (case.pace.usual_s or 0.0)) * SECOND
    first = last.filter(pl.col("at") < usual - least)
    if not 0 < first.height <= last.height * THRESHOLDS.first_ranks:
        return ()
    named = ", ".join(str(rank) for rank in first["rank"].sort().head(LIMITS.ranks)) + (
        " …" if first.height > LIMITS.ranks else ""
    )
    lead = (usual - int(first["at"].max())) / SECOND  # type: ignore[arg-type]
    ranks = f"Rank {named}" if first.height == 1 else f"Ranks {named}"
    return (f"{ranks} fell silent first, {lead:,.0f} s before most others wrote their last line.",)


def odd_iterations(iterations: Sequence[tuple[int, float]]) -> tuple[str, ...]:
    """The few iterations that differ most from those before them."""
    if not iterations:
        return ()
    iterations = _aperiodic(iterations)
    if not iterations:
        return ()
    worst = sorted(sorted(iterations, key=lambda row: (-row[1], row[0]))[:5])
    shown = ", ".join(f"{n:,}" for n, _ in worst)
    return (f"Iterations whose lines differ from those of the ten before: {shown}.",)


def _aperiodic(iterations: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Without those that recur at one distance, as evaluations and checkpoints do."""
    numbers = {n for n, _ in iterations}
    steps = {b - a for a in numbers for b in numbers if b - a > 1} if len(numbers) <= LIMITS.rhythm_most else set()
    rhythm: set[int] = set()
    for step in sorted(steps):
        beside = {n for n in numbers if n - step in numbers or n + step in numbers}
        residue_class = max(
            ({n for n in beside if n % step == k} for k in {n % step for n in beside}), key=len, default=set()
        )
        if len(residue_class) > max(len(rhythm), THRESHOLDS.periods):
            rhythm = residue_class
    return [(n, score) for n, score in iterations if n not in rhythm]


def slow_phase(logs: LogDiagnosis) -> str:
    """The clause about iterations that took longer for some time; empty if there are none."""
    if logs.slow_phase is None:
        return ""
    first, last, ratio = logs.slow_phase
    return f"steps {first:,} to {last:,} took {times_as_long(ratio)} as usual"


def inferred_facts(case: Case, when: Moment, roots: Sequence[LogEvent]) -> tuple[str, ...]:
    """What the logs alone imply, each with its basis; cause and culprits are the conclusion's."""
    out = []
    if when.symptom == "hang":
        out.append("It is a hang: progress stopped long before anything ended, and no process had died by then.")
    if not roots:
        event = first_consequence(case)
        row = None if event is None else case.events.filter(pl.col("event") == event).row(0, named=True)
        rests = "their answer rests on silence, order and agreement between nodes"
        if row is not None:
            clause = quotes.informative_clause(quotes.quote(row["example"], row["template"], LIMITS.clause_from))
            rests = "they only show consequences" + (f", first “{clause}”" if clause else "")
        out.append(f"No line of the logs names a cause; {rests}.")
    if case.pool.jobs:
        scope = {"family": "the same family", "framework": "the same framework", "all": "all families"}[case.pool.scope]
        out.append(f"Messages that healthy jobs print too were left out ({len(case.pool.jobs)} jobs of {scope}).")
    if older := case.pool.left_out:
        out.append(
            f"{older} healthy job{'' if older == 1 else 's'} print{'s' if older == 1 else ''} other messages, as "
            "before an upgrade or a change of the log format, and did not count."
        )
    return tuple(out)


def healthy_facts(case: Case) -> tuple[str, ...]:
    """The sentences about a job without failure. Slow steps that passed are the conclusion's: flows may show them too,
    with their own numbers.
    """
    out = [f"Outcome: {case.ending.outcome}, because {case.ending.reason}."]
    if case.progress.last is not None:
        out.append(f"The last {case.progress.kind} that the logs show is {case.progress.last:,}.")
    if case.pace.slow_from is not None:
        out.append(
            f"From iteration {case.pace.slow_from:,} on an iteration takes {times_as_long(case.pace.ratio)} as before."
        )
    return tuple(out)


def missing_evidence(case: Case) -> tuple[str, ...]:
    """Evidence that would have made the answer surer."""
    out = []
    nodes = case.catalogue.nodes
    expected = case.inventory.nodes or case.hints.nodes
    absent = sorted(set(expected) - set(nodes)) if expected else []
    if absent and nodes:
        shown = ", ".join(absent[: LIMITS.nodes]) + (" …" if len(absent) > LIMITS.nodes else "")
        out.append(
            f"No logs of {len(absent)} of {len(expected)} nodes: {shown}. Upload them, or take their absence as a clue."
        )
    if not case.pool.jobs:
        out.append(
            "No healthy job to compare with, so ordinary messages were not left out. Upload or learn healthy "
            "runs of this family."
        )
    elif case.pool.scope != "family":
        out.append(
            f"Too few healthy jobs of this family; compared with {len(case.pool.jobs)} of "
            f"{'the same framework' if case.pool.scope == 'framework' else 'all families'}."
        )
    if len(nodes) == 1 and (case.inventory.world_size or 0) > LIMITS.ranks_of_node:
        out.append("Logs of one node only: nodes cannot be compared. Upload the logs of the other nodes.")
    if not nodes:
        out.append(
            "The logs do not say which node wrote them: nodes cannot be compared. Give an inventory or one file a node."
        )
    if case.table.spans["first_at"].drop_nulls().is_empty():
        out.append("No line has a time stamp: order was taken from line numbers, and durations are unknown.")
    if case.progress.beats.is_empty():
        out.append(
            "No progress lines (iteration, step, epoch) were found: hangs and slowdowns cannot be seen in the logs."
        )
    has_kernel = case.table.messages["example"].str.contains(r"\bkernel: |\bdmesg: |^\[[A-Z ][^\]]{10,26}\] \w").any()
    out += [
        f"{case.table.files[file]} holds several launches one after another: only the last one, from line {line:,} on, "
        "was diagnosed."
        for file, line in sorted(case.table.begun.items())
    ][: LIMITS.launches]
    if case.table.is_cut:
        out.append(
            "The logs hold more different messages than can be compared: of those without a code, a warning or an "
            f"error the {messages.MAX_MESSAGES:,} with most lines were, and as many of the others. Leave out the files "
            "that are no logs."
        )
    if not has_kernel and len(nodes) > 1:
        out.append("No kernel logs: faults of GPUs, links and memory that processes do not report stay unseen.")
    return tuple(out)


def _at(iteration: int | None) -> str:
    return f" at iteration {iteration:,}" if iteration is not None else ""


def _some_names(names: Sequence[str]) -> str:
    return ", ".join(names[: LIMITS.shown]) + (
        f" and {len(names) - LIMITS.shown} more nodes" if len(names) > LIMITS.shown else ""
    )


def _spread(roots: Sequence[LogEvent]) -> str:
    seen = max((e.nodes for e in roots), default=0)
    return f" on {seen} of {roots[0].of_nodes} nodes alike" if seen > 1 and roots else ""
