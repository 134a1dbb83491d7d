"""Makes the answer from a case: category, place, moment, events, root lines, sentences."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from diagnosis import classify, quotes, stats, taxonomy, thresholds
from diagnosis.kinds.logs.causes import fallbacks, phase
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.phase import Moment
from diagnosis.kinds.logs.compare import iterations, mixed
from diagnosis.kinds.logs.compare.detectors.watchdogs import MISMATCH
from diagnosis.kinds.logs.decide import explain, locate, sentences, timeline
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.meaning import catalogue as catalogues
from diagnosis.kinds.logs.meaning import indicators, words
from diagnosis.kinds.logs.meaning.catalogue import EventRow, rows_of
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.pace import dating
from diagnosis.kinds.logs.read import physical, raw_lines
from diagnosis.kinds.logs.read.mask import VERSION as MASK_VERSION
from diagnosis.kinds.logs.rows import events as tables
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role
from diagnosis.result import Indicator, LineRef, LogDiagnosis, LogEvent, Verdict
from diagnosis.taxonomy import UNKNOWN

LIMITS: Final = thresholds.limits("verdict")

THRESHOLDS: Final = thresholds.of("verdict")

#: The number of the job that a scheduler's line is about.
_JOB: Final = words.regex("phrases", "job_number")

#: Categories that are replaced if ranks called different collectives.
REPLACED_BY_MISMATCH: Final = ("unknown", "framework.collective", "framework.collective.timeout")


def conclude(case: Case) -> LogDiagnosis:
    """The whole diagnosis of this attempt from its logs."""
    first = _classify(case, list(case.roots.members))
    # the echoes of an unknown cause must not decide the place
    is_known = not case.has_lead or bool(case.lead.signature)
    where = locate.locate(case, first.category.id if is_known else UNKNOWN)
    when = phase.find_moment(case, where.mechanism, first.category.id if is_known else "")
    if _is_without_failure(case.ending.outcome, when):
        return _healthy(case)
    roots = _root_events(case, when)
    classification = _classify(case, roots, is_hang=when.symptom == "hang")
    verdict = _verdict(case, roots, classification, where, when)
    roles = _event_roles(case, roots)
    accused = {node.node for node in where.nodes if node.is_suspect}
    listed = _events(case, roots, roles, accused)
    lead = [event for event in listed if event.role == Role.ROOT]
    lines = tuple(ref for event in lead for ref in event.lines)
    run = case.budgets.run
    no_odd: list[tuple[int, float]] = []
    odd = run("odd iterations", lambda: iterations.odd_iterations(case), no_odd)
    return LogDiagnosis(
        is_failure=True,
        outcome=case.ending.outcome,
        verdict=verdict,
        symptom=when.symptom,
        stage=when.stage,
        iteration=when.iteration,
        nodes=where.nodes,
        answer=where.answer,
        events=tuple(listed),
        lines=lines or _consequence_lines(case, listed),
        indicators=tuple(run("indicators", lambda: _indicators(case, lead), [])),
        fingerprint=fingerprint([event.template for event in lead], when.symptom, verdict.id),
        timeline=timeline.build_timeline(case, roles, [node.node for node in where.nodes], odd),
        progress_files=_progress_files(case),
        clocks=case.clocks.corrections,
        missing=(*mixed.mixed_jobs_sentences(case), *sentences.missing_evidence(case)),
        observed=(*sentences.observed_facts(case, when, where, lead), *sentences.odd_iterations(odd)),
        inferred=sentences.inferred_facts(case, when, lead),
        culprits=where.culprits,
        clues=run("reasons", lambda: explain.clues(case, roots, classification, where, verdict), ()),
    )


def _is_without_failure(outcome: str, when: Moment) -> bool:
    """Whether a job ended well or nothing is known of its end, and it neither hung nor became slow."""
    if outcome == "succeeded":
        return True
    has_ended_badly = outcome in ("failed", "cancelled")
    return not has_ended_badly and when.symptom not in ("slow", "hang")


def _progress_files(case: Case) -> frozenset[str]:
    return frozenset(case.table.files[file] for file in case.progress.beats["file"].unique())


def _healthy(case: Case) -> LogDiagnosis:
    none = taxonomy.load()["none"]
    sure = THRESHOLDS.succeeded if case.ending.outcome == "succeeded" else THRESHOLDS.no_failure
    survived = case.events.filter(pl.col("role") == Role.ROOT, ~pl.col("is_ordinary"))
    roles = dict.fromkeys(survived["event"].to_list(), Role.CONFIRMATION.value)
    return LogDiagnosis(
        is_failure=False,
        outcome=case.ending.outcome,
        verdict=Verdict(none.id, none.category, none.subcategory, sure),
        symptom="none",
        stage=None,
        iteration=case.progress.last,
        answer="no failure, so nobody is at fault",
        events=tuple(_events(case, [], roles, set())),
        timeline=timeline.build_timeline(case, roles, []),
        progress_files=_progress_files(case),
        clocks=case.clocks.corrections,
        missing=(*mixed.mixed_jobs_sentences(case), *sentences.missing_evidence(case)),
        observed=sentences.healthy_facts(case),
        slow_phase=case.pace.phase,
    )


def _root_events(case: Case, when: Moment) -> list[int]:
    """The root events to show, heaviest first. If no line names the cause, the messages of the end replace it: a kill,
    a limit, a cancel.
    """
    if case.roots.members:
        return _first_decision(case, list(case.roots.members))
    if when.symptom == "hang":
        return []  # whoever ended the job ended what had stopped long before
    ends = [case.ending.time_limit]
    if case.ending.outcome == "cancelled":
        ends.append(case.ending.cancelled)
    for masked in ends:
        wanted = pl.Series(list(masked), dtype=pl.UInt64).implode()
        events = case.catalogue.of.filter(pl.col("masked").is_in(wanted))["event"]
        if events.len():
            return _first_decision(case, events.unique().sort().to_list())
    return []


def _consequence_lines(case: Case, listed: Sequence[LogEvent]) -> tuple[LineRef, ...]:
    """The lines to read if none names a cause: those of the first consequence; with several nodes only the first
    line.
    """
    event = fallbacks.first_consequence(case)
    if event is None:
        return ()
    row = case.event(event)
    cascades = [one for one in listed if one.role == Role.CASCADE and one.template == row.template]
    lines = next((one.lines for one in cascades if one.signature == row.signature), ())
    if case.total <= 1:
        return lines
    ordered = sorted(lines, key=lambda ref: (ref.at is None, ref.at or 0.0, ref.file, ref.line))
    return tuple(ordered[:1])


def _first_decision(case: Case, roots: list[int]) -> list[int]:
    """Of a scheduler's decisions only the first: it implies the end of the steps of a cancelled job."""
    is_decision = pl.col("category").fill_null("").str.starts_with("platform.scheduler")
    decided = case.events.filter(pl.col("event").is_in(roots) & is_decision)
    is_later = pl.col("first_at") > pl.col("first_at").min() + int(THRESHOLDS.decision_s * SECOND)
    later = decided.filter(is_later)["event"].to_list()
    return [event for event in roots if event not in later]


def _classify(case: Case, roots: Sequence[int], *, is_hang: bool = False) -> classify.Classification:
    hints = [_hint(case, case.event(event), Role.ROOT, 1.0) for event in roots[:1]]
    for event in roots[1:]:
        # what joined the leader without a weight of its own only confirms it
        role = Role.ROOT if case.roots.weights.get(event) else Role.CONFIRMATION
        hints.append(_hint(case, case.event(event), role, THRESHOLDS.joined))
    stops_at = case.events.filter(pl.col("role") == Role.TEARDOWN)["first_at"].min() if is_hang else None
    bad = case.events.filter(catalogues.failure_events(case.events))
    others = bad.filter(
        pl.col("role").is_in([Role.CASCADE, Role.CONFIRMATION]),
        ~pl.col("event").is_in([*roots, *case.survived]),
    )
    if stops_at is not None:
        # what breaks while a job that hangs is stopped is a consequence
        others = others.filter(pl.col("first_at").fill_null(0) <= stops_at)
    if not roots:
        # without a root, a weak confirmation is no evidence
        is_weak = (pl.col("role") == Role.CONFIRMATION) & (pl.col("strength") == Strength.WEAK)
        others = others.filter(~is_weak.fill_null(False))
    hints += [classify.Hint(row.template, row.signature, Role(row.role or ""), row.novelty) for row in rows_of(others)]
    return classify.classify(hints, case.rules, case.model)


def _hint(case: Case, row: EventRow, role: Role, weight: float) -> classify.Hint:
    is_wide = row.n_nodes > stats.largest_minority(case.total)
    return classify.Hint(row.template, row.signature, role, weight, is_wide, _is_lone(case, row))


def _is_lone(case: Case, row: EventRow) -> bool:
    """Whether one machine of many prints an event, other than that of rank 0, which may be the only one to do so."""
    nodes = case.nodes_of([row.event])
    is_of_one = len(nodes) == 1 and case.total > 2
    return is_of_one and case.node_of(0) not in (None, *nodes)


def _verdict(case: Case, roots: Sequence[int], found: classify.Classification, where: Place, when: Moment) -> Verdict:
    """The category: that of the root events; if no rule knows one of them, that of structure alone."""
    # watchdogs print the same for every hang: what ranks called is better evidence
    is_mismatch = where.mechanism == MISMATCH and found.category.id in REPLACED_BY_MISMATCH
    is_known = any(case.event(event).signature for event in roots)
    if is_mismatch or not is_known:
        mechanism = where.mechanism or _category_of_end(case, when)
        if mechanism:
            return _verdict_of_structure(mechanism, found)
    leaf = found.category
    if when.symptom == "slow" and leaf.id == "framework.dataloader":
        leaf = taxonomy.load()["performance.dataloader"]  # it works, only too slowly
    runner = None
    if found.runner_up is not None:
        runner = (found.runner_up.id, found.runner_up_confidence)
    labels = tuple(category.id for category in found.also)
    return Verdict(leaf.id, leaf.category, leaf.subcategory, found.confidence, runner, labels)


def _category_of_end(case: Case, when: Moment) -> str:
    """The category of a job's end, if no line names its cause."""
    if when.symptom == "hang":
        return ""
    if case.ending.time_limit:
        return "platform.scheduler.time_limit"
    if when.symptom == "slow":
        return "performance.step"
    return "platform.scheduler.cancelled" if case.ending.outcome == "cancelled" else ""


def _verdict_of_structure(mechanism: str, found: classify.Classification) -> Verdict:
    """A category that silence and order show, with that of the messages as the other one."""
    leaf = taxonomy.load().get(mechanism)
    other = None
    if found.confidence > 0 and found.category.id != leaf.id:
        other = (found.category.id, min(found.confidence, THRESHOLDS.replaced))
    return Verdict(leaf.id, leaf.category, leaf.subcategory, THRESHOLDS.structure, other)


def _event_roles(case: Case, roots: Sequence[int]) -> dict[int, str]:
    """The role of every event of the failure; survived events may only be confirmations."""
    bad = case.events.filter(catalogues.failure_events(case.events))
    roles: dict[int, str] = {}
    for event, role in bad.select("event", "role").iter_rows():
        in_place = _ROLES_OF_SURVIVED if event in case.survived else _ROLES_OF_OTHERS
        roles[event] = in_place.get(role, in_place[None])
    roles |= dict.fromkeys(roots, Role.ROOT.value)
    return {event: role for event, role in roles.items() if role != Role.BENIGN}


#: The role of an event that is no root of the failure, by its role before; None: any other.
_ROLES_OF_SURVIVED: Final[dict[str | None, str]] = {Role.ROOT: Role.CONFIRMATION.value, None: Role.BENIGN.value}
_ROLES_OF_OTHERS: Final[dict[str | None, str]] = {
    Role.TEARDOWN: Role.TEARDOWN.value,
    Role.CONFIRMATION: Role.CONFIRMATION.value,
    Role.BENIGN: Role.BENIGN.value,
    None: Role.CASCADE.value,
}
_ORDER: Final[dict[str, int]] = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CASCADE: 2, Role.TEARDOWN: 3}


def _events(case: Case, roots: Sequence[int], roles: dict[int, str], accused: set[str]) -> list[LogEvent]:
    """The events to list: by role, the weightiest first; of one role by time."""
    rank = {event: place for place, event in enumerate(roots)}

    def place(row: EventRow) -> tuple[int, int]:
        return _ORDER.get(roles[row.event], len(_ORDER)), rank.get(row.event, 0)

    def by_weight(row: EventRow) -> tuple[int, int, float, int, int]:
        return *place(row), -row.novelty, -row.n, row.event

    def by_time(row: EventRow) -> tuple[int, int, float, int]:
        return *place(row), math.inf if row.first_at is None else row.first_at, row.first_line

    is_told = pl.col("event").is_in(sorted(roles))
    weightiest = sorted(rows_of(case.events.filter(is_told)), key=by_weight)[: LIMITS.events]
    rows = [row for row in sorted(weightiest, key=by_time) if row.event in rank or not _is_frame(row)]
    home = set(case.roots.nodes)
    if not home and not case.roots.is_wide:
        home = accused
    cells = dating.cells_with_times(case.catalogue, case.pace, roles)
    return _without_repeats([_event(case, row, roles[row.event], home, cells) for row in rows])


def _is_frame(row: EventRow) -> bool:
    return re.search(catalogues.STRUCTURE, row.template) is not None


def _without_repeats(events: list[LogEvent]) -> list[LogEvent]:
    """Joins events with the same message after another header or in another wrapper, with the sum of their counts;
    roots stay separate.
    """
    kept: dict[tuple[str, str], LogEvent] = {}
    for event in events:
        message = event.id
        if event.role != Role.ROOT:
            message = quotes.quote(event.example, event.template, LIMITS.message_chars)
        first = kept.get((event.role, message))
        joined = event if first is None else replace(first, count=first.count + event.count)
        kept[event.role, message] = joined
    return list(kept.values())


def _event(case: Case, row: EventRow, role: str, home: set[str], cells: pl.DataFrame) -> LogEvent:
    own = cells.filter(pl.col("event") == row.event)
    names = sorted(own["node"].drop_nulls().unique().to_list())
    first_at: int | None = own["stated_at"].min()  # type: ignore[assignment]
    lines = _root_lines(case, row, home, own) if role == Role.ROOT else _lines(case, row, own, LIMITS.other_lines)
    return LogEvent(
        id=tables.event_id(row.template, row.signature or ""),
        template=row.template,
        role=role,
        signature=row.signature or "",
        category=row.category or "",
        level=row.level,
        count=row.n,
        of_nodes=case.total,
        node_names=tuple(names[: LIMITS.node_names]),
        nodes=row.n_nodes,
        jobs_with_it=row.jobs_with_it,
        healthy_jobs=len(case.pool.jobs),
        first_at=_seconds(first_at),
        last_at=_seconds(_not_before(row.last_at, first_at)),
        is_stamped=bool(own["is_stamped"].any()),
        example=row.example[: LIMITS.example_chars],
        recovered=row.event in case.survived,
        score=case.roots.weights.get(row.event, 0.0),
        lines=_line_refs(case, lines),
    )


def _seconds(at: int | None) -> float | None:
    return None if at is None else at / SECOND


def _not_before(at: int | None, first_at: int | None) -> int | None:
    """A last time, which is not before the first one."""
    return None if at is None else max(at, first_at or at)


def _lines(case: Case, row: EventRow, own: pl.DataFrame, most: int, home: Collection[str] = ()) -> pl.DataFrame:
    """Some lines of an event, those of the nodes ``home`` if there are any, with the best guess of their times."""
    rows = case.placed(case.table.rows(case.catalogue.masked(row.event), limit=most))
    # the same words elsewhere are the echo of the fault, not the fault
    at_home = rows.filter(pl.col("node").is_null() | pl.col("node").is_in(sorted(home))) if home else rows
    dated = case.clocks.correct(rows if at_home.is_empty() else at_home, "at")
    undated = own.filter(~pl.col("is_stamped")).select("file", "source", "masked", "stated_at")
    guessed = dated.join(undated, on=["file", "source", "masked"], how="left", maintain_order="left")
    return guessed.with_columns(at=pl.max_horizontal("at", "stated_at"))


def _root_lines(case: Case, row: EventRow, home: Collection[str], own: pl.DataFrame) -> pl.DataFrame:
    """The lines of a root event. A scheduler's decision that is repeated for every step counts once."""
    lines = _lines(case, row, own, LIMITS.root_lines, home)
    if not (row.category or "").startswith("platform.scheduler"):
        return lines
    of_job = _of_last_job(case, lines)
    is_first = pl.col("at") <= pl.col("at").min() + int(THRESHOLDS.decision_s * SECOND)
    return of_job.filter(is_first.fill_null(True))


def _line_refs(case: Case, rows: pl.DataFrame) -> tuple[LineRef, ...]:
    """The rows as people find them: by file and physical line."""
    refs: list[LineRef] = []
    for (file,), own in rows.group_by("file", maintain_order=True):
        numbers = physical.numbers(case.table.lines[file].file, own["line"].to_list(), own["offset"].to_list())
        writers = own.select("offset", "length", "node", "rank", "at").iter_rows()
        for line, (offset, length, node, rank, at) in zip(numbers, writers, strict=True):
            refs.append(LineRef(case.table.files[file], line, offset, length, node, rank, _seconds(at)))
    return tuple(refs)


def _of_last_job(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Of a scheduler's decisions on several jobs that wrote one file, those on the last one."""
    if rows["file"].n_unique() != 1:
        return rows
    texts = raw_lines.read_lines(rows, case.table.files, case.read)
    found = [_JOB.search(text) for text in texts]
    jobs = [match[1] if match else "" for match in found]
    return rows.filter(pl.Series(jobs) == jobs[-1])


def _indicators(case: Case, lead: Sequence[LogEvent]) -> list[Indicator]:
    firsts = [(event, event.lines[0]) for event in lead[: LIMITS.indicators] if event.lines]
    return [_indicator(case, event, line) for event, line in firsts]


def _indicator(case: Case, event: LogEvent, line: LineRef) -> Indicator:
    """The words of one line that state the fault, and what it names; its writer, where it names no other."""
    place = {"file": [case.table.files.index(line.file)], "offset": [line.offset], "length": [line.length]}
    (text,) = raw_lines.read_lines(pl.DataFrame(place), case.table.files, case.read)
    found = indicators.extract(text, event.signature or None, case.rules)
    writer = {"node": line.node or "", "rank": "" if line.rank is None else str(line.rank)}
    known = {name: value for name, value in writer.items() if value}
    spans = tuple((span.start, span.end, span.kind) for span in found.spans)
    parameters = found.parameters | {name: value for name, value in known.items() if name not in found.parameters}
    return Indicator(quotes.plain(found.text), line.file, line.line, parameters, spans)


def fingerprint(templates: Sequence[str], symptom: str, mechanism: str) -> str:
    """Links incidents of one cause: a hash over root templates, or over symptom and mechanism; never category, node,
    rank or time."""
    content = "\n".join([f"mask {MASK_VERSION}", *(sorted(set(templates)) or [symptom, mechanism])])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
