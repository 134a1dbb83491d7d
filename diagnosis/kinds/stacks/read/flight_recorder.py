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
from typing import Any

from diagnosis.kinds.stacks.read import unpickle

#: Number of entries kept for one group of one rank: the oldest open ones show the hang, the newest the progress of its
#: host.
MAX_ENTRIES = 64
#: Number of entries of one dump that are read, the newest; a ring buffer holds 2,000 unless somebody sets more. One
#: entry that a pickle writes once and refers to a million times counts a million times.
MAX_READ_ENTRIES = 50_000
_NUMBERS = re.compile(r"\d+")


def read_pickle(data: bytes) -> dict[str, Any]:
    """:raises unpickle.HostilePickle, unpickle.BrokenPickle, ValueError: with a sentence for the reader."""
    return compact(unpickle.loads(data))


def read_json(text: str) -> dict[str, Any]:
    """:raises ValueError: not JSON, or not Flight Recorder's."""
    return compact(json.loads(text))


def _ranks(value: Any) -> list[int]:
    """``ranks`` is the *text* of a list in every release seen; a list is read too."""
    if isinstance(value, str):
        return [int(n) for n in _NUMBERS.findall(value)]
    return [int(n) for n in value if isinstance(n, int)] if isinstance(value, (list, tuple)) else []


def _to_span(ranks: list[int]) -> list[list[int]]:
    """Ranks as ``[start, stop, step]`` runs: a world group of 4,096 ranks would otherwise be repeated in 4,096
    artifacts."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and len(runs[-1]) == 3 and rank == runs[-1][1] + runs[-1][2]:
            runs[-1][1] = rank
        elif runs and runs[-1][0] == runs[-1][1] and rank > runs[-1][1]:
            runs[-1][1:] = [rank, rank - runs[-1][0]]
        else:
            runs.append([rank, rank, 1])
    return runs


def expand_span(runs: list[list[int]]) -> list[int]:
    return [r for a, b, step in runs for r in range(a, b + 1, step)]


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    frames = row.get("frames")
    top = ""
    if isinstance(frames, list):
        named = [f for f in frames if isinstance(f, Mapping)]
        top = ", ".join(
            f"{f.get('name')} ({str(f.get('filename')).rsplit('/', 1)[-1]}:{f.get('line')})" for f in named[:3]
        )
    p2p = bool(row.get("is_p2p"))
    seq = row.get("p2p_seq_id") if p2p else row.get("collective_seq_id", row.get("seq_id"))
    done = (
        row.get("state") == "completed"
        or bool(row.get("retired"))
        or row.get("time_discovered_completed_ns") is not None
    )
    return {
        "seq": int(seq or 0),
        "p2p": p2p,
        "op": str(row.get("profiling_name") or "").rpartition(":")[2] or "unknown",
        "done": done,
        "started": row.get("state") == "started" or row.get("time_discovered_started_ns") is not None,
        "sizes": row.get("input_sizes"),
        "types": row.get("input_dtypes"),
        "at_ns": row.get("time_created_ns"),
        "where": top,
    }


def compact(data: Any) -> dict[str, Any]:
    """One rank's dump: ``{version, entries, groups: [{name, desc, ranks, enqueued, started, completed, open: […],
    last: {…}}]}``.

    :raises ValueError: not a Flight Recorder dump.
    """
    if (
        not isinstance(data, Mapping)
        or not isinstance(data.get("entries", []), list)
        or not ({"entries", "pg_status", "pg_config"} & set(data))
    ):
        raise ValueError("it has no entries and no process groups, so it is not a Flight Recorder dump")
    config = data.get("pg_config") if isinstance(data.get("pg_config"), Mapping) else {}
    status = data.get("pg_status") if isinstance(data.get("pg_status"), Mapping) else {}
    groups: dict[str, dict[str, Any]] = {}
    for described in (config or {}).values():
        if isinstance(described, Mapping):
            name = str(described.get("name"))
            groups[name] = {
                "name": name,
                "desc": str(described.get("desc") or ""),
                "ranks": _to_span(_ranks(described.get("ranks"))),
                "open": [],
                "last": None,
            }
    every = data.get("entries") or []
    rows = [row for row in every[-MAX_READ_ENTRIES:] if isinstance(row, Mapping)]
    for row in rows:
        group = row.get("process_group")
        name, desc = (
            (str(group[0]), str(group[1]))
            if isinstance(group, (list, tuple)) and len(group) > 1
            else (str(row.get("pg_id")), "")
        )
        summary = groups.setdefault(name, {"name": name, "desc": desc, "ranks": [], "open": [], "last": None})
        counters = (status or {}).get(str(row.get("pg_id")), (status or {}).get(row.get("pg_id")))
        if isinstance(counters, Mapping) and "enqueued" not in summary:
            summary |= {
                k: int(counters.get(f"last_{k}_collective", -1) or 0) for k in ("enqueued", "started", "completed")
            }
        entry = _entry(row)
        if not entry["done"]:
            summary["open"].append(entry)
        if summary["last"] is None or entry["seq"] >= summary["last"]["seq"]:
            summary["last"] = entry
    for summary in groups.values():
        if len(summary["open"]) > MAX_ENTRIES:
            summary["open"] = summary["open"][: MAX_ENTRIES // 2] + summary["open"][-MAX_ENTRIES // 2 :]
    found = {"version": str(data.get("version") or ""), "entries": len(rows), "groups": list(groups.values())}
    return found | ({"left_out": len(every) - MAX_READ_ENTRIES} if len(every) > MAX_READ_ENTRIES else {})
