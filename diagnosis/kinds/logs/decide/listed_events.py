"""The events that an answer lists: their roles, their order, and the lines of each."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import survived
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.columns import physical
from diagnosis.kinds.logs.decide.first_writers import first_lines
from diagnosis.kinds.logs.meaning import event_words
from diagnosis.kinds.logs.meaning.catalogue import EventRow, rows_of
from diagnosis.kinds.logs.pace import dating
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows import events as tables
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.knowledge import words
from diagnosis.model import Role
from diagnosis.records.result import LineRef, LogEvent
from diagnosis.values import quotes
from diagnosis.values.extremes import least

LIMITS: Final = thresholds.limits("verdict")

THRESHOLDS: Final = thresholds.of("verdict")

#: The number of the job that a scheduler's line is about.
_JOB: Final = words.regex("phrases", "job_number")


def event_roles(case: Case, roots: Sequence[int]) -> dict[int, str]:
    """The role of every event of the failure; survived events may only be confirmations."""
    roles: dict[int, str] = {}
    for event, role in case.catalogue.bad.select("event", "role").iter_rows():
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


def list_events(case: Case, roots: Sequence[int], roles: dict[int, str], accused: set[str]) -> list[LogEvent]:
    """The events to list: by role, the weightiest first; of one role by time.
    O(events + occurrences), and a search of the occurrences for each of the few that are listed.
    """
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
    cause_nodes = set(case.roots.nodes)
    if not cause_nodes and not case.roots.is_wide:
        cause_nodes = accused
    occurrences = dating.occurrences_with_times(case.catalogue, case.pace, roles)
    return _without_repeats([_event(case, row, roles[row.event], cause_nodes, occurrences) for row in rows])


def _is_frame(row: EventRow) -> bool:
    return re.search(event_words.STRUCTURE, row.template) is not None


def _without_repeats(events: list[LogEvent]) -> list[LogEvent]:
    """Joins events with the same message after another header or in another wrapper, with the sum
    of their counts; roots stay separate.
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


def _event(case: Case, row: EventRow, role: str, cause_nodes: set[str], occurrences: pl.DataFrame) -> LogEvent:
    own = occurrences.filter(pl.col("event") == row.event)
    names = sorted(own["node"].drop_nulls().unique().to_list())
    first_at = least(own["stated_at"])
    lines = (
        _root_lines(case, row, cause_nodes, own) if role == Role.ROOT else _lines(case, row, own, LIMITS.other_lines)
    )
    firsts = first_lines(case, own)
    return LogEvent(
        id=tables.event_id(row.template, row.signature or ""),
        template=row.template,
        role=role,
        signature=row.signature,
        category=row.category,
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
        example=_example(case, row, firsts)[: LIMITS.example_chars],
        recovered=row.event in case.survived,
        score=round(case.roots.weights.get(row.event, 0.0), 4),
        lines=_line_refs(case, lines),
        writers=_line_refs(case, firsts),
    )


def _example(case: Case, row: EventRow, firsts: pl.DataFrame) -> str:
    """The line that gives the event its time, as written; without a known order of its writers the first of any."""
    texts = raw_lines.read_lines(firsts.head(1), case.table.files, case.read)
    return next((text for text in texts if text), row.example)


def _seconds(at: int | None) -> float | None:
    return None if at is None else at / SECOND


def _not_before(at: int | None, first_at: int | None) -> int | None:
    """A last time, which is not before the first one."""
    return None if at is None else max(at, first_at or at)


def _lines(case: Case, row: EventRow, own: pl.DataFrame, most: int, cause_nodes: Collection[str] = ()) -> pl.DataFrame:
    """Some lines of an event, of ``cause_nodes`` if there are any, with their likely times."""
    rows = case.placed(case.table.rows(case.catalogue.masked(row.event), limit=most))
    # the same words elsewhere are the echo of the fault, not the fault
    of_cause = (
        rows.filter(pl.col("node").is_null() | pl.col("node").is_in(sorted(cause_nodes))) if cause_nodes else rows
    )
    dated = case.clocks.correct(rows if of_cause.is_empty() else of_cause, "at")
    undated = own.filter(~pl.col("is_stamped")).select("file", "source", "masked", "stated_at")
    guessed = dated.join(undated, on=["file", "source", "masked"], how="left", maintain_order="left")
    return guessed.with_columns(at=pl.max_horizontal("at", "stated_at"))


def _root_lines(case: Case, row: EventRow, cause_nodes: Collection[str], own: pl.DataFrame) -> pl.DataFrame:
    """The lines of a root event. A scheduler's decision that is repeated for every step counts
    once, and what ended an earlier launch ended not this one.
    """
    lines = _lines(case, row, own, LIMITS.root_lines, cause_nodes)
    if not (row.category or "").startswith("platform.scheduler"):
        return lines
    of_job = _of_last_job(case, _of_last_launch(case, lines))
    is_first = pl.col("at") <= pl.col("at").min() + int(THRESHOLDS.decision_s * SECOND)
    return of_job.filter(is_first.fill_null(True))


def _line_refs(case: Case, rows: pl.DataFrame) -> tuple[LineRef, ...]:
    """The rows as people find them: by file and physical line."""
    refs: list[LineRef] = []
    for own in rows.partition_by("file", maintain_order=True):
        file = own["file"][0]
        numbers = physical.numbers(case.table.lines[file].file, own["line"].to_list(), own["offset"].to_list())
        writers = own[["offset", "length", "node", "rank", "at"]].iter_rows()
        for line, (offset, length, node, rank, at) in zip(numbers, writers, strict=True):
            refs.append(LineRef(case.table.files[file], line, offset, length, node, rank, _seconds(at)))
    return tuple(refs)


def _of_last_launch(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows behind all progress of their file but a grace period's steps; else all."""
    points = case.progress.points.sort("file", "line")
    last = pl.col("line").tail(survived.THRESHOLDS.survived_points)
    edges = points.group_by("file").agg(edge=last.min())
    placed = rows.join(edges, on="file", how="left", maintain_order="left")
    later = placed.filter((pl.col("line") > pl.col("edge")).fill_null(True)).drop("edge")
    return rows if later.is_empty() else later


def _of_last_job(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Of a scheduler's decisions on several jobs that wrote one file, those on the last one."""
    if rows["file"].n_unique() != 1:
        return rows
    texts = raw_lines.read_lines(rows, case.table.files, case.read)
    found = [_JOB.search(text) for text in texts]
    jobs = [match[1] if match else "" for match in found]
    return rows.filter(pl.Series(jobs) == jobs[-1])
