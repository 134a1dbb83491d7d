"""The machines of a job from inventories and job descriptions. All of it is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec

from diagnosis.model import JobHints, Kind, Parsed
from diagnosis.values import numbers
from diagnosis.values.json_values import Json, JsonObject, list_in, objects_in

_NAMES = ("name", "node", "host", "hostname")
_LAYOUT_KEYS = ("tp", "pp", "dp", "cp", "ep", "order")
_LEAVES = ("leaf", "switch", "rail", "tor")


class Machine(msgspec.Struct, frozen=True):
    """A row of an inventory: a machine, or one GPU of it, with its address. Empty: not stated.

    ``port``: that of a rank where several share the address; ``ranks``: those of the machine.
    """

    node: str = ""
    address: str = ""
    port: str = ""
    gpu: str = ""
    switch: str = ""
    ranks: tuple[int, ...] = ()


class Inventory(msgspec.Struct, frozen=True):
    """``nodes`` in order of rank; ``alias``: name or address to node; ``leaf_of``: node to its switch; ``facts``: the
    rest of the description."""

    nodes: tuple[str, ...] = ()
    alias: Mapping[str, str] = msgspec.field(default_factory=dict)
    leaf_of: Mapping[str, str] = msgspec.field(default_factory=dict)
    machines: tuple[Machine, ...] = ()
    framework: str = ""
    job_id: str = ""
    world_size: int | None = None
    gpus_per_node: int | None = None
    layout: JsonObject = msgspec.field(default_factory=dict)
    commands: tuple[str, ...] = ()
    #: of a description of several jobs: the machines of each (names, addresses) and its command lines
    jobs: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = ()
    node_of_rank: Mapping[int, str] = msgspec.field(default_factory=dict)
    #: seconds since the epoch; None: not stated
    begun_at: float | None = None
    ended_at: float | None = None
    node_of_pod: Mapping[str, str] = msgspec.field(default_factory=dict)

    def nodes_of_ranks(self) -> dict[int, str]:
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
    """All facts from descriptions, inventories, layouts and the form's hints, hints first."""
    described = [p for p in parsed if p.kind in {Kind.INVENTORY, Kind.LAYOUT}]
    described.sort(key=lambda p: p.path)
    documents = [p.facts["json"] for p in described if isinstance(p.facts.get("json"), dict)]
    rows = list(chain.from_iterable(map(_rows_of, described)))
    facts: dict[str, Json] = {}
    layout: dict[str, Json] = dict(hints.layout)
    node_of: dict[int, str] = {}
    for document in documents:
        facts = {**document, **facts}
        layout = _stated_layout(document) | layout
        node_of |= _node_of(document)
    jobs = _described_jobs(facts)
    only_job = jobs[0] if len(jobs) == 1 == len(list_in(facts.get("jobs"))) else {}
    machines = _Machines(hints.nodes)
    for row in rows:
        machines.add(row)
    world_size = hints.world_size or facts.get("world_size") or only_job.get("world_size")
    return Inventory(
        nodes=tuple(machines.nodes),
        alias=machines.alias,
        leaf_of=machines.leaf_of,
        machines=tuple(map(machine_of, rows)),
        framework=hints.framework or _first_text(facts, ("framework",)),
        job_id=hints.job_id or _job_id(facts) or _job_id(only_job),
        world_size=_count(world_size),
        gpus_per_node=_count(facts.get("gpus_per_node") or only_job.get("nproc_per_node")),
        layout=layout,
        commands=_commands(only_job or facts),
        jobs=tuple(map(_jobs_machines, jobs)),
        node_of_rank=node_of,
        begun_at=_moment(facts, ("started", "started_at", "start_time", "submitted")),
        ended_at=_moment(facts, ("ended", "ended_at", "end_time", "finished_at")),
    )


def machine_of(row: JsonObject) -> Machine:
    """A row of an inventory."""
    gpu = row.get("gpu")
    return Machine(
        node=_first_text(row, ("node", "name", "host")),
        address=str(row.get("ip") or "").strip(),
        port=_first_text(row, ("port",)),
        gpu="" if gpu is None else str(gpu),
        switch=_first_text(row, ("switch", "leaf")),
    )


def _moment(facts: JsonObject, names: Sequence[str]) -> float | None:
    """The first moment that a description states by these names: epoch seconds or ISO 8601."""
    for name in names:
        stated = facts.get(name)
        if isinstance(stated, (int, float)) and numbers.is_moment(stated):
            return float(stated)
        if isinstance(stated, str):
            with suppress(ValueError, OverflowError):
                moment = datetime.fromisoformat(stated[:40])
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


class _Machines:
    """The machines in order of the rows that name them, after those of the form."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = list(nodes)
        self.alias = {node: node for node in nodes}
        self.leaf_of: dict[str, str] = {}

    def add(self, row: JsonObject) -> None:
        name = _first_text(row, _NAMES)
        if not name:
            return
        if name not in self.alias:
            self.nodes.append(name)
            self.alias[name] = name
        if row.get("ip"):
            self.alias[str(row["ip"])] = name
        switch = _first_text(row, _LEAVES)
        if switch:
            self.leaf_of[name] = switch


def _first_text(row: JsonObject, keys: Sequence[str]) -> str:
    """The first value under one of these keys, as text."""
    return next((str(row[key]) for key in keys if row.get(key)), "")


def _job_id(document: JsonObject) -> str:
    return _first_text(document, ("job_id",))


def _rows_of(p: Parsed) -> list[dict[str, Json]]:
    """The machines in the table and in the description of an artifact."""
    table = p.facts.get("rows")
    document = p.facts.get("json")
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    return rows + _rows(document) if isinstance(document, dict) else rows


def _stated_layout(document: JsonObject) -> dict[str, Json]:
    """The sizes and the order that a description states."""
    source = document.get("parallel") or document.get("layout") or document
    if not isinstance(source, dict):
        return {}
    return {key: source[key] for key in _LAYOUT_KEYS if key in source}


def _described_jobs(facts: JsonObject) -> list[JsonObject]:
    """The jobs of a description of several."""
    return objects_in(facts.get("jobs"))


def _commands(own: JsonObject) -> tuple[str, ...]:
    """The command lines of one job."""
    return tuple(str(own[key]) for key in ("command", "command_line", "cmd") if isinstance(own.get(key), str))


def _jobs_machines(job: JsonObject) -> tuple[frozenset[str], tuple[str, ...]]:
    """The machines and command lines of one of several jobs."""
    names = (row.get(key) for row in _rows(job) for key in (*_NAMES, "ip"))
    return frozenset(str(name) for name in names if name), _commands(job)


def _count(value: Any) -> int | None:
    """A number of ranks that a description states; None for values that are no count, such as JSON's ``Infinity``."""
    return int(value) if isinstance(value, (int, float)) and 1 <= value <= numbers.MAX_RANKS else None


def _rows(data: JsonObject) -> list[dict[str, Json]]:
    """The machines that a description states, and those of its jobs."""
    parts = [data, *objects_in(data.get("jobs"))]
    return [row for part in parts for key in ("nodes", "hosts") for row in _rows_by_name(part.get(key))]


def _rows_by_name(value: Any) -> list[dict[str, Json]]:
    if isinstance(value, dict):
        return [{"name": str(k), **(v if isinstance(v, dict) else {})} for k, v in value.items()]
    if isinstance(value, list):
        return [v if isinstance(v, dict) else {"name": str(v)} for v in value if isinstance(v, (dict, str))]
    return []


def _node_of(data: dict[str, Json]) -> dict[int, str]:
    ranks = data.get("ranks")
    rows = ranks.items() if isinstance(ranks, dict) else enumerate(ranks if isinstance(ranks, list) else [])
    pairs = ((v.get("rank", k), v.get("node") or v.get("host")) if isinstance(v, dict) else (k, v) for k, v in rows)
    return {rank: str(n) for r, n in pairs if n is not None and (rank := numbers.rank(str(r))) is not None}
