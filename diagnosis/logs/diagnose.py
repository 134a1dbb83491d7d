"""The log engine: L4's three comparisons in their order, then where, when, what and how sure.

Reads like the paper's figure: events → cross-job → spatial → temporal → verdict. Each step lives in its own module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from diagnosis.classify_model import Model, starter
from diagnosis.history import History
from diagnosis.inventory import Inventory
from diagnosis.logs import catalogue as catalogues
from diagnosis.logs import (
    clocks,
    events,
    frameworks,
    hosts,
    outcome,
    progress,
    roots,
    roster,
    stages,
    standins,
    temporal,
)
from diagnosis.logs.catalogue import Catalogue
from diagnosis.logs.clocks import SECOND, Clocks
from diagnosis.logs.events import LogTable
from diagnosis.logs.mask import VERSION as MASK_VERSION
from diagnosis.logs.outcome import Ending
from diagnosis.logs.progress import Progress
from diagnosis.logs.roots import Roots
from diagnosis.logs.signatures import SignatureSet
from diagnosis.logs.signatures import load as load_signatures
from diagnosis.logs.temporal import Pace
from diagnosis.model import JobHints, OnStage, Parsed, ReadRange, Role, silent

#: What is decided over a job: the nodes that it runs on are named, not meant.
DECISIONS = tuple(f"platform.scheduler.{name}" for name in ("cancelled", "preemption", "time_limit"))
#: Without progress, how long before the first consequence an unknown line may tell of its cause.
BEFORE_S = 120.0
#: Lines of one event that are read back to find node names and protocol state.
READ_BACK = 2_000


@dataclass(frozen=True)
class Case:
    """Everything known of one attempt while it is being diagnosed; each step reads what the former ones left."""

    table: LogTable
    catalogue: Catalogue
    inventory: Inventory
    hints: JobHints
    rules: SignatureSet
    model: Model
    read: ReadRange
    clocks: Clocks
    progress: Progress
    pace: Pace
    marks: pl.DataFrame
    survived: frozenset[int]
    consequence_at: int | None
    roots: Roots
    ending: Ending
    scope: str
    healthy: int
    alias: dict[str, str]

    @property
    def last_at(self) -> int | None:
        """The last time of any line (ns, job clock)."""
        at = self.catalogue.cells["last_at"].drop_nulls()
        return None if at.is_empty() else int(at.max())  # type: ignore[arg-type]


def open_case(
    parsed: Sequence[Parsed],
    *,
    inventory: Inventory,
    hints: JobHints,
    history: History,
    read: ReadRange,
    as_of: float | None = None,
    rules: SignatureSet | None = None,
    model: Model | None = None,
    on_stage: OnStage = silent,
) -> Case | None:
    """Steps one to five; None where no artifact holds log lines."""
    rules = rules or load_signatures()
    on_stage("events", 0, 5)
    table = events.build(parsed, (*inventory.nodes, *hints.nodes), inventory.home_of_rank())
    if not table.files or table.cells.is_empty():
        return None
    table, listed = roster.applied(table, (*inventory.nodes, *hints.nodes), inventory.home_of_rank(), read)
    homes_known = listed.home_of_rank() | inventory.home_of_rank()
    times = clocks.estimate(table)
    cells = times.correct(table.cells, "first_at", "last_at", "until_at")
    on_stage("cross-job", 1, 5)
    framework = hints.framework or inventory.framework or frameworks.framework(table.messages["example"])
    pool = history.pool(hints.family, framework, exclude=hints.job_id or inventory.job_id)
    catalogue = catalogues.build(table, cells, rules, pool, _node_hours(table))
    catalogue = Catalogue(catalogues.resolve(catalogue.events, rules), catalogue.of, catalogue.cells, catalogue.nodes)
    on_stage("temporal", 2, 5)
    found = progress.find(table, read)
    pace = temporal.pace(found, times)
    marks = stages.mark(table.messages)
    restarted_at = temporal.restarted_at(catalogue, marks, pace)
    survived, undated = _survived(catalogue, found, pace, restarted_at)
    on_stage("spatial", 3, 5)
    alias = {n: n for n in (*listed.nodes, *catalogue.nodes)} | dict(inventory.alias)
    consequence_at, is_dated = _consequence_at(catalogue, survived, pace)
    is_survived = pl.Series([e in survived for e in catalogue.events["event"]])
    since = _since(pace, consequence_at if is_dated else None)
    weights = roots.weigh(
        catalogue.events,
        is_survived,
        pl.Series([e in undated for e in catalogue.events["event"]], dtype=pl.Boolean),
        consequence_at,
        total=len(catalogue.nodes),
        healthy=len(pool.jobs),
        since=since,
        is_slow=pace.slow_from is not None,
        is_dated=is_dated,
    )
    named = _named(table, catalogue, weights, alias, homes_known, read)
    if not is_dated:
        weights = standins.without_reactions(catalogue.events, weights, named, len(catalogue.nodes))
    weights = standins.without_summaries(catalogue, standins.without_waiting(catalogue, weights))
    weights = standins.rebooted(catalogue.events, weights, stopped_at=pace.last_at, total=len(catalogue.nodes))
    chosen = roots.choose(catalogue, weights, named)
    if chosen.leader is None and consequence_at is not None:
        again = standins.flapped(
            catalogue.events, weights, is_survived, consequence_at, len(catalogue.nodes), pace.last_at
        )
        chosen = roots.choose(catalogue, again, named)
    if chosen.leader is None and consequence_at is not None:
        again = standins.confirmed(
            catalogue.events,
            weights,
            is_survived,
            since=since,
            consequence_at=consequence_at if is_dated else None,
            total=len(catalogue.nodes),
        )
        chosen = roots.choose(catalogue, again, named)
    if chosen.leader is None and consequence_at is not None and is_dated:
        again = standins.spoken_alone(
            catalogue, weights, silent_since=pace.last_at, consequence_at=consequence_at, healthy=len(pool.jobs)
        )
        chosen = roots.choose(catalogue, again, named)
    if chosen.leader is None and consequence_at is not None:
        chosen = roots.choose(catalogue, standins.odd_word(catalogue, weights, survived), named)
    stands = (
        chosen.leader is not None and chosen.weights[chosen.leader] >= roots.LEAST and chosen.leader not in survived
    )
    bad = catalogue.events.filter(catalogues.is_bad(catalogue.events))["event"].to_list()
    end = outcome.ending(
        catalogue,
        table.messages,
        has_root=stands,
        root_outweighs=stands and _outweighs(catalogue, chosen, table.messages),
        last_beat_at=pace.last_at,
        beat_s=pace.usual_s,
        as_of=as_of,
        unrecovered=set(bad) - survived,
    )
    return Case(
        table=table,
        catalogue=catalogue,
        inventory=inventory,
        hints=hints,
        rules=rules,
        model=model or starter(),
        read=read,
        clocks=times,
        progress=found,
        pace=pace,
        marks=marks,
        survived=frozenset(survived),
        consequence_at=consequence_at,
        roots=chosen,
        ending=end,
        scope=pool.scope,
        healthy=len(pool.jobs),
        alias=alias,
    )


def _node_hours(table: LogTable) -> float:
    spans = table.spans.drop_nulls("first_at")
    hours = float((spans["last_at"] - spans["first_at"]).max() or 0) / 3.6e12 if spans.height else 0.0  # type: ignore[arg-type]
    return max(hours * max(1, table.sources["node"].drop_nulls().n_unique()), 1 / 60)


def _survived(catalogue: Catalogue, found: Progress, pace: Pace, restarted_at: int | None) -> tuple[set[int], set[int]]:
    """Events that training survived, and those of which it cannot be said for want of a time.

    In a job that nothing ends, the latter count as survived.
    """
    events = catalogue.events
    survived = set(events.filter(temporal.recovered(catalogue, found, pace))["event"].to_list())
    if restarted_at is not None:
        # whatever ended the run before, this one is another
        survived |= set(events.filter(pl.col("until_at") < restarted_at)["event"].to_list())
    undated = set(events.filter(temporal.undated(catalogue, pace))["event"].to_list()) - survived
    ends = events.filter(
        (pl.col("role").is_in([Role.CASCADE.value, Role.TEARDOWN.value]) | pl.col("is_exception"))
        & ~pl.col("is_ordinary")
        & (pl.col("jobs_with_it") == 0)
        & ~pl.col("event").is_in(sorted(survived))
    )
    if ends.is_empty() and pace.slow_from is None:
        survived |= undated
        undated = set()
    if pace.slow_from is not None and pace.slow_at is not None:
        # what began as the job became slow was not survived: the job still suffers from it
        near = int(max(30.0, 3 * (pace.usual_s or 0.0)) * SECOND)
        is_near = pl.col("first_at").is_between(pace.slow_at - near, pace.slow_at + near)
        since = events.filter(is_near | pl.col("event").is_in(sorted(undated)))
        survived -= set(since["event"].to_list())
    elif pace.slow_from is not None:
        # without times, by the order of lines in the file that shows progress
        starts = found.beats.filter(pl.col("n") >= pace.slow_from).group_by("file").agg(start=pl.col("line").min())
        rows = (
            catalogue.cells.join(starts, on="file")
            .group_by("event")
            .agg(pl.col("first_line").min(), pl.col("start").min())
        )
        survived -= set(rows.filter(pl.col("first_line") >= pl.col("start"))["event"].to_list())
    return survived, undated


def _consequence_at(catalogue: Catalogue, survived: set[int], pace: Pace) -> tuple[int | None, bool]:
    """When the first consequence showed: not before the last progress, for training that goes on has no consequences
    yet. And whether its lines state that time: else it is the least possible one."""
    found = catalogue.events.filter(
        pl.col("role").is_in([Role.CASCADE.value, Role.TEARDOWN.value])
        & ~pl.col("is_ordinary")
        & ~pl.col("event").is_in(sorted(survived))
        & (pl.col("jobs_with_it") == 0)
    )
    # a time taken from an earlier line is only a lower bound
    stamped = found.filter("is_stamped")
    rows = (stamped if stamped.height else found)["first_at"].drop_nulls()
    if pace.last_at is not None:
        if not stamped.height and rows.len():
            rows = pl.Series([max(int(rows.max()), pace.last_at)])  # type: ignore[arg-type]
        rows = rows.filter(rows >= pace.last_at)
    return (None if rows.is_empty() else int(rows.min())), stamped.height > 0  # type: ignore[arg-type]


def _since(pace: Pace, consequence_at: int | None) -> int | None:
    """From when on an unknown line may tell of the failure: shortly before the last progress, or the beginning of a
    slowdown; without progress, shortly before the first consequence."""
    if pace.slow_at is not None:
        return pace.slow_at - int(max(30.0, 3 * (pace.usual_s or 0.0)) * SECOND)
    if pace.last_at is None:
        return None if consequence_at is None else consequence_at - int(BEFORE_S * SECOND)
    return pace.last_at - int((pace.usual_s or 30.0) * SECOND)


def _outweighs(catalogue: Catalogue, chosen: Roots, messages: pl.DataFrame) -> bool:
    """Whether the root stands against a word of success: a cause well known, and not one that was followed by success
    on the same writer.

    A job that says success and then dies in a known way has failed in its shutdown; one that says so after an error
    has survived it.
    """
    lead = catalogue.events.filter(pl.col("event") == chosen.leader).row(0, named=True)
    if lead["signature"] is None or lead["own_role"] != Role.ROOT.value:
        return False
    said = outcome.success_messages(messages)
    words = catalogue.cells.filter(pl.col("masked").is_in(pl.Series(said, dtype=pl.UInt64).implode()))
    mine = catalogue.cells.filter(pl.col("event") == chosen.leader)
    if words.is_empty():
        return True
    both = mine.join(words.group_by("file").agg(said_line=pl.col("last_line").max()), on="file", how="inner")
    if both.height:
        return bool((both["first_line"] > both["said_line"]).any())
    at, said_at = mine["first_at"].min(), words["last_at"].max()
    return at is None or said_at is None or int(at) > int(said_at)  # type: ignore[arg-type]


def _named(
    table: LogTable,
    catalogue: Catalogue,
    weights: pl.Series,
    alias: dict[str, str],
    described: dict[int, str],
    read: ReadRange,
) -> dict[int, tuple[str, ...]]:
    """Nodes that the lines of events without a node name themselves, or whose ranks they name (a scheduler's "node X is
    not ready", a launcher's "rank 7 exited")."""
    homes_ = described | dict(table.sources.drop_nulls(["rank", "node"]).select("rank", "node").iter_rows())
    homeless = catalogue.events.with_columns(weight=weights).filter(
        (pl.col("weight") >= roots.LEAST) & (pl.col("n_nodes") == 0)
    )
    out = {}
    shapes = {_shape(n) for n in catalogue.nodes} - {""}
    for event, category in homeless.select("event", "category").iter_rows():
        if (category or "").startswith(DECISIONS):
            continue
        rows = table.rows(catalogue.masked(event), limit=200)
        names: set[str] = set()
        for text in (roots.SAID_ON.sub(" ", line) for line in progress.read_lines(rows, table.files, read)):
            ranks = {int(r) for r in roots.RANK.findall(text)}
            if not homes_ and ranks:
                homes_ = _homes(table, read)
            names |= (
                hosts.names_in(text, alias)
                or {homes_[r] for r in ranks if r in homes_}
                or {word for word in hosts.WORD.findall(text) if _shape(word) in shapes}
            )
        out[event] = tuple(sorted(names))
    return out


def _shape(name: str) -> str:
    """How a machine's name is built, its numbers left out: another name built alike is a machine too. Empty for a word
    that letters and digits do not both make up.
    """
    shape = re.sub(r"\d+", "#", name)
    return shape if "#" in shape and re.search(r"[A-Za-z]", shape) and len(name) >= 4 else ""


def _homes(table: LogTable, read: ReadRange) -> dict[int, str]:
    """Rank to node from lines that state a rank and whose writer's node is known, as libraries print at start."""
    stated = table.messages.filter(pl.col("example").str.contains(roots.RANK.pattern))["masked"].to_list()
    rows = table.rows(stated, limit=READ_BACK).join(table.sources.select("source", "node"), on="source", how="left")
    rows = rows.drop_nulls("node")
    found: dict[int, set[str]] = {}
    for text, node in zip(progress.read_lines(rows, table.files, read, 400), rows["node"], strict=True):
        ranks = roots.RANK.findall(text)
        if len(ranks) == 1:
            found.setdefault(int(ranks[0]), set()).add(node)
    return {rank: next(iter(nodes)) for rank, nodes in found.items() if len(nodes) == 1}


def fingerprint(templates: Sequence[str], symptom: str, mechanism: str) -> str:
    """Links incidents of one cause: a hash over root templates, or over symptom and mechanism; never category, node,
    rank or time."""
    content = "\n".join([f"mask {MASK_VERSION}", *(sorted(set(templates)) or [symptom, mechanism])])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
