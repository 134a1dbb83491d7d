"""The sentences of the logs: observations, inferences, and missing evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import polars as pl

from diagnosis import quotes, thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.fallbacks import first_consequence
from diagnosis.kinds.logs.causes.phase import Moment
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.rows import messages
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.plain import times_as_long
from diagnosis.result import LogEvent

LIMITS: Final = thresholds.limits("sentences")

THRESHOLDS: Final = thresholds.of("sentences")


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
