"""The events of a job: its messages joined with templates, signatures and history, one row an event with where and
when it was seen.

An event is a template together with the rule that matched its messages: two wordings of one template that two rules
tell apart stay apart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from diagnosis.history import Pool
from diagnosis.logs import crossjob, hosts, templates
from diagnosis.logs.events import LogTable
from diagnosis.logs.signatures import SignatureSet
from diagnosis.model import Level, Role

#: A line that ends a traceback, as Python writes it; group 1 is the type.
EXCEPTION: Final = (
    r"(?:^|[\s:\]])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Failure|Abort))(?::\s|:?$)"
)
#: Lines that a kernel, a scheduler or an orchestrator wrote.
SYSTEM: Final = (
    r"\bkernel: |\bdmesg: |^\[ *\d+\.\d{6}\] |^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |^\S* ?(Normal"
    r"|Warning) +[A-Z]\w+ +\w+/|^(srun|slurmstepd|slurmctld|slurmd|sbatch)\b"
)
#: What introduces the cause that a message quotes.
INNER: Final = r"(?i)\b(?:(?:last error|root cause|reason|caused by)\b ?:\s*|(?:caused by|due to) previous )(.{6,600})"
#: Lines that only frame an error: they belong to it but tell nothing.
STRUCTURE: Final = r'^\W*(File "|frame #\d|#\d+ 0x|at [\w.]+\()|^\W*[~^]+\W*$|^\W*Traceback \(most recent'


@dataclass(frozen=True)
class Catalogue:
    """``events``: one row an event, see :func:`build`; ``of``: ``masked`` to ``event``; ``cells``: corrected cells
    with ``event``, ``node``, ``rank``."""

    events: pl.DataFrame
    of: pl.DataFrame
    cells: pl.DataFrame
    nodes: tuple[str, ...]

    def masked(self, event: int) -> list[int]:
        """The messages of one event."""
        return self.of.filter(pl.col("event") == event)["masked"].to_list()

    def event(self, event: int) -> dict[str, Any]:
        """The row of one event."""
        return self.events.filter(pl.col("event") == event).row(0, named=True)

    def nodes_of(self, events: Collection[int]) -> set[str]:
        """The nodes that print any of these events. O(cells)."""
        return set(self.cells.filter(pl.col("event").is_in(list(events)))["node"].drop_nulls().unique().to_list())


def build(table: LogTable, cells: pl.DataFrame, rules: SignatureSet, pool: Pool, node_hours: float) -> Catalogue:
    """All events of a job.

    Columns of ``events``: ``event``, ``template``, ``example``, ``signature``, ``role``, ``strength``, ``category``,
    ``order``, ``level``, ``n``, ``n_nodes``, ``n_sources``, ``first_at``, ``last_at``, ``until_at``, ``is_exception``,
    ``jobs_with_it``, ``is_ordinary``, ``novelty``.
    Cost: O(messages × rules that may match) plus O(cells).
    """
    nodes = tuple(sorted(table.sources["node"].drop_nulls().unique().to_list()))
    messages = table.messages.with_columns(text=hosts.hide(table.messages["text"], nodes))
    template_of = _templates(messages, pool)
    matched = _with_inner(rules.match(messages.select("masked", "text", "example")), messages, rules)
    joined = messages.join(
        matched.select("masked", "signature", "role", "strength", "category", "order"),
        on="masked",
        how="left",
        maintain_order="left",
    ).with_columns(
        template=pl.col("text").replace_strict(template_of, default=pl.col("text"), return_dtype=pl.String),
        is_system=pl.col("example").str.contains(SYSTEM),
        is_exception=pl.col("text").str.contains(EXCEPTION) & ~pl.col("text").str.contains(STRUCTURE),
    )
    keys = (
        joined.select("template", "signature")
        .unique()
        .sort("template", "signature", nulls_last=True)
        .with_row_index("event")
    )
    joined = joined.join(keys, on=["template", "signature"], how="left", nulls_equal=True, maintain_order="left")
    of = joined.select("masked", "event")
    placed = cells.join(of, on="masked", maintain_order="left").join(
        table.sources.select("source", "node", "rank"), on="source", how="left", maintain_order="left"
    )
    described = (
        joined.sort("count", "masked", descending=[True, False])
        .group_by("event", maintain_order=True)
        .agg(
            pl.col("template").first(),
            pl.col("example").first(),
            pl.col("signature").first(),
            pl.col("role").first(),
            pl.col("strength").first(),
            pl.col("category").first(),
            pl.col("order").first(),
            pl.col("level").max(),
            pl.col("is_exception").any(),
            pl.col("is_system").any(),
        )
    )
    where = placed.group_by("event").agg(
        n=pl.col("n").sum(),
        n_nodes=pl.col("node").drop_nulls().n_unique(),
        n_sources=pl.struct("node", "rank").n_unique(),
        first_at=pl.col("first_at").min(),
        last_at=pl.col("last_at").max(),
        until_at=pl.when(pl.col("until_at").is_null().any()).then(None).otherwise(pl.col("until_at").max()),
        is_stamped=pl.col("is_stamped").any(),
        first_line=pl.col("first_line").min(),
    )
    found = crossjob.frequencies(template_of, pool)
    events = crossjob.weigh(described.join(where, on="event").sort("event"), found, len(pool.jobs), node_hours)
    return Catalogue(events, of, placed, nodes)


def _with_inner(matched: pl.DataFrame, messages: pl.DataFrame, rules: SignatureSet) -> pl.DataFrame:
    """``matched`` where a message that no rule takes for a cause quotes one ("Last error: out of memory"): the inner
    cause is what happened, not the wrapper. O(messages)."""
    role = dict(matched.select("masked", "role").iter_rows())
    quoting = messages.select("masked", inner=pl.col("example").str.extract(INNER, 1)).drop_nulls("inner")
    quoting = quoting.filter(~pl.col("masked").is_in([m for m, r in role.items() if r == Role.ROOT.value]))
    found = []
    for masked, rule_id in zip(quoting["masked"], rules.match_texts(quoting["inner"].to_list()), strict=True):
        rule = rules.rule(rule_id) if rule_id else None
        if rule is not None and rule.role is Role.ROOT and role.get(masked) != Role.BENIGN.value:
            found.append((masked, rule.id, rule.role.value, rule.strength.value, rule.category, rule.order))
    names = ["masked", "signature", "role", "strength", "category", "order"]
    inner = pl.DataFrame(found, schema={n: matched.schema[n] for n in names}, orient="row")
    kept = matched.select(names).filter(~pl.col("masked").is_in(inner["masked"].implode()))
    return pl.concat([kept, inner])


def _templates(messages: pl.DataFrame, pool: Pool) -> dict[str, str]:
    """Masked text to template, clustered over this job and the history together."""
    texts = set(messages["text"].to_list())
    for job in pool.jobs:
        texts.update(job.counts)
    every = sorted(texts)
    frame = pl.DataFrame(
        {"masked": [templates.template_id(t) for t in every], "text": every},
        schema={"masked": pl.UInt64, "text": pl.String},
    )
    mined = templates.mine([frame])
    joined = frame.join(mined.select("masked", template="text"), on="masked", how="left")
    return dict(zip(joined["text"], joined["template"].fill_null(joined["text"]), strict=True))


def resolve(events: pl.DataFrame, rules: SignatureSet) -> pl.DataFrame:
    """Roles in the context of this failure: a root that yields to another rule present (and not ordinary) becomes a
    cascade.

    ``own_role`` keeps what the rule itself says.
    """
    present = events.filter(pl.col("signature").is_not_null() & ~pl.col("is_ordinary"))["signature"].unique().to_list()
    roles = {rule: role.value for rule, role in rules.resolve(present).items()}
    events = events.with_columns(own_role=pl.col("role"))
    if not roles:
        return events
    return events.with_columns(
        role=pl.coalesce(
            pl.col("signature").replace_strict(roles, default=None, return_dtype=pl.String), pl.col("role")
        )
    )


def is_bad(events: pl.DataFrame) -> pl.Series:
    """Which events may speak of a failure at all: a rule says so, or the line calls itself an error and no healthy
    job prints it."""
    told = pl.col("role").is_in([Role.ROOT.value, Role.CASCADE.value, Role.TEARDOWN.value, Role.CONFIRMATION.value])
    claims = pl.col("role").is_null() & ((pl.col("level") >= Level.ERROR.value) | pl.col("is_exception"))
    return events.select(~pl.col("is_ordinary") & (told | claims)).to_series()
