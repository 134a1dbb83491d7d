"""Makes the answer from a case: category, place, moment, events, root lines, sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Final

import polars as pl
from msgspec.structs import replace

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes import phase, survived
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.phase import Moment
from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.classifying import classify
from diagnosis.kinds.logs.compare import iterations, mixed
from diagnosis.kinds.logs.compare.detectors.watchdogs import MISMATCH
from diagnosis.kinds.logs.decide import explain, listed_events, locate, sentences, timeline, verdict_probability
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.meaning import indicators
from diagnosis.kinds.logs.meaning.catalogue import EventRow, rows_of
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.kinds.logs.text.mask import VERSION as MASK_VERSION
from diagnosis.model import Role
from diagnosis.records.result import Indicator, LineRef, LogDiagnosis, LogEvent, Verdict
from diagnosis.taxonomy import UNKNOWN
from diagnosis.values import quotes, stats

LIMITS: Final = thresholds.limits("verdict")

THRESHOLDS: Final = thresholds.of("verdict")

#: Categories that are replaced if ranks called different collectives.
REPLACED_BY_MISMATCH: Final = ("unknown", "framework.collective", "framework.collective.timeout")


def conclude(case: Case) -> LogDiagnosis:
    """The whole diagnosis of this attempt from its logs. O(events + occurrences) a step."""
    first = _classify(case, list(case.roots.members))
    # the echoes of an unknown cause must not decide the place
    is_known = not case.has_lead or bool(case.lead.signature)
    where = locate.locate(case, first.category.id if is_known else UNKNOWN)
    when = phase.find_moment(case, where.mechanism, first.category.id if is_known else "")
    if _is_without_failure(case.ending.outcome, when):
        return _healthy(case)
    roots = _root_events(case, when)
    classification = _classify(case, roots, is_hang=when.symptom == "hang")
    verdict = _with_probability(case, _verdict(case, roots, classification, where, when))
    roles = listed_events.event_roles(case, roots)
    accused = {node.node for node in where.nodes if node.is_suspect}
    listed = listed_events.list_events(case, roots, roles, accused)
    lead = [event for event in listed if event.role == Role.ROOT]
    lines = tuple(chain.from_iterable(event.lines for event in lead))
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
        help=sentences.help_of(case, lead, verdict.id),
        culprits=where.culprits,
        clues=run("reasons", lambda: explain.clues(case, roots, classification, where, verdict), ()),
    )


def _is_without_failure(outcome: str, when: Moment) -> bool:
    """Whether a job ended well, or nobody knows how, and neither hung nor became slow."""
    if outcome == "succeeded":
        return True
    has_ended_badly = outcome in ("failed", "cancelled")
    return not has_ended_badly and when.symptom not in ("slow", "hang")


def _progress_files(case: Case) -> frozenset[str]:
    return frozenset(case.table.files[file] for file in case.progress.points["file"].unique())


def _healthy(case: Case) -> LogDiagnosis:
    none = taxonomy.load()["none"]
    sure = verdict_probability.probability("no_failure", verdict_probability.of_no_failure(case))
    if case.ending.outcome == "unknown":
        sure = min(sure, THRESHOLDS.no_end)
    causes = case.events.filter(pl.col("role") == Role.ROOT, ~pl.col("is_ordinary"))
    told = set(causes["event"]) - survived.lines_of_progress(case)
    roles = dict.fromkeys(sorted(told), Role.CONFIRMATION.value)
    return LogDiagnosis(
        is_failure=False,
        outcome=case.ending.outcome,
        verdict=Verdict(none.id, none.category, none.subcategory, sure),
        symptom="none",
        stage=None,
        iteration=case.progress.last,
        answer="no failure, so nobody is at fault",
        events=tuple(listed_events.list_events(case, [], roles, set())),
        timeline=timeline.build_timeline(case, roles, []),
        progress_files=_progress_files(case),
        clocks=case.clocks.corrections,
        missing=(*mixed.mixed_jobs_sentences(case), *sentences.missing_evidence(case)),
        observed=sentences.healthy_facts(case),
        slow_phase=case.pace.phase,
    )


def _root_events(case: Case, when: Moment) -> list[int]:
    """The root events, heaviest first; without a cause the messages of the end."""
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
    """The lines to read if none names a cause: of a consequence or an end; of many nodes one."""
    event = fallbacks.line_to_read(case, case.roots.scores)
    if event is None:
        return ()
    row = case.event(event)
    cascades = [one for one in listed if one.role != Role.ROOT and one.template == row.template]
    lines = next((one.lines for one in cascades if one.signature == row.signature), ())
    if case.total <= 1:
        return lines
    ordered = sorted(lines, key=lambda ref: (ref.at is None, ref.at or 0.0, ref.file, ref.line))
    return tuple(ordered[:1])


def _first_decision(case: Case, roots: list[int]) -> list[int]:
    """Of a scheduler's decisions the first: it implies the end of a cancelled job's steps."""
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
    others = case.catalogue.bad.filter(
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
    """Whether one machine of many prints an event, other than that of rank 0."""
    nodes = case.nodes_of([row.event])
    is_of_one = len(nodes) == 1 and case.total > 2
    return is_of_one and case.node_of(0) not in (None, *nodes)


def _verdict(case: Case, roots: Sequence[int], found: classify.Classification, where: Place, when: Moment) -> Verdict:
    """The category of the root events; if no rule knows one, that of structure alone."""
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


def _with_probability(case: Case, verdict: Verdict) -> Verdict:
    """A verdict with the confidence that such verdicts earned; the runner-up keeps its share of the
    rest. One of consequences alone stays inconclusive.
    """
    if verdict.confidence < classify.THRESHOLDS.conclusive:
        return verdict
    sure = verdict_probability.probability("failure", verdict_probability.of_failure(case, verdict.confidence))
    if verdict.runner_up is None:
        return replace(verdict, confidence=sure)
    name, before = verdict.runner_up
    left = before / (1.0 - verdict.confidence) * (1.0 - sure)
    return replace(verdict, confidence=sure, runner_up=(name, round(min(sure, left), 4)))


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


def _indicators(case: Case, lead: Sequence[LogEvent]) -> list[Indicator]:
    firsts = [(event, event.lines[0]) for event in lead[: LIMITS.indicators] if event.lines]
    return [_indicator(case, event, line) for event, line in firsts]


def _indicator(case: Case, event: LogEvent, line: LineRef) -> Indicator:
    """The words of one line that state the fault, and what it names, or its writer."""
    place = {"file": [case.table.files.index(line.file)], "offset": [line.offset], "length": [line.length]}
    (text,) = raw_lines.read_lines(pl.DataFrame(place), case.table.files, case.read)
    found = indicators.extract(text, event.signature or None, case.rules)
    writer = {"node": line.node or "", "rank": "" if line.rank is None else str(line.rank)}
    known = {name: value for name, value in writer.items() if value}
    spans = tuple((span.start, span.end, span.kind) for span in found.spans)
    parameters = found.parameters | {name: value for name, value in known.items() if name not in found.parameters}
    return Indicator(quotes.plain(found.text), line.file, line.line, parameters, spans)


def fingerprint(templates: Sequence[str], symptom: str, mechanism: str) -> str:
    """Links incidents by root templates, or symptom and mechanism; never by node or time."""
    content = "\n".join([f"mask {MASK_VERSION}", *(sorted(set(templates)) or [symptom, mechanism])])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
