"""Makes the answer from a case: category, place, moment, events, root lines, sentences."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

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
from diagnosis.kinds.logs.meaning import frames, indicators, words
from diagnosis.kinds.logs.pace import dating
from diagnosis.kinds.logs.read import physical, raw_lines
from diagnosis.kinds.logs.read.mask import VERSION as MASK_VERSION
from diagnosis.kinds.logs.rows import events as tables
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role
from diagnosis.result import Indicator, LineRef, LogDiagnosis, LogEvent, Verdict

LIMITS: Final = thresholds.limits("verdict")

THRESHOLDS: Final = thresholds.of("verdict")

#: The number of the job that a scheduler's line is about.
_JOB: Final = words.regex("phrases", "job_number")
#: Categories that are replaced if ranks called different collectives.
REPLACED_BY_MISMATCH: Final = ("unknown", "framework.collective", "framework.collective.timeout")


def conclude(case: Case) -> LogDiagnosis:
    """The whole diagnosis of this attempt from its logs."""
    first = _classify(case, list(case.roots.members))
    is_known = not case.lead or bool(case.lead["signature"])
    # the echoes of an unknown cause must not decide the place
    where = locate.locate(case, first.category.id if is_known else "unknown")
    when = phase.find_moment(case, where.mechanism, first.category.id if is_known else "")
    outcome = case.ending.outcome
    if outcome not in ("failed", "cancelled") and (outcome == "succeeded" or when.symptom not in ("slow", "hang")):
        return _healthy(case)
    roots = _root_events(case, when, where)
    accused = {n.node for n in where.nodes if n.is_suspect}
    classification = _classify(case, roots, is_hang=when.symptom == "hang")
    verdict = _verdict(case, roots, classification, where, when)
    roles = _event_roles(case, roots)
    listed = _events(case, roots, roles, accused)
    lead = [e for e in listed if e.role == Role.ROOT]
    lines = tuple(ref for e in lead for ref in e.lines) or _consequence_lines(case, listed)
    run = case.budgets.run
    no_odd: list[tuple[int, float]] = []
    odd = run("odd iterations", lambda: iterations.odd_iterations(case), no_odd)
    return LogDiagnosis(
        is_failure=True,
        outcome=outcome,
        verdict=verdict,
        symptom=when.symptom,
        stage=when.stage,
        iteration=when.iteration,
        nodes=where.nodes,
        answer=where.answer,
        events=tuple(listed),
        lines=lines,
        indicators=tuple(run("indicators", lambda: _indicators(case, lead), [])),
        fingerprint=fingerprint([e.template for e in lead], when.symptom, verdict.id),
        timeline=timeline.build_timeline(case, roles, [n.node for n in where.nodes], odd),
        progress_files=_progress_files(case),
        clocks=case.clocks.told,
        missing=(*mixed.mixed_jobs_sentences(case), *sentences.missing_evidence(case)),
        observed=(*sentences.observed_facts(case, when, where, lead), *sentences.odd_iterations(odd)),
        inferred=sentences.inferred_facts(case, when, lead),
        culprits=where.culprits,
        clues=run("reasons", lambda: explain.clues(case, roots, classification, where, verdict), ()),
    )


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
        clocks=case.clocks.told,
        missing=(*mixed.mixed_jobs_sentences(case), *sentences.missing_evidence(case)),
        observed=sentences.healthy_facts(case),
        slow_phase=case.pace.phase,
    )


def _root_events(case: Case, when: Moment, where: Place) -> list[int]:
    """The root events to show, heaviest first. If no line names the cause, the messages of the end replace it: a kill,
    a limit, a cancel.
    """
    members = list(case.roots.members)
    if members:
        return _first_decision(case, members)
    if when.symptom == "hang":
        return []  # whoever ended the job ended what had stopped long before
    for masked in (case.ending.time_limit, case.ending.cancelled if case.ending.outcome == "cancelled" else ()):
        wanted = pl.Series(list(masked), dtype=pl.UInt64).implode()
        found = case.catalogue.of.filter(pl.col("masked").is_in(wanted))["event"].unique().sort()
        if found.len():
            return _first_decision(case, [int(e) for e in found])
    return []


def _consequence_lines(case: Case, listed: Sequence[LogEvent]) -> tuple[LineRef, ...]:
    """The lines to read if none names a cause: those of the first consequence; with several nodes only the first
    line.
    """
    event = fallbacks.first_consequence(case)
    row = {} if event is None else case.event(event)
    key = (row.get("template"), row.get("signature"))
    lines = next((e.lines for e in listed if (e.template, e.signature) == key and e.role == Role.CASCADE), ())
    if case.total > 1:
        return tuple(sorted(lines, key=lambda ref: (ref.at is None, ref.at or 0.0, ref.file, ref.line))[:1])
    return lines


def _first_decision(case: Case, roots: list[int]) -> list[int]:
    """Of a scheduler's decisions only the first: it implies the end of the steps of a cancelled job."""
    is_decision = pl.col("category").fill_null("").str.starts_with("platform.scheduler")
    decided = case.events.filter(pl.col("event").is_in(roots) & is_decision)
    is_later = pl.col("first_at") > pl.col("first_at").min() + int(THRESHOLDS.decision_s * SECOND)
    later = decided.filter(is_later)["event"].to_list()
    return [event for event in roots if event not in later]


def _classify(case: Case, roots: Sequence[int], *, is_hang: bool = False) -> classify.Classification:
    hints = []
    for place, event in enumerate(roots):
        row, first = case.event(event), place == 0
        wide, lone = row["n_nodes"] > stats.largest_minority(case.total), _is_lone(case, row)
        library = _category_of_frames(case, row) if first else ""
        # what joined the leader without a weight of its own only confirms it
        role = Role.ROOT if first or case.roots.weights.get(event) else Role.CONFIRMATION
        weight = 1.0 if first else THRESHOLDS.joined
        hints.append(classify.Hint(row["template"], row["signature"], role, weight, wide, library, lone))
    bad = case.events.filter(catalogues.failure_events(case.events))
    stops = case.events.filter(pl.col("role") == Role.TEARDOWN)["first_at"].min() if is_hang else None
    for row in bad.filter(pl.col("role").is_in([Role.CASCADE, Role.CONFIRMATION])).iter_rows(named=True):
        if stops is not None and (row["first_at"] or 0) > stops:  # type: ignore[operator]
            continue  # what breaks while a job that hangs is stopped is a consequence
        if not roots and row["role"] == Role.CONFIRMATION and row["strength"] == "weak":
            continue  # without a root, a weak confirmation is no evidence
        if row["event"] not in case.survived and row["event"] not in roots:
            hints.append(classify.Hint(row["template"], row["signature"], Role(row["role"]), row["novelty"]))
    return classify.classify(hints, case.rules, case.model)


def _is_lone(case: Case, row: dict[str, Any]) -> bool:
    """Whether one machine of many prints an event, other than that of rank 0, which may be the only one to do so."""
    nodes = case.nodes_of([row["event"]])
    return len(nodes) == 1 and case.total > 2 and case.home(0) not in (None, *nodes)


def _category_of_frames(case: Case, row: dict[str, Any]) -> str:
    """The category from the library that raised an exception, if its message does not show one."""
    rule = case.rules.rule(row["signature"]) if row["signature"] else None
    if not row["is_exception"] or (rule is not None and not rule.is_form):
        return ""
    rows = case.table.rows(case.catalogue.masked(row["event"]), limit=1)
    return frames.category_of_frames(frames.text_above(rows, case.table.files, case.read)) or ""


def _verdict(
    case: Case, roots: Sequence[int], classification: classify.Classification, where: Place, when: Moment
) -> Verdict:
    tree = taxonomy.load()
    known = [e for e in roots if case.event(e)["signature"]]
    mechanism = where.mechanism
    if not known and not mechanism and when.symptom != "hang":
        if case.ending.time_limit:
            mechanism = "platform.scheduler.time_limit"
        elif when.symptom == "slow":
            mechanism = "performance.step"
        elif case.ending.outcome == "cancelled":
            mechanism = "platform.scheduler.cancelled"
    is_open = mechanism == MISMATCH and classification.category.id in REPLACED_BY_MISMATCH
    if is_open or mechanism == locate.SWITCH_DOWN:
        # watchdogs print the same for every hang, and hosts the same for a port and a switch: structure is better
        known = []
    if mechanism and not known:
        node = tree.get(mechanism)
        is_other = classification.confidence > 0 and classification.category.id != node.id
        other = (classification.category.id, min(classification.confidence, THRESHOLDS.replaced)) if is_other else None
        return Verdict(node.id, node.category, node.subcategory, THRESHOLDS.structure, other)
    leaf = classification.category
    if when.symptom == "slow" and leaf.id == "framework.dataloader":
        leaf = tree["performance.dataloader"]  # it works, only too slowly
    runner = (classification.runner_up.id, classification.runner_up_confidence) if classification.runner_up else None
    return Verdict(
        leaf.id,
        leaf.category,
        leaf.subcategory,
        classification.confidence,
        runner,
        tuple(c.id for c in classification.also),
    )


def _event_roles(case: Case, roots: Sequence[int]) -> dict[int, str]:
    """The role of every event of the failure; survived events may only be confirmations."""
    bad = case.events.filter(catalogues.failure_events(case.events))
    roles: dict[int, str] = {}
    for event, role in bad.select("event", "role").iter_rows():
        if event in case.survived and event not in roots:
            roles[event] = Role.CONFIRMATION.value if role == Role.ROOT else Role.BENIGN.value
        else:
            roles[event] = Role.CASCADE.value if role in (None, Role.ROOT) else role
    roles.update(dict.fromkeys(roots, Role.ROOT.value))
    return {e: r for e, r in roles.items() if r != Role.BENIGN}


_ORDER: Final[dict[str, int]] = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CASCADE: 2, Role.TEARDOWN: 3}


def _events(case: Case, roots: Sequence[int], roles: dict[int, str], accused: set[str]) -> list[LogEvent]:
    rank = {e: i for i, e in enumerate(roots)}

    def place(row: dict[str, Any]) -> tuple[int, int]:
        return _ORDER.get(roles[row["event"]], 4), rank.get(row["event"], 0)

    rows = sorted(
        case.events.filter(pl.col("event").is_in(sorted(roles))).iter_rows(named=True),
        key=lambda r: (*place(r), -(r["novelty"] or 0), -(r["n"] or 0), r["event"]),
    )[: LIMITS.events]
    rows.sort(key=lambda r: (*place(r), math.inf if r["first_at"] is None else r["first_at"], r["first_line"]))
    home = set(case.roots.nodes) or (set() if case.roots.is_wide else accused)
    rows = [r for r in rows if r["event"] in rank or not re.search(catalogues.STRUCTURE, r["template"])]
    cells = dating.cells_with_times(case.catalogue, case.pace, roles)
    return _without_repeats([_event(case, row, roles[row["event"]], home, cells) for row in rows])


def _without_repeats(events: list[LogEvent]) -> list[LogEvent]:
    """Joins events with the same message after another header or in another wrapper, with the sum of their counts;
    roots stay separate.
    """
    kept: dict[tuple[str, str], LogEvent] = {}
    for event in events:
        is_root = event.role == Role.ROOT
        key = (event.role, event.id if is_root else quotes.quote(event.example, event.template, 100))
        first = kept.get(key)
        kept[key] = event if first is None else replace(first, count=first.count + event.count)
    return list(kept.values())


def _event(case: Case, row: dict[str, Any], role: str, home: set[str], cells: pl.DataFrame) -> LogEvent:
    event = row["event"]
    event_cells = cells.filter(pl.col("event") == event)
    names = sorted(event_cells["node"].drop_nulls().unique().to_list())
    is_root = role == Role.ROOT
    rows = case.table.rows(case.catalogue.masked(event), limit=LIMITS.root_lines if is_root else LIMITS.other_lines)
    rows = case.placed(rows)
    if is_root and home:
        # the same words elsewhere are the echo of the fault, not the fault
        at_home = rows.filter(pl.col("node").is_null() | pl.col("node").is_in(sorted(home)))
        rows = at_home if at_home.height else rows
    rows = case.clocks.correct(rows, "at")
    undated = event_cells.filter(~pl.col("is_stamped")).select("file", "source", "masked", "stated_at")
    rows = rows.join(undated, on=["file", "source", "masked"], how="left", maintain_order="left").with_columns(
        at=pl.max_horizontal("at", "stated_at")
    )
    if is_root and (row["category"] or "").startswith("platform.scheduler"):
        # a decision that is repeated for every step counts once
        rows = _of_last_job(case, rows)
        rows = rows.filter((pl.col("at") <= pl.col("at").min() + int(THRESHOLDS.decision_s * SECOND)).fill_null(True))
    first_at: int | None = event_cells["stated_at"].min()  # type: ignore[assignment]
    last_at: int | None = row["last_at"]
    refs = _line_refs(case, rows)
    return LogEvent(
        id=tables.event_id(row["template"], row["signature"] or ""),
        template=row["template"],
        role=role,
        signature=row["signature"] or "",
        category=row["category"] or "",
        level=row["level"] or 0,
        count=row["n"] or 0,
        of_nodes=case.total,
        node_names=tuple(names[: LIMITS.node_names]),
        nodes=row["n_nodes"] or 0,
        jobs_with_it=row["jobs_with_it"] or 0,
        healthy_jobs=len(case.pool.jobs),
        first_at=None if first_at is None else first_at / SECOND,
        last_at=None if last_at is None else max(last_at, first_at or last_at) / SECOND,
        is_stamped=bool(event_cells["is_stamped"].any()),
        example=(row["example"] or "")[:600],
        recovered=event in case.survived,
        score=case.roots.weights.get(event, 0.0),
        lines=refs,
    )


def _line_refs(case: Case, rows: pl.DataFrame) -> tuple[LineRef, ...]:
    """The rows as people find them: by file and physical line."""
    found = []
    for (file,), own in rows.group_by("file", maintain_order=True):
        line = physical.numbers(case.table.lines[file].file, own["line"].to_list(), own["offset"].to_list())
        found.append(own.with_columns(line=pl.Series(line, dtype=pl.UInt32)))
    names = ("file", "line", "offset", "length", "at", "node", "rank")
    return tuple(
        LineRef(case.table.files[f], line, offset, length, node, rank, None if at is None else at / SECOND)
        for own in found
        for f, line, offset, length, at, node, rank in own.select(names).iter_rows()
    )


def _of_last_job(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Of a scheduler's decisions on several jobs that wrote one file, those on the last one."""
    texts = raw_lines.read_lines(rows, case.table.files, case.read)
    jobs = [found.group(1) if (found := _JOB.search(text)) else "" for text in texts]
    is_last = [job == jobs[-1] for job in jobs] if rows["file"].n_unique() == 1 else True
    return rows.filter(is_last)


def _indicators(case: Case, lead: Sequence[LogEvent]) -> list[Indicator]:
    out = []
    for event in [e for e in lead[: LIMITS.indicators] if e.lines]:
        ref = event.lines[0]
        place = {"file": [case.table.files.index(ref.file)], "offset": [ref.offset], "length": [ref.length]}
        text = raw_lines.read_lines(pl.DataFrame(place), case.table.files, case.read)[0]
        indication = indicators.extract(text, event.signature or None, case.rules)
        writer = {"node": ref.node or "", "rank": "" if ref.rank is None else str(ref.rank)}
        parameters = indication.parameters | {k: v for k, v in writer.items() if v and k not in indication.parameters}
        spans = tuple((s.start, s.end, s.kind) for s in indication.spans)
        out.append(Indicator(quotes.plain(indication.text), ref.file, ref.line, parameters, spans))
    return out


def fingerprint(templates: Sequence[str], symptom: str, mechanism: str) -> str:
    """Links incidents of one cause: a hash over root templates, or over symptom and mechanism; never category, node,
    rank or time."""
    content = "\n".join([f"mask {MASK_VERSION}", *(sorted(set(templates)) or [symptom, mechanism])])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
