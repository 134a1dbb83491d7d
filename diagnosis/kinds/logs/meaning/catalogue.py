"""The events of a job: its messages joined with templates, signatures and history, one row an
event, with its nodes and times. An event is a template together with the rule that matched its
messages: if two rules match different messages of one template, these are two events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from diagnosis import taxonomy
from diagnosis.history import Pool
from diagnosis.kinds.logs.meaning import crossjob, event_words, hosts
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words
from diagnosis.model import Level, Role
from diagnosis.values.extremes import greatest

EXCEPTION: Final = words.pattern("phrases", "exception")
#: A class and a colon, as a traceback ends.
RAISED: Final = words.pattern("phrases", "raised")
SYSTEM: Final = words.pattern("phrases", "system")
INNER: Final = words.pattern("phrases", "inner_cause")


#: Exceptions that no rule knows.
UNKNOWN_EXCEPTION: Final = pl.col("is_exception") & pl.col("role").is_null()


#: Lines that no rule knows and that say nothing bad: ordinary ones of the program.
PLAIN: Final = pl.col("role").is_null() & (pl.col("level") < Level.WARNING) & ~pl.col("is_exception")


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of :attr:`Catalogue.events`. ``signature``, ``role``, ``strength`` and ``category``
    None: no rule knows it. ``first_at``, ``last_at``, ``until_at``: ns; None: not known.
    ``weight``: as a root, where it was weighed.
    """

    event: int
    template: str = ""
    example: str = ""
    signature: str | None = None
    role: str | None = None
    own_role: str | None = None
    strength: str | None = None
    category: str | None = None
    level: int = 0
    n: int = 0
    n_nodes: int = 0
    jobs_with_it: int = 0
    novelty: float = 0.0
    first_at: int | None = None
    last_at: int | None = None
    until_at: int | None = None
    first_line: int = 0
    is_stamped: bool = False
    is_exception: bool = False
    is_system: bool = False
    weight: float = 0.0

    def is_below(self, category: str) -> bool:
        """Whether its category is this one or below it."""
        return f"{self.category or ''}.".startswith(f"{category}.")


#: In place of the leading event of a job without one.
NO_EVENT: Final = EventRow(event=-1)


def rows_of(events: pl.DataFrame) -> list[EventRow]:
    """Rows of ``events`` as records. O(rows)."""
    return [_event_row(row.items()) for row in _told(events).iter_rows(named=True)]


def _told(events: pl.DataFrame) -> pl.DataFrame:
    """The columns of :class:`EventRow`."""
    return events[[name for name in EventRow.__struct_fields__ if name in events.columns]]


def _event_row(values: Iterable[tuple[str, Any]]) -> EventRow:
    """A record of the fields that have a value."""
    return EventRow(**{name: value for name, value in values if value is not None})


class _ByEvent:
    """The values of each event, in their order: of 12,000 events a job asks for some tens."""

    def __init__(self, events: pl.Series, values: pl.Series) -> None:
        numbers = events.to_numpy().astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        self._events, self._values = numbers[order], values[order]

    def of(self, event: int) -> list[Any]:
        """The values of one event; none of an unknown one. O(values, and the logarithm of all)."""
        first, last = np.searchsorted(self._events, [event, event + 1]).tolist()
        return self._values[first:last].to_list()


class Catalogue(msgspec.Struct, frozen=True, dict=True):
    """``events``: one row an event, see :func:`build`; ``of``: ``masked`` to ``event``;
    ``occurrences``: the corrected ones with ``event``, ``node``, ``rank``; ``in_part``: the number
    of messages that were not tried with all rules.
    """

    events: pl.DataFrame
    of: pl.DataFrame
    occurrences: pl.DataFrame
    nodes: tuple[str, ...]
    in_part: int = 0

    def masked(self, *events: int) -> list[int]:
        """The messages of some events."""
        if not events:
            return []
        if len(events) == 1:
            return self._masked.of(events[0])
        return self.of.filter(pl.col("event").is_in(events))["masked"].to_list()

    def event(self, event: int) -> EventRow:
        """The row of one event. O(1): a job of many different errors asks for each."""
        return _event_row(self._rows.row(self._places[event], named=True).items())

    @cached_property
    def _masked(self) -> _ByEvent:
        """The messages of each event."""
        return _ByEvent(self.of["event"], self.of["masked"])

    @cached_property
    def _rows(self) -> pl.DataFrame:
        return _told(self.events)

    @cached_property
    def _places(self) -> dict[int, int]:
        """The place of each event in the table."""
        return {event: place for place, event in enumerate(self.events["event"].to_list())}

    @cached_property
    def _nodes(self) -> _ByEvent:
        named = self.occurrences.select("event", "node").drop_nulls().unique()
        return _ByEvent(named["event"], named["node"])

    def has(self, trait: str) -> pl.Expr:
        """Events whose category has a trait of the tree."""
        return pl.col("category").fill_null("").is_in(taxonomy.load().having(trait, self.events["category"]))

    @cached_property
    def _examples(self) -> Haystack:
        return Haystack.of(self.events["example"])

    def says(self, pattern: str) -> pl.Expr:
        """Events whose example a pattern matches."""
        return self._examples.contains(pl.col("example"), pattern)

    @property
    def is_stop(self) -> pl.Expr:
        """Events of a stop from outside: a decision of a person or a scheduler, a signal."""
        return self.has("decision") | pl.col("is_told_to_stop")

    def occurrences_of(self, which: pl.Expr) -> pl.DataFrame:
        """The occurrences of the events that an expression selects. O(occurrences)."""
        events = self.events.select(pl.col("event").filter(which)).to_series()
        if events.is_empty():
            return self.occurrences.clear()
        return self.occurrences.filter(pl.col("event").is_in(events.implode()))

    @cached_property
    def bad(self) -> pl.DataFrame:
        """The events that may belong to a failure: a rule says so, or an error that no other has."""
        has_role = pl.col("role").is_in([Role.ROOT, Role.CASCADE, Role.TEARDOWN, Role.CONFIRMATION])
        claims = pl.col("role").is_null() & ((pl.col("level") >= Level.ERROR) | pl.col("is_exception"))
        return self.events.filter(~pl.col("is_ordinary") & (has_role | claims))

    def nodes_of(self, events: Collection[int]) -> set[str]:
        """The nodes that print any of these events. O(occurrences) once, then O(nodes)."""
        return set(chain.from_iterable(map(self._nodes.of, events)))


def nameless(table: LogTable) -> pl.DataFrame:
    """The messages without names of the job's machines. O(characters of messages)."""
    nodes, told = table.sources["node"].drop_nulls().unique().to_list(), table.messages
    hidden, anonymous = hosts.hide_hosts(told["text"], nodes), hosts.anonymise_hosts(told["example"], nodes)
    return told.select("masked", text=hidden, example=anonymous)


def _placed(occurrences: pl.DataFrame, of: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """The occurrences of events with event and writer. Shared columns are not copied."""
    said, by = occurrences["masked"].to_frame(), occurrences["source"].to_frame()
    of_message = said.join(of, on="masked", how="left", maintain_order="left")
    of_source = by.join(sources, on="source", how="left", maintain_order="left")
    placed = occurrences.hstack([of_message["event"], of_source["node"], of_source["rank"]])
    return placed.drop_nulls("event") if placed["event"].null_count() else placed


def build(
    table: LogTable,
    occurrences: pl.DataFrame,
    without_hosts: pl.DataFrame,
    rules: SignatureSet,
    pool: Pool,
    mined: Callable[[], dict[str, str]],
) -> Catalogue:
    """All events of a job. ``without_hosts``: of :func:`nameless`; ``mined``: waits for the template of each text.

    Columns of ``events``: ``event``, ``template``, ``example``, ``signature``, ``role``, ``strength``, ``category``,
    ``level``, ``n``, ``n_nodes``, ``first_at``, ``last_at``, ``until_at``, ``is_exception``,
    ``jobs_with_it``, ``is_ordinary``, ``novelty``, and those of :func:`event_words.with_words`.
    Cost: O(messages × rules that may match) plus O(occurrences).
    """
    nodes = tuple(sorted(table.sources["node"].drop_nulls().unique().to_list()))
    matches = rules.match_counted(without_hosts)
    matched = _with_inner_causes(matches.rows, table.messages, rules)
    template_of = mined()
    messages = table.messages.with_columns(text=without_hosts["text"])
    hay = Haystack.of(messages["text"])
    joined = messages.join(
        matched.select("masked", "signature", "role", "strength", "category"),
        on="masked",
        how="left",
        maintain_order="left",
    ).with_columns(
        template=pl.col("text").replace_strict(template_of, default=pl.col("text"), return_dtype=pl.String),
        is_system=table.says(SYSTEM),
        is_frame=hay.contains(pl.col("text"), event_words.STRUCTURE),
    )
    is_named = hay.contains(pl.col("text"), EXCEPTION) | pl.col("masked").is_in(
        _traceback_ends(joined, occurrences, hay)
    )
    joined = joined.with_columns(is_exception=is_named & ~pl.col("is_frame"))
    keys = (
        joined.select("template", "signature")
        .unique()
        .sort("template", "signature", nulls_last=True)
        .with_row_index("event")
    )
    joined = joined.join(keys, on=["template", "signature"], how="left", nulls_equal=True, maintain_order="left")
    of = joined.select("masked", "event")
    placed = _placed(occurrences, of, table.sources.select("source", "node", "rank"))
    described = (
        joined.sort("count", "masked", descending=[True, False])
        .group_by("event", maintain_order=True)
        .agg(
            pl.col("template", "example", "signature", "role", "strength", "category").first(),
            pl.col("level").max(),
            pl.col("is_exception", "is_system").any(),
        )
    )
    where = placed.group_by("event").agg(
        n=pl.col("n").sum(),
        n_nodes=pl.col("node").drop_nulls().n_unique(),
        first_at=pl.col("first_at").min(),
        last_at=pl.col("last_at").max(),
        until_at=pl.when(pl.col("until_at").is_null().any()).then(None).otherwise(pl.col("until_at").max()),
        is_stamped=pl.col("is_stamped").any(),
        first_line=pl.col("first_line").min(),
    )
    found = crossjob.frequencies(template_of, pool)
    events = crossjob.weigh(described.join(where, on="event").sort("event"), found, len(pool.jobs), _node_hours(table))
    return Catalogue(event_words.with_words(events), of, placed, nodes, matches.in_part)


def _traceback_ends(messages: pl.DataFrame, occurrences: pl.DataFrame, hay: Haystack) -> pl.Series:
    """Messages that begin with a class and end a traceback, whatever the class is called: ``masked``. At most a line of
    source and its markers are between the last frame and the exception.
    """
    if not messages["is_frame"].any():
        return messages["masked"].head(0).implode()
    says_it = messages.filter(hay.contains(pl.col("text"), RAISED))
    raised = occurrences.join(says_it, on="masked", how="semi")
    in_frames = occurrences.join(messages.filter("is_frame"), on="masked", how="semi")
    frames = in_frames.select("file", line="first_line")
    after = pl.concat([frames.with_columns(first_line=pl.col("line") + lines) for lines in (1, 2, 3)])
    return raised.join(after, on=["file", "first_line"], how="semi")["masked"].unique().implode()


def _node_hours(table: LogTable) -> float:
    spans = table.spans.drop_nulls("first_at")
    longest = greatest(spans["last_at"] - spans["first_at"]) or 0
    hours = longest / 3.6e12
    return max(hours * max(1, table.sources["node"].drop_nulls().n_unique()), 1 / 60)


def _with_inner_causes(matched: pl.DataFrame, messages: pl.DataFrame, rules: SignatureSet) -> pl.DataFrame:
    """``matched`` with inner causes: a message that is no cause itself may quote one ("Last error: out of memory"). The
    inner cause counts, not the wrapper. O(messages).
    """
    role = dict(matched.select("masked", "role").iter_rows())
    hay = Haystack.of(messages["example"])
    quoting = messages.select("masked", inner=hay.extract(pl.col("example"), INNER, 1)).drop_nulls("inner")
    names = ["masked", "signature", "role", "strength", "category"]
    if quoting.is_empty():
        return matched.select(names)
    quoting = quoting.filter(~pl.col("masked").is_in([m for m, r in role.items() if r == Role.ROOT]))
    found = []
    for masked, rule_id in zip(quoting["masked"], rules.match_texts(quoting["inner"].to_list()), strict=True):
        rule = rules.rule(rule_id) if rule_id else None
        if rule is not None and rule.role is Role.ROOT and role.get(masked) != Role.BENIGN:
            found.append((masked, rule.id, rule.role.value, rule.strength.value, rule.category))
    inner = pl.DataFrame(found, schema={n: matched.schema[n] for n in names}, orient="row")
    kept = matched.select(names).filter(~pl.col("masked").is_in(inner["masked"].implode()))
    return pl.concat([kept, inner])


def event_starts(catalogue: Catalogue) -> pl.Series:
    """The start of each event: its stamp; its line number if there is one file without times; else null."""
    events = catalogue.events
    if events["is_stamped"].any():
        return events["first_at"].set(~events["is_stamped"], None).alias("began")
    if catalogue.occurrences["file"].n_unique() == 1:
        return events["first_line"].cast(pl.Int64).alias("began")
    return pl.Series("began", [None], pl.Int64).new_from_index(0, events.height)
