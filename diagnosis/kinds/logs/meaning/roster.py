"""Machines and ranks as the job's own log states them: node lists, launchers' tables, libraries'
start-up lines.

A name that a scheduler, a launcher or a communication library states is a machine, in any form. The
statements are data (``rosters.toml``). Rank to node comes from tables and from tasks that the
launcher names. If ranks per node are stated and the node list is complete, it is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.meaning import hosts
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows import writer_nodes
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.knowledge.knowledge_files import records, table
from diagnosis.knowledge.late_patterns import late
from diagnosis.model import ReadRange
from diagnosis.values import numbers
from diagnosis.values.extremes import greatest

#: Maximum number of nodes and ranks of one job: more than any job has, so that a stated range
#: cannot fill the memory.
MAX_NODES: Final = 65_536
#: Maximum number of lines read for statements, and of characters of each.
MAX_LINES: Final = 4_096
MAX_LINE_CHARS: Final = 16_384
#: Names in tables that are no machines.
NOT_MACHINES: Final = frozenset(
    {"localhost", "host", "node", "none", "null", "127.0.0.1", "0.0.0.0", "::1"}  # noqa: S104
)
_LOOKS_LIKE_STATEMENT: Final = late(r"(?=.*\d)[A-Za-z0-9][\w.:\-]{2,}")
_RANGE: Final = late(r"([^\[\],]*)(?:\[([\d,\-]+)\])?([^,\[\]]*)")


class Statement(msgspec.Struct, frozen=True):
    """One way in which logs name machines."""

    id: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    is_listed: bool = False
    is_exact: bool = False
    is_address: bool = False
    rank_below: re.Pattern[str] | None = None


class Roster(msgspec.Struct, frozen=True):
    """``nodes`` in the order in which they are stated, ``lists``: lists of nodes as stated,
    ``node_of``: rank to node, ``task_of``: a launcher's task to node, ``per_node``: ranks per node
    if stated, ``node_of_pod``: pod to the node that it was assigned to, ``host_of_address``: IP
    address to the host that states it as its own.
    """

    nodes: tuple[str, ...] = ()
    lists: tuple[tuple[str, ...], ...] = ()
    node_of: Mapping[int, str] = msgspec.field(default_factory=dict)
    task_of: Mapping[int, str] = msgspec.field(default_factory=dict)
    per_node: int | None = None
    node_of_pod: Mapping[str, str] = msgspec.field(default_factory=dict)
    host_of_address: Mapping[str, str] = msgspec.field(default_factory=dict)

    def node_of_address(self) -> dict[str, str]:
        """IP address to node; to that of the pod, if a pod states the address."""
        return {address: self.node_of_pod.get(host, host) for address, host in self.host_of_address.items()}

    def nodes_of_ranks(self) -> dict[int, str]:
        """Rank to node: as stated, the rest computed if the stated ones agree with the computation.

        A launcher's tasks are ranks unless each starts the workers of a whole node: then they count
        nodes.
        """
        per = self.per_node
        starts_a_node = bool(per and per > 1) and all(
            task < len(self.nodes) and self.nodes[task] == node for task, node in self.task_of.items()
        )
        stated = dict(self.node_of) if starts_a_node else {**self.task_of, **self.node_of}
        if not per or len(self.nodes) < 2:
            return stated
        counted = {rank: self.nodes[rank // per] for rank in range(min(per * len(self.nodes), MAX_NODES))}
        return counted if all(counted.get(rank, node) == node for rank, node in stated.items()) else stated


class Statements(msgspec.Struct, frozen=True):
    """``every``: what names machines or ranks per node; ``no_name``: words that are no names."""

    every: tuple[Statement, ...]
    no_name: frozenset[str]


@cache
def statements() -> Statements:
    """The statements of ``rosters.toml``."""
    data = table("rosters", "diagnosis.kinds.logs.meaning")
    return Statements(records(Statement, data["statement"] + data["per_node"]), frozenset(data["no_name"]))


def roster_of_lines(lines: Iterable[str]) -> Roster:
    """What these lines state, in order; at most :data:`MAX_NODES` names. O(lines)."""
    known = statements()
    reading = _Reading()
    for line in lines:
        reading.continue_table(line)
        lower = line.lower()
        for statement in known.every:
            if any(word in lower for word in statement.needs):
                reading.add_matches(statement, line, known.no_name)
    return reading.found()


class _Reading(msgspec.Struct):
    """What the lines so far state. ``doubtful``: names and ranks of lists that may list something
    else; ``table``: the node of a launcher's table whose rank stands in a later line, and how.
    """

    nodes: dict[str, None] = msgspec.field(default_factory=dict)
    lists: dict[tuple[str, ...], None] = msgspec.field(default_factory=dict)
    listed_count: int = 0
    node_of: dict[int, str] = msgspec.field(default_factory=dict)
    task_of: dict[int, str] = msgspec.field(default_factory=dict)
    node_of_pod: dict[str, str] = msgspec.field(default_factory=dict)
    host_of_address: dict[str, str] = msgspec.field(default_factory=dict)
    doubtful: list[tuple[str, str | None]] = msgspec.field(default_factory=list)
    per_node: set[int] = msgspec.field(default_factory=set)
    table: tuple[str, re.Pattern[str]] | None = None

    def continue_table(self, line: str) -> None:
        """Read the rank of an open table, if it stands in this line."""
        if self.table is None:
            return
        node, pattern = self.table
        found = pattern.search(line)
        if found is not None:
            _keep_rank(self.node_of, found["rank"], node)
            self.table = None

    def add_matches(self, statement: Statement, line: str, no_name: frozenset[str]) -> None:
        """Add what a line states in this way."""
        not_names = NOT_MACHINES if statement.is_exact else no_name
        for found in statement.pattern.finditer(line):
            parts = found.groupdict()
            if "count" in parts:
                self.per_node.add(int(parts["count"]))
            else:
                self._add(statement, parts, _stated_names(parts, not_names))

    def _add(self, statement: Statement, parts: Mapping[str, str | None], names: list[str]) -> None:
        if names:
            self._add_address(parts.get("address"), names[0])
        if statement.is_address:
            return
        if statement.is_listed:
            self.doubtful += [(name, parts.get("rank")) for name in names]
            return
        if names:
            self._add_names(names)
            self._add_parts(parts, names[0])
        if names and statement.rank_below is not None:
            self.table = (names[0], statement.rank_below)

    def _add_address(self, address: str | None, host: str) -> None:
        if address and len(self.host_of_address) < MAX_NODES:
            self.host_of_address[address] = host

    def _add_names(self, names: list[str]) -> None:
        self.nodes.update(dict.fromkeys(names[: MAX_NODES - len(self.nodes)]))
        if len(names) > 1 and self.listed_count < MAX_NODES:
            self.listed_count += len(names)
            self.lists.setdefault(tuple(names))

    def _add_parts(self, parts: Mapping[str, str | None], node: str) -> None:
        """Add the rank, the pod and the tasks of a node."""
        rank, pod, tasks = parts.get("rank"), parts.get("pod"), parts.get("tasks")
        if rank:
            _keep_rank(self.node_of, rank, node)
        if pod and len(self.node_of_pod) < MAX_NODES:
            self.node_of_pod[pod] = node  # the last assignment
        if tasks:
            for task in expand_node_list(f"[{tasks.strip('[]')}]"):
                _keep_rank(self.task_of, task, node)

    def found(self) -> Roster:
        """The roster of all lines."""
        for name, rank in self.doubtful:
            is_name = name in self.nodes or _LOOKS_LIKE_STATEMENT.fullmatch(name)
            if is_name and len(self.nodes) < MAX_NODES:
                self._add_doubtful(name, rank)
        is_one_count = len(self.per_node - {0}) == 1
        return Roster(
            tuple(self.nodes),
            tuple(self.lists),
            self.node_of,
            self.task_of,
            max(self.per_node) if is_one_count else None,
            self.node_of_pod,
            self.host_of_address,
        )

    def _add_doubtful(self, name: str, rank: str | None) -> None:
        self.nodes.setdefault(name)
        if rank:
            _keep_rank(self.node_of, rank, name)


def _stated_names(parts: Mapping[str, str | None], not_names: frozenset[str]) -> list[str]:
    """The names of one statement, without words that name no machine."""
    node = parts.get("node")
    stated = [node] if node else expand_node_list(parts.get("list") or "")
    bare = map(_bare_name, stated)
    return [name for name in bare if name and name.lower() not in not_names]


def expand_node_list(text: str) -> list[str]:
    """The names of ``gpu[001-003,7],login1``, or PBS's ``n3/0*8+n4/0*8``, up to a limit."""
    if "+" in text or "/" in text:
        return list(dict.fromkeys(part.partition("/")[0] for part in text.split("+") if part))[:MAX_NODES]
    out: list[str] = []
    for found in _RANGE.finditer(text):
        head, ranges, tail = found.groups()
        if ranges is None:
            out += [head + tail] if head + tail else []
            continue
        for part in ranges.split(","):
            numbered = islice(_numbers(part), MAX_NODES - len(out))
            out += [f"{head}{number}{tail}" for number in numbered]
        if len(out) >= MAX_NODES:
            break
    return out[:MAX_NODES]


def _numbers(part: str) -> Iterator[str]:
    """The numbers of ``003-007`` or ``7``, as wide as the first; none of what is no range."""
    low, _, high = part.partition("-")
    first, last = numbers.whole(low), numbers.whole(high or low)
    if first is not None and last is not None:
        yield from (f"{number:0{len(low)}d}" for number in range(first, last + 1))


def _bare_name(name: str) -> str:
    """A name without the marks around it, as of "[default0]:node-7:"; "::" begins an address."""
    name = name.rstrip(".:,")
    return name if name.startswith("::") else name.lstrip(":")


def _keep_rank(node_of: dict[int, str], rank: str, node: str) -> None:
    number = numbers.whole(rank)
    if number is not None and number < MAX_NODES:
        node_of.setdefault(number, node)


def read_roster(table: LogTable, read: ReadRange) -> Roster:
    """The statements of a job's logs. Only lines whose message holds a word of a statement are
    read, at most
    :data:`MAX_LINES`.
    """
    rows = table.rows(_messages_with_statements(table.messages), limit=MAX_LINES).sort("file", "line")
    found = roster_of_lines(raw_lines.read_lines(rows, table.files, read, MAX_LINE_CHARS))
    ranks = (greatest(table.sources["rank"]) or 0) + 1
    if not 1 < len(found.nodes) < ranks or found.node_of != dict(enumerate(found.nodes)):
        return found
    # a "rank" for each node in turn, though higher ranks write lines: these are numbers of nodes
    return replace(found, node_of={}, per_node=-(-ranks // len(found.nodes)))


def _messages_with_statements(messages: pl.DataFrame) -> list[int]:
    """The numbers of the messages that match a statement. A single word, such as "rank", is in half
    of all lines, so each pattern is searched for; but only where a word of its own statement is. A
    rank below may be without one.
    """
    known = statements().every
    words = list(dict.fromkeys(chain.from_iterable(one.needs for one in known)))
    sought = [(frozenset(one.needs), one.pattern) for one in known]
    sought += [(frozenset(words), one.rank_below) for one in known if one.rank_below]
    held = pl.col("example").str.to_lowercase().str.extract_many(words, overlapping=True)
    texts = messages.select("masked", "example", held=held).filter(pl.col("held").list.len() > 0)
    told: list[int] = []
    for masked, text, words_held in texts.iter_rows():
        patterns = (pattern for needs, pattern in sought if not needs.isdisjoint(words_held))
        if any(pattern.search(text) for pattern in patterns):
            told.append(masked)
    return sorted(told)


def apply_roster(
    table: LogTable,
    known: Iterable[str],
    node_of: Mapping[int, str],
    read_: ReadRange,
    node_of_pod: Mapping[str, str] | None = None,
) -> tuple[LogTable, Roster]:
    """The table with writers on the machines that the log itself states, and the roster.
    O(messages + occurrences + lines of the roster).

    Args:
        known: nodes of an inventory, which outrank the log.
        node_of: rank to node as an inventory says.
        read_: reads bytes of the evidence.
        node_of_pod: pod to node as listings of pods say.
    """
    known = tuple(known)
    found = read_roster(table, read_)
    if node_of_pod:
        found = _with_pods(found, table, node_of_pod)
    if not found.nodes:
        return table, found
    # writers in a pod name the pod, but the machine fails; one machine for all pods does not
    # distinguish them
    is_apart = len(set(found.node_of_pod.values())) > 1 or len(found.node_of_pod) == 1
    # a launcher's prefix may name a machine by its address only
    node_of_host = (dict(found.node_of_pod) if is_apart else {}) | found.node_of_address()
    sources = table.sources.with_columns(pl.col("node").replace(node_of_host))
    home = found.nodes_of_ranks() | dict(node_of)
    seen = sources["node"].drop_nulls().unique().to_list()
    # a report of one machine ("rank 8 on r03-n02 computes wrong results") is no list of the job's
    # machines
    stated = set(found.nodes)
    seen = [name for name in seen if name in stated or writer_nodes.component(name, stated) is None]
    listed = found.nodes if len(stated) >= len(seen) else tuple(sorted({*stated, *seen}))
    return replace(table, sources=writer_nodes.settle_nodes(sources, table.files, known or listed, home)), found


def _with_pods(found: Roster, table: LogTable, node_of_pod: Mapping[str, str]) -> Roster:
    """The roster with the pods that write lines, by names or their ends ("pod-worker-2.log")."""
    nodes_of = dict(found.node_of_pod)
    for writer in table.sources["node"].drop_nulls().unique().sort().to_list():
        words = str(writer).split("-")
        names = ("-".join(words[first:]) for first in range(len(words)))
        home = next((node_of_pod[name] for name in names if name in node_of_pod), None)
        if home is not None:
            nodes_of[writer] = home
    nodes = tuple(dict.fromkeys((*found.nodes, *nodes_of.values())))
    return replace(found, nodes=nodes, node_of_pod=nodes_of)


def named_in(text: str, known: Mapping[str, str]) -> set[str]:
    """Machines that a statement in a text names ("Node failure on a"), if they are ``known`` (names
    and addresses to machines); else those whose whole name occurs in it.
    """
    stated = {known[name] for name in roster_of_lines([text]).nodes if name in known}
    return stated or hosts.names_in(text, known)
