"""The machines of a job from inventories and job descriptions. All of it is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnosis import numbers
from diagnosis.model import JobHints, Kind, Parsed

_NAMES = ("name", "node", "host", "hostname")
_LEAVES = ("leaf", "switch", "rail", "tor")


@dataclass(frozen=True)
class Inventory:
    """``nodes`` in order of rank; ``alias``: name or address to node; ``leaf_of``: node to its switch; ``facts``: the
    rest of the description."""

    nodes: tuple[str, ...] = ()
    alias: Mapping[str, str] = field(default_factory=dict)
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()
    framework: str = ""
    job_id: str = ""
    world_size: int | None = None
    gpus_per_node: int | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    #: of a description of several jobs: the machines of each (names, addresses) and its command lines
    jobs: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = ()
    node_of_rank: Mapping[int, str] = field(default_factory=dict)

    def home_of_rank(self) -> dict[int, str]:
        """Rank to node: as stated, else ranks in order of nodes if the sizes agree."""
        if self.node_of_rank:
            return dict(self.node_of_rank)
        per, nodes = self.gpus_per_node, self.nodes
        if not per or not nodes or (self.world_size and self.world_size != per * len(nodes)):
            return {}
        if per * len(nodes) > numbers.MAX_RANKS:
            return {}
        return {rank: nodes[rank // per] for rank in range(per * len(nodes))}


def read(parsed: Sequence[Parsed], hints: JobHints) -> Inventory:
    """All facts from job descriptions, inventories, layouts and the form's hints, hints first. Unknown forms are
    ignored.
    """
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    layout: dict[str, Any] = dict(hints.layout)
    node_of: dict[int, str] = {}
    for p in sorted((p for p in parsed if p.kind in (Kind.INVENTORY, Kind.LAYOUT)), key=lambda p: p.path):
        data = p.facts.get("json")
        if isinstance(p.facts.get("rows"), list):
            rows += [r for r in p.facts["rows"] if isinstance(r, dict)]
        if not isinstance(data, dict):
            continue
        rows += _rows(data)
        for key, value in data.items():
            facts.setdefault(key, value)
        source = data.get("parallel") or data.get("layout") or data
        if isinstance(source, dict):
            layout = {k: source[k] for k in ("tp", "pp", "dp", "cp", "ep", "order") if k in source} | layout
        node_of |= _node_of(data)
    nodes = list(hints.nodes)
    alias: dict[str, str] = {n: n for n in nodes}
    leaf: dict[str, str] = {}
    for row in rows:
        name = next((str(row[k]) for k in _NAMES if row.get(k)), "")
        if not name:
            continue
        if name not in alias:
            nodes.append(name)
            alias[name] = name
        if row.get("ip"):
            alias[str(row["ip"])] = name
        switch = next((str(row[k]) for k in _LEAVES if row.get(k)), "")
        if switch:
            leaf[name] = switch
    jobs = facts.get("jobs")
    first = jobs[0] if isinstance(jobs, list) and len(jobs) == 1 and isinstance(jobs[0], dict) else {}
    stated = hints.world_size or facts.get("world_size") or first.get("world_size")
    return Inventory(
        nodes=tuple(nodes),
        alias=alias,
        leaf_of=leaf,
        rows=tuple(rows),
        framework=hints.framework or str(facts.get("framework") or ""),
        job_id=hints.job_id or str(facts.get("job_id") or first.get("job_id") or ""),
        world_size=_count(stated),
        gpus_per_node=_count(facts.get("gpus_per_node") or first.get("nproc_per_node")),
        layout=layout,
        commands=_commands(first or facts),
        jobs=tuple(_jobs_machines(job) for job in jobs if isinstance(job, dict)) if isinstance(jobs, list) else (),
        node_of_rank=node_of,
    )


def _commands(own: Mapping[str, Any]) -> tuple[str, ...]:
    """The command lines of one job."""
    return tuple(str(own[key]) for key in ("command", "command_line", "cmd") if isinstance(own.get(key), str))


def _jobs_machines(job: dict[str, Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The machines and command lines of one of several jobs."""
    names = (row.get(key) for row in _rows(job) for key in (*_NAMES, "ip"))
    return frozenset(str(name) for name in names if name), _commands(job)


def _count(value: Any) -> int | None:
    """A number of ranks that a description states; None for values that are no count, such as JSON's ``Infinity``."""
    return int(value) if isinstance(value, (int, float)) and 1 <= value <= numbers.MAX_RANKS else None


def _rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The machines that a description states, and those of its jobs."""
    parts = [data, *(job for job in data.get("jobs") or [] if isinstance(job, dict))]
    return [row for part in parts for key in ("nodes", "hosts") for row in _rows_by_name(part.get(key))]


def _rows_by_name(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [{"name": str(k), **(v if isinstance(v, dict) else {})} for k, v in value.items()]
    if isinstance(value, list):
        return [v if isinstance(v, dict) else {"name": str(v)} for v in value if isinstance(v, (dict, str))]
    return []


def _node_of(data: dict[str, Any]) -> dict[int, str]:
    ranks = data.get("ranks")
    rows = ranks.items() if isinstance(ranks, dict) else enumerate(ranks if isinstance(ranks, list) else [])
    pairs = ((v.get("rank", k), v.get("node") or v.get("host")) if isinstance(v, dict) else (k, v) for k, v in rows)
    return {rank: str(n) for r, n in pairs if n is not None and (rank := numbers.rank(str(r))) is not None}
