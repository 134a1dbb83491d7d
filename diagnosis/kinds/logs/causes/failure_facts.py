"""What is known of one attempt when the causes of its failure are weighed: the facts of its logs, and the events in
time, before one of them is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property, partial
from typing import Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence.inventory import Inventory
from diagnosis.history import History, Pool
from diagnosis.kinds.logs.classifying.classify_model import Model, starter
from diagnosis.kinds.logs.meaning import stages
from diagnosis.kinds.logs.meaning.catalogue import Catalogue, EventRow
from diagnosis.kinds.logs.meaning.roster import Roster
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.kinds.logs.meaning.signatures import load as load_signatures
from diagnosis.kinds.logs.pace.pacing import Pace
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows.clocks import SECOND, Clocks
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.model import Aside, JobHints, OnStage, ReadRange, Role, ignore_progress
from diagnosis.processing.budgets import Budgets
from diagnosis.values import stats
from diagnosis.values.extremes import greatest, least

THRESHOLDS: Final = thresholds.of("failure_facts")


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job besides its logs. ``as_of``: seconds since the epoch at which the evidence was taken;
    ``near``: a time by which logs without a date or year are dated where nothing else says when the job ran;
    ``without``: the ids of detectors and fallbacks that are switched off; ``aside``: where a long step is done;
    ``budgets``: of the stages.
    """

    inventory: Inventory
    hints: JobHints
    read: ReadRange
    history: History = msgspec.field(default_factory=History)
    rules: SignatureSet = msgspec.field(default_factory=load_signatures)
    model: Model = msgspec.field(default_factory=starter)
    as_of: float | None = None
    near: float | None = None
    on_stage: OnStage = ignore_progress
    without: frozenset[str] = frozenset()
    aside: Aside = partial
    budgets: Budgets = msgspec.field(default_factory=Budgets)


class Facts(Given, frozen=True, kw_only=True, dict=True):
    """Facts from the logs of one attempt, before any decision. ``roster``: the machines that the logs state;
    ``node_of_rank``: every known rank and its node; ``pool``: the healthy jobs for comparison; ``is_complete``:
    training came to its planned end.
    """

    table: LogTable
    catalogue: Catalogue
    clocks: Clocks
    progress: Progress
    pace: Pace
    marks: pl.DataFrame
    pool: Pool
    is_complete: bool
    roster: Roster
    node_of_rank: Mapping[int, str | None]

    @cached_property
    def alias(self) -> dict[str, str]:
        """Every name and address of a machine, and its name in this attempt."""
        names = {node: node for node in (*self.roster.nodes, *self.catalogue.nodes)}
        pods = dict(self.roster.node_of_pod)
        return self.roster.node_of_address() | names | pods | {**self.inventory.alias}

    @property
    def total(self) -> int:
        """Nodes of the job: those that write, else those that its lines state."""
        return len(self.catalogue.nodes or self.roster.nodes)

    @property
    def has_progress(self) -> bool:
        """Whether a line counts iterations or epochs."""
        return not self.progress.points.is_empty()

    @property
    def last_at(self) -> int | None:
        """The last time of any line (ns, job clock)."""
        return greatest(self.catalogue.occurrences["last_at"])

    def node_of(self, rank: int) -> str | None:
        """The node of a rank, by its name in this attempt."""
        node = self.node_of_rank.get(rank)
        return self.alias.get(node, node) if node else None

    def event(self, event: int) -> EventRow:
        """One event's row of the catalogue."""
        return self.catalogue.event(event)

    def nodes_of(self, events: Collection[int]) -> set[str]:
        """The nodes that print any of these events. O(occurrences)."""
        return self.catalogue.nodes_of(events)

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Lines with the ``node`` and ``rank`` of their writer."""
        return self.table.placed(rows)


class FailureFacts(Facts, frozen=True, kw_only=True, dict=True):
    """``survived``: events that training survived, ``undated``: those without a time that it may have survived;
    ``named``: nodes that the lines of a node-less event name. Times in ns.
    """

    survived: frozenset[int]
    undated: frozenset[int] = frozenset()
    named: Mapping[int, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @property
    def events(self) -> pl.DataFrame:
        return self.catalogue.events

    @cached_property
    def has_times(self) -> bool:
        return bool(self.events["is_stamped"].any())

    @property
    def is_few(self) -> pl.Expr:
        """Events of a minority of the nodes."""
        return pl.col("n_nodes").is_between(1, stats.largest_minority(self.total))

    @cached_property
    def is_survived(self) -> pl.Expr:
        return pl.col("event").is_in(sorted(self.survived))

    def consequences(self, *roles: Role) -> pl.DataFrame:
        """Events of these roles (default: of the role cascade) that no healthy job prints and training did not survive,
        without frames of errors.
        """
        is_new = (pl.col("jobs_with_it") == 0) & ~pl.col("is_structure")
        is_of_these = pl.col("role").is_in([role.value for role in roles or (Role.CASCADE,)])
        return self.events.filter(is_of_these & is_new & ~self.is_survived)

    @property
    def consequence_at(self) -> int | None:
        """The time of the first consequence, not before the last progress."""
        return self._consequence[0]

    @property
    def is_dated(self) -> bool:
        """Whether the lines of consequences state their time; otherwise ``consequence_at`` is a lower bound."""
        return self._consequence[1]

    @cached_property
    def _consequence(self) -> tuple[int | None, bool]:
        is_decided = self.events.filter(self.catalogue.has("decision") & (pl.col("role") == Role.ROOT)).height > 0
        # orders to stop are part of a decision, also if its reason is stated later: at the end of a grace period
        roles = (Role.CASCADE,) if is_decided else (Role.CASCADE, Role.TEARDOWN)
        found = self.consequences(*roles)
        # a time taken from an earlier line is only a lower bound
        stamped = found.filter("is_stamped")
        rows = (stamped if stamped.height else found)["first_at"].drop_nulls()
        if self.pace.last_at is not None:
            latest = greatest(rows)
            if not stamped.height and latest is not None:
                rows = pl.Series([max(latest, self.pace.last_at)])
            rows = rows.filter(rows >= self.pace.last_at)
        return least(rows), stamped.height > 0

    @property
    def since(self) -> int | None:
        """Start of the period in which an unknown line may belong to the failure: shortly before the last progress, or
        the beginning of a slowdown; without progress, shortly before the first consequence.
        """
        if self.pace.slow_at is not None:
            return self.pace.slow_at - slowdown_window(self.pace)
        if self.pace.last_at is not None:
            return self.pace.last_at - int((self.pace.usual_s or THRESHOLDS.near_s) * SECOND)
        return (
            self.consequence_at - int(THRESHOLDS.before_s * SECOND) if self.consequence_at and self.is_dated else None
        )


def slowdown_window(pace: Pace) -> int:
    """Time (ns) within which an event belongs to the beginning of a slowdown."""
    return int(max(THRESHOLDS.near_s, THRESHOLDS.near_intervals * (pace.usual_s or 0.0)) * SECOND)


def stage_spans(facts: Facts) -> list[tuple[str, int, int]]:
    """Stages of the job as (stage, from, to) in ns, from the first markers and progress."""
    marked = facts.catalogue.occurrences.join(facts.marks, on="masked").drop_nulls("first_at")
    rows = list(marked.select("first_at", "stage", "is_end").iter_rows())
    points = facts.pace.points["at"].drop_nulls().sort()
    if points.len():
        # training goes on with the first progress after an interruption
        marks_at = pl.Series([at for at, _, _ in rows], dtype=pl.Int64)
        after = points.search_sorted(marks_at, side="right").to_list()
        going_on = {0, *after} - {points.len()}
        rows += [(int(points[place]), "training", False) for place in going_on]
    begun: list[tuple[str, int]] = []
    trained = False
    for at, stage, is_end in sorted(rows):
        trained = trained or stage == "training"
        name = stages.stage_after_end(stage, trained) if is_end else stage
        # preparations do not come back: a late line of one rank is not a new stage of the job
        is_late = trained and name in stages.BEFORE_TRAINING
        if not is_late and (not begun or begun[-1][0] != name):
            begun.append((name, at))
    ends = [at for _, at in begun[1:]] + [max(at, facts.last_at or at) for _, at in begun[-1:]]
    return [(name, at, end) for (name, at), end in zip(begun, ends, strict=True)]
