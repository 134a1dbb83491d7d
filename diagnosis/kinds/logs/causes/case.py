"""One attempt of a job as a case: the facts of its logs, and the events that are the root of its
failure.

Follows L4's figure: events, then across jobs, then in time, then across nodes. :func:`collect_facts`
gathers the facts; each later step (:mod:`locate`, ``phase``, ``verdict``) only reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import chain
from typing import Final

import polars as pl
from msgspec.structs import asdict, replace

from diagnosis.kinds.logs.causes import (
    launches,
    lifecycles,
    mentions,
    outcome,
    tracebacks,
)
from diagnosis.kinds.logs.causes.failure_facts import Facts, FailureFacts, Given
from diagnosis.kinds.logs.causes.lifecycles import Lifecycles
from diagnosis.kinds.logs.causes.outcome import Ending
from diagnosis.kinds.logs.causes.root_events import fallbacks, root_weights, roots
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from diagnosis.kinds.logs.causes.survived import survived_events
from diagnosis.kinds.logs.meaning import catalogue as catalogues
from diagnosis.kinds.logs.meaning import event_words, resolved_roles, roster, stages
from diagnosis.kinds.logs.meaning.catalogue import NO_EVENT, Catalogue, EventRow
from diagnosis.kinds.logs.pace import pacing, planned_end, progress, shared_files
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.rows import clocks, events, templates
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.model import Parsed
from diagnosis.values import quotes

#: Meaning of a machine's silence.
LOST_HOST: Final = "hardware.host.lost"


class Case(FailureFacts, frozen=True, kw_only=True, dict=True):
    """Everything known of one attempt."""

    roots: Roots
    lives: Lifecycles
    ending: Ending

    @cached_property
    def lead(self) -> EventRow:
        """The leading event; ``NO_EVENT`` without one."""
        return NO_EVENT if self.roots.leader is None else self.event(self.roots.leader)

    @property
    def has_lead(self) -> bool:
        return self.lead is not NO_EVENT

    @property
    def is_sure(self) -> bool:
        """Whether the leading event is more than a sign."""
        return self.has_lead and self.roots.weights[self.lead.event] >= roots.THRESHOLDS.doubtful

    def in_words(self, row: EventRow) -> str:
        """An event for a sentence: its rule's meaning, else a clause of its line in quotes."""
        title = self.meaning(row.signature or "", row.example, row.template)
        if row.signature and not title[1:2].isupper():
            return title[:1].lower() + title[1:]
        return title or f"a line that is no sentence ({row.n:,}×)"

    def meaning(self, signature: str, example: str, template: str) -> str:
        """The title of the rule with what the line is about, else a clause of the line as a
        quotation; empty if no clause fits into a sentence.
        """
        if signature:
            return self.rules.title_of(signature, example)
        clause = quotes.informative_clause(quotes.quote(example, template))
        return f"“{clause}”" if clause else ""


def collect_facts(parsed: Sequence[Parsed], given: Given) -> Facts | None:
    """Events with their history, progress and stages; None where no artifact holds log lines.
    O(different messages × rules + occurrences).
    """
    inventory, hints, read = given.inventory, given.hints, given.read
    known = (*inventory.nodes, *hints.nodes)
    given.on_stage("events", 0, 5)
    dated = given.as_of or inventory.ended_at or inventory.begun_at or given.near
    as_of = None if dated is None else int(dated * clocks.SECOND)
    table = events.build(parsed, known, inventory.nodes_of_ranks(), as_of)
    if not table.files or table.occurrences.is_empty():
        return None
    node_of_rank, run = inventory.nodes_of_ranks(), given.budgets.run
    none_listed = table, roster.Roster()
    pods = inventory.node_of_pod
    table, listed = run("rosters", lambda: roster.apply_roster(table, known, node_of_rank, read, pods), none_listed)
    given.on_stage("cross-job", 1, 5)
    framework = hints.framework or inventory.framework or event_words.first_row(table.messages["example"], "frameworks")
    pool = given.history.pool(hints.family, framework or "unknown", exclude=hints.job_id or inventory.job_id)
    pool = pool.similar(table.messages["text"].to_list())

    said = catalogues.nameless(table)
    # half of the work on a job of many messages, once for all launches
    healthy = chain.from_iterable(job.counts for job in pool.jobs)
    mined = cache(given.aside(templates.of_texts, {*said["text"], *healthy}))
    times = clocks.estimate(table)

    def told(table: LogTable, said: pl.DataFrame) -> tuple[Catalogue, Progress]:
        occurrences = times.correct(table.occurrences, "first_at", "last_at", "until_at")
        # a table of its own would read the rows of a small job again
        timed = table if occurrences is table.occurrences else replace(table, occurrences=occurrences)
        found = run("progress", lambda: progress.find_progress(timed, read), progress.NONE)
        catalogue = catalogues.build(table, occurrences, said, given.rules, pool, mined)
        return resolved_roles.resolve_roles(catalogue, given.rules), found

    catalogue, found = told(table, said)
    given.on_stage("temporal", 2, 5)
    one_launch: dict[int, int] = {}
    if begun := run("launches", lambda: launches.last_launches(catalogue, found), one_launch):
        del catalogue, found  # as large as what comes
        table = table.since(begun)
        catalogue, found = told(table, catalogues.nameless(table))
    writers = table.sources.drop_nulls("rank").select("rank", "node").unique().sort("rank", "node")
    if not catalogue.nodes and not listed.nodes:
        no_machines: Mapping[int, str] = {}
        find = partial(shared_files.machines_of_ranks, found, table, read)
        machines = run("machines", find, no_machines)
        listed = replace(listed, nodes=tuple(dict.fromkeys(machines.values())), node_of=machines)
    planned = planned_end.planned_steps(inventory.commands)
    is_complete = partial(planned_end.has_ended, found, table, read, planned)
    return Facts(
        **asdict(given),
        table=table,
        catalogue=catalogue,
        clocks=times,
        progress=found,
        pace=run("pace", lambda: pacing.pace(found, times), pacing.NONE),
        marks=stages.stage_marks(table.messages),
        pool=pool,
        is_complete=run("planned end", is_complete, False),
        roster=listed,
        node_of_rank=dict(writers.iter_rows()) | listed.nodes_of_ranks() | inventory.nodes_of_ranks(),
    )


def decide(facts: Facts) -> Case:
    """The root events and the outcome. O(events × rules + occurrences)."""
    survived, undated = survived_events(facts)
    crashes = tracebacks.crashes_of_ended(facts.catalogue)
    resolved = resolved_roles.resolve_roles(facts.catalogue, facts.rules, survived, crashes)
    known = asdict(facts) | {"catalogue": resolved, "survived": survived, "undated": undated}
    facts.on_stage("spatial", 3, 5)
    unnamed = FailureFacts(**known)
    weights = root_weights.weigh(unnamed)
    no_names: dict[int, tuple[str, ...]] = {}
    named = facts.budgets.run("named nodes", lambda: mentions.mentioned_nodes(unnamed, weights), no_names)
    known["named"] = named
    failure = FailureFacts(**known)
    chosen = fallbacks.choose(failure, weights)
    lives = lifecycles.find_lifecycles(failure)
    ending = outcome.find_ending(failure, chosen, lives)
    return Case(**known, roots=chosen, lives=lives, ending=ending)
