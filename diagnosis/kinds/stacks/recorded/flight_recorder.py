"""PyTorch Flight Recorder: the collectives that each rank scheduled, started and completed (torch >= 2.5, pickle and
JSON).

A ring buffer may hold thousands of entries a rank; of each process group only the counters and the incomplete entries
are kept. ``pg_status`` is keyed by a local id that differs between ranks, ``pg_config`` by the group's name; entries
hold both and join them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

from diagnosis.kinds.stacks.recorded import unpickle

#: Number of entries kept for one group of one rank: the oldest open ones show the hang, the newest the progress of its
#: host.
MAX_ENTRIES = 64
#: Number of entries of one dump that are read, the newest; a ring buffer holds 2,000 unless somebody sets more. One
#: entry that a pickle writes once and refers to a million times counts a million times.
MAX_READ_ENTRIES = 50_000
_NUMBERS = re.compile(r"\d+")


class Collective(msgspec.Struct, frozen=True):
    """One collective or point-to-point call of a rank. ``seq`` counts the calls of its process group; ``sizes``: the
    shapes of its inputs, as recorded: any value.
    """

    seq: int
    op: str
    is_p2p: bool = msgspec.field(name="p2p", default=False)
    sizes: Any = None


class RecordedGroup(msgspec.Struct):
    """One process group of one rank. ``ranks`` as runs (:func:`expand_span`); ``open``: calls that did not complete,
    oldest first; ``last``: the newest call. ``enqueued`` and ``completed``: number of the last such collective, -1 if
    unknown.
    """

    name: str
    desc: str = ""
    ranks: list[list[int]] = msgspec.field(default_factory=list)
    open: list[Collective] = msgspec.field(default_factory=list)
    last: Collective | None = None
    enqueued: int = -1
    completed: int = -1


class Recording(msgspec.Struct):
    """One rank's dump. ``entries`` counts those that were read, ``left_out`` older ones that were not."""

    version: str
    entries: int
    groups: list[RecordedGroup]
    left_out: int = 0


def read_pickle(data: bytes) -> Recording:
    """:raises unpickle.HostilePickle, unpickle.BrokenPickle, ValueError: with a sentence for the reader."""
    return summarise(unpickle.loads(data))


def read_json(text: str) -> Recording:
    """:raises ValueError: not JSON, or not Flight Recorder's."""
    return summarise(json.loads(text))


def _ranks(value: Any) -> list[int]:
    """``ranks`` is the *text* of a list in every release seen; a list is read too."""
    if isinstance(value, str):
        return [int(n) for n in _NUMBERS.findall(value)]
    if isinstance(value, (list, tuple)):
        return [int(n) for n in value if isinstance(n, int)]
    return []


def to_span(ranks: list[int]) -> list[list[int]]:
    """Ranks as ``[start, stop, step]`` runs: a world group of 4,096 ranks would otherwise be repeated in 4,096
    artifacts."""
    runs: list[list[int]] = []
    for rank in ranks:
        if not runs or not _extend(runs[-1], rank):
            runs.append([rank, rank, 1])
    return runs


def _extend(run: list[int], rank: int) -> bool:
    """Make a rank the end of a run; whether it can be that."""
    start, stop, step = run
    if rank == stop + step:
        run[1] = rank
        return True
    is_single = start == stop
    if is_single and rank > stop:
        run[1:] = [rank, rank - start]
        return True
    return False


def expand_span(runs: list[list[int]]) -> list[int]:
    """The ranks of such runs."""
    ranges = [range(start, stop + 1, step) for start, stop, step in runs]
    return list(chain.from_iterable(ranges))


def summarise(data: Any) -> Recording:
    """What is kept of one rank's dump. Linear in its entries.

    :raises ValueError: not a Flight Recorder dump.
    """
    if not _is_recording(data):
        raise ValueError("it has no entries and no process groups, so it is not a Flight Recorder dump")
    groups = _described_groups(data.get("pg_config"))
    counters_by_id = _mapping(data.get("pg_status"))
    every = data.get("entries") or []
    rows = [row for row in every[-MAX_READ_ENTRIES:] if isinstance(row, Mapping)]
    counted: set[str] = set()
    for row in rows:
        name, desc = _group_name(row)
        group = groups.setdefault(name, RecordedGroup(name, desc))
        if name not in counted and _read_counters(group, counters_by_id, row.get("pg_id")):
            counted.add(name)
        _add_entry(group, row)
    for group in groups.values():
        if len(group.open) > MAX_ENTRIES:
            half = MAX_ENTRIES // 2
            group.open = group.open[:half] + group.open[-half:]
    left_out = max(0, len(every) - MAX_READ_ENTRIES)
    return Recording(str(data.get("version") or ""), len(rows), list(groups.values()), left_out)


def _is_recording(data: Any) -> bool:
    if not isinstance(data, Mapping) or not isinstance(data.get("entries", []), list):
        return False
    return not {"entries", "pg_status", "pg_config"}.isdisjoint(data)


def _mapping(value: Any) -> Mapping[Any, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _described_groups(config: Any) -> dict[str, RecordedGroup]:
    """The process groups that the configuration lists, by name."""
    groups: dict[str, RecordedGroup] = {}
    for described in _mapping(config).values():
        if isinstance(described, Mapping):
            name = str(described.get("name"))
            ranks = to_span(_ranks(described.get("ranks")))
            groups[name] = RecordedGroup(name, str(described.get("desc") or ""), ranks)
    return groups


def _group_name(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Name and description of the process group of an entry."""
    group = row.get("process_group")
    if isinstance(group, (list, tuple)) and len(group) > 1:
        return str(group[0]), str(group[1])
    return str(row.get("pg_id")), ""


def _read_counters(group: RecordedGroup, counters_by_id: Mapping[Any, Any], local_id: Any) -> bool:
    """Read the group's counters; whether there are any."""
    counters = counters_by_id.get(str(local_id), counters_by_id.get(local_id))
    if not isinstance(counters, Mapping):
        return False
    group.enqueued = _counter(counters, "last_enqueued_collective")
    group.completed = _counter(counters, "last_completed_collective")
    return True


def _counter(counters: Mapping[Any, Any], name: str) -> int:
    return int(counters.get(name, -1) or 0)


def _add_entry(group: RecordedGroup, row: Mapping[Any, Any]) -> None:
    call = _collective(row)
    if not _is_completed(row):
        group.open.append(call)
    if group.last is None or call.seq >= group.last.seq:
        group.last = call


def _collective(row: Mapping[Any, Any]) -> Collective:
    is_p2p = bool(row.get("is_p2p"))
    number = row.get("p2p_seq_id") if is_p2p else row.get("collective_seq_id", row.get("seq_id"))
    op = str(row.get("profiling_name") or "").rpartition(":")[2]
    return Collective(int(number or 0), op or "unknown", is_p2p, row.get("input_sizes"))


def _is_completed(row: Mapping[Any, Any]) -> bool:
    is_noticed = row.get("time_discovered_completed_ns") is not None
    return row.get("state") == "completed" or bool(row.get("retired")) or is_noticed
