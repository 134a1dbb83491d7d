"""What the evidence of its last jobs tells of a machine: its parts, and the machines on its switch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnosis.values.numbers import natural_key
from ingest.models import Job, Node
from triage.diagnosis_tables import table_path
from triage.metrics import LEMON_DAYS
from triage.models import Diagnosis, Suspect
from triage.selectors.nodes import accusations_since

#: facts of its parts, and machines on its switch, that its page shows
MAX_FACTS, MAX_NEIGHBOURS = 24, 32
#: its latest jobs of which the first one with reports is shown
MAX_JOBS = 8
_COLUMNS = ("part", "name", "value", "usual", "is_odd")


class PartFact(NamedTuple):
    """What a report states of a part, or of the whole machine; ``usual``: what most others state."""

    part: str
    name: str
    value: str
    usual: str
    is_odd: bool


class Neighbour(NamedTuple):
    """Another machine on the same switch; how often it was accused in 28 days."""

    name: str
    recent: int


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Facts of the latest job with reports of this machine, and the switch of the latest that names it."""

    job: Job | None = None
    facts: list[PartFact] = field(default_factory=list)
    left_out: int = 0
    switch: str = ""
    neighbours: list[Neighbour] = field(default_factory=list)
    neighbours_count: int = 0


def node_parts(node: Node, accusations: Iterable[Suspect], *, now: datetime) -> NodeParts:
    """``accusations``: its latest ones first, with their incidents and jobs. At most three queries,
    and one table of facts.
    """
    jobs = {one.incident.diagnosis_id: one.incident.job for one in accusations}
    asked = list(jobs)[:MAX_JOBS]
    columns = ("pk", "report__facts__table", "report__job__switch_of")
    told = {pk: rest for pk, *rest in Diagnosis.objects.filter(pk__in=asked).values_list(*columns)}
    switches = (told[pk][1] or {} for pk in asked if pk in told)
    switch_of = next((names for names in switches if node.name in names), {})
    neighbours, count = _neighbours(node, switch_of, now)
    tables = ((pk, told[pk][0]) for pk in asked if pk in told and told[pk][0])
    pk, facts = next(_with_facts(node, tables), (0, []))
    return NodeParts(
        job=jobs.get(pk),
        facts=facts[:MAX_FACTS],
        left_out=max(0, len(facts) - MAX_FACTS),
        switch=switch_of.get(node.name, ""),
        neighbours=neighbours,
        neighbours_count=count,
    )


def _neighbours(node: Node, switch_of: dict[str, str], now: datetime) -> tuple[list[Neighbour], int]:
    """The known machines on its switch, those that were accused most first, and how many there are."""
    switch = switch_of.get(node.name)
    names = [name for name, other in switch_of.items() if other == switch and name != node.name]
    if not switch or not names:
        return [], 0
    known = dict(Node.objects.filter(cluster=node.cluster_id, name__in=names).values_list("pk", "name"))
    recent = accusations_since(list(known), now - timedelta(days=LEMON_DAYS))
    rows = [Neighbour(name, recent.get(pk, 0)) for pk, name in known.items()]
    rows.sort(key=lambda one: (-one.recent, natural_key(one.name)))
    return rows[:MAX_NEIGHBOURS], len(rows)


def _with_facts(node: Node, tables: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[PartFact]]]:
    """The diagnoses with facts of this machine, and these: the odd ones first, then by part."""
    import polars as pl  # noqa: PLC0415  # heavy

    for pk, name in tables:
        path = table_path(Diagnosis(pk=pk), name)
        if path is None:
            continue
        facts = pl.scan_parquet(path).filter(pl.col("place") == node.name).select(_COLUMNS)
        ordered = facts.sort("is_odd", "part", "name", descending=[True, False, False]).collect()
        if ordered.height:
            yield pk, [PartFact(*row) for row in ordered.unique(maintain_order=True).iter_rows()]
