"""NCCL RAS reports (``ncclras``, text and JSON): dead processes, silent ranks and ranks behind in their operation
counts.

Ranks are counted within a communicator; only one of the job's size has global ranks. A mismatch in one snapshot is
normal, because ranks are never at the same operation; counts that do not change over several snapshots are a hang.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_COMM = re.compile(r"^#(\d+)-(\d+) \(([0-9a-fA-F]+)\) (.+?)\s*$")
_WHERE = r"GPU (\S+) managed by process (\d+) on node (\S+?)\s*$"
_RANK_BEHIND = re.compile(rf"^\s*Rank (\d+) has launched up to operation (\d+)(?: -- {_WHERE})?")
_COUNT_OR_RANGE = r"\d+(?:-\d+)?"  # nodes that differ make a range: "7-8"
_TABLE = re.compile(rf"^\s*(\d+)\s+\d+\s+{_COUNT_OR_RANGE}\s+{_COUNT_OR_RANGE}\s+(\d+)\s+{_COUNT_OR_RANGE}\s+[A-Z]")
_SUMMARY = re.compile(rf"^\s+\d+\s+{_COUNT_OR_RANGE}\s+{_COUNT_OR_RANGE}\s+\d+\s+(\d+)\s*$")
_RANK_SET = re.compile(r"^\s*(\d+) ranks have launched up to operation (\d+)")
_LISTED_RANK = re.compile(rf"^\s*Rank (\d+) -- {_WHERE}")
_STATUS = re.compile(rf"^\s*Rank (\d+) (?:has status|reported|has error) (.+?)(?: -- {_WHERE})?$")
_DEAD = re.compile(r"^\s*Process (\d+) on node (\S+) managing GPUs? (\S+)")
_OPERATION = re.compile(r"Communicator ranks have different (\S+) operation counts")
_MISSING_COMMA = re.compile(r"([}\]\"\d]|true|false|null)(\s*\n\s*|\s*)(?=\{|\"[a-z_]+\"\s*:)")
TEXT = re.compile(
    r"^(?:Job summary|NCCL version \S+ compiled with CUDA|\s*Group\s+Comms\s+Nodes\s+Ranks)", re.MULTILINE
)


@dataclass(slots=True)
class Report:
    """One snapshot. ``comms``: ``{id, size, errors, counts: {rank: {op: n}}, most: {op: n}, silent: [place]}``, a place
    being ``{rank, node, pid, gpu, is_dead}``; ``dead``: places without rank."""

    comms: list[dict[str, Any]] = field(default_factory=list)
    dead: list[dict[str, Any]] = field(default_factory=list)
    #: GPUs of all processes that answered, of the text's summary
    gpus: int = 0

    def facts(self) -> dict[str, Any]:
        return {"comms": self.comms, "dead": self.dead, "gpus": self.gpus}


def _comm(name: str) -> dict[str, Any]:
    return {"id": name, "size": 0, "errors": "", "counts": {}, "most": {}, "silent": [], "places": {}}


def read_json(text: str) -> Report:
    """JSON of ``ncclras -f json``; the comma that NCCL 2.28.9 omits in ``missing_ranks`` is inserted. :raises
    ValueError: not a RAS report.
    """
    try:
        data: Any = json.loads(text)
    except ValueError:
        data = json.loads(_MISSING_COMMA.sub(r"\1,\2", text))
    rows = data.get("communicators") if isinstance(data, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError("it has no communicators")
    report = Report()
    for row in (r for r in rows if isinstance(r, Mapping)):
        comm = _comm(str(row.get("hash") or row.get("id") or len(report.comms)))
        comm["size"] = int(row.get("size") or 0)
        for rank in row.get("ranks") or ():
            number = str(int(rank["rank"]))
            comm["counts"][number] = {str(k): int(v) for k, v in _mapping(rank, "collective_counts").items()}
            comm["places"][number] = {
                "node": str(rank.get("host") or ""),
                "pid": _pid(rank),
                "gpu": str(rank.get("cuda_dev", "")),
            }
            error = _mapping(rank, "status").get("async_error") or 0
            if error not in (0, "ncclSuccess", 7, "ncclInProgress"):
                comm["errors"] = f"rank {number}: {error}"
        for rank in row.get("missing_ranks") or ():
            comm["silent"].append(
                {
                    "rank": int(rank["rank"]),
                    "node": str(rank.get("host") or ""),
                    "pid": _pid(rank),
                    "gpu": str(rank.get("cuda_dev", "")),
                    "is_dead": bool(_mapping(rank, "status").get("considered_dead")),
                }
            )
        comm["most"] = _largest_counts(comm["counts"].values())
        report.comms.append(comm)
    return report


def _mapping(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object in ``row`` under ``key``; empty if it is no object."""
    value = row.get(key)
    return value if isinstance(value, Mapping) else {}


def _pid(row: Mapping[str, Any]) -> int | None:
    pid = row.get("pid")
    return pid if isinstance(pid, int) else None


def _largest_counts(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        for op, count in row.items():
            seen[op][count] += 1
    return {op: max(c.items(), key=lambda item: (item[1], item[0]))[0] for op, c in seen.items()}


def read_text(text: str) -> Report:
    """The text report: sections of communicators (``#0-0 (hash) MISMATCH``) and of dead processes."""
    report = Report()
    comm: dict[str, Any] | None = None
    operation = "operation"
    sizes: dict[str, int] = {}
    most: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        if m := _TABLE.match(line):
            sizes[m[1]] = int(m[2])
        elif (m := _SUMMARY.match(line)) and not sizes:
            report.gpus = int(m[1])
        elif m := _COMM.match(line):
            comm = next((c for c in report.comms if c["id"] == m[3]), None)
            if comm is None:
                comm = _comm(m[3])
                comm["size"] = sizes.get(m[1], 0)
                report.comms.append(comm)
            comm["errors"] = " ".join(dict.fromkeys([*comm["errors"].split(), m[4]]))
        elif m := _OPERATION.search(line):
            operation = m[1]
        elif m := _DEAD.match(line):
            report.dead.append({"rank": None, "node": m[2], "pid": int(m[1]), "gpu": m[3], "is_dead": True})
        elif comm is None:
            continue
        elif m := _RANK_SET.match(line):
            if int(m[1]) > most.get((comm["id"], operation), 0):
                most[comm["id"], operation], comm["most"][operation] = int(m[1]), int(m[2])
        elif m := _RANK_BEHIND.match(line):
            comm["counts"].setdefault(m[1], {})[operation] = int(m[2])
            comm["places"][m[1]] = {"node": m[5] or "", "pid": int(m[4]) if m[4] else None, "gpu": m[3] or ""}
        elif (m := _LISTED_RANK.match(line)) and "INCOMPLETE" in comm["errors"]:
            comm["silent"].append({"rank": int(m[1]), "node": m[4], "pid": int(m[3]), "gpu": m[2], "is_dead": False})
        elif m := _STATUS.match(line):
            comm["places"][m[1]] = {"node": m[5] or "", "pid": int(m[4]) if m[4] else None, "gpu": m[3] or ""}
    for one in report.comms:
        one["most"] = one["most"] or _largest_counts(one["counts"].values())
    return report


@dataclass(frozen=True, slots=True)
class RasAccusation:
    """One place in a RAS report; ``rank`` is global or None."""

    rank: int | None
    node: str
    score: float
    reason: str


def judge(snapshots: Sequence[Mapping[str, Any]], world_size: int | None) -> list[RasAccusation]:
    """Dead and silent ranks, and ranks behind whose counts do not change; best first. Linear in ranks times
    snapshots.
    """
    found: dict[tuple[int | None, str, str], RasAccusation] = {}
    last = snapshots[-1] if snapshots else {"comms": [], "dead": []}
    dead = {(p["node"], p.get("pid")) for p in last["dead"]}
    still = _find_stalled(snapshots)
    world_size = world_size or _whole_job(last)
    for place in last["dead"]:
        found[None, place["node"], str(place.get("pid"))] = RasAccusation(
            None, place["node"], 0.9, f"RAS considers process {place.get('pid')} (GPU {place['gpu']}) dead"
        )
    for comm in last["comms"]:
        is_world = bool(world_size) and max(comm["size"], len(comm["counts"]) + len(comm["silent"])) == world_size
        for place in comm["silent"]:
            is_dead = place["is_dead"] or (place["node"], place.get("pid")) in dead
            rank = place["rank"] if is_world else None
            found.pop((None, place["node"], str(place.get("pid"))), None)
            found[rank, place["node"], str(place.get("pid"))] = RasAccusation(
                rank,
                place["node"],
                0.9 if is_dead else 0.75,
                f"RAS considers its process {place.get('pid')} dead"
                if is_dead
                else "did not answer RAS while its peers did",
            )
        for number, counts in comm["counts"].items():
            behind = [(op, n, comm["most"][op]) for op, n in counts.items() if n < comm["most"].get(op, n)]
            if not behind:
                continue
            op, n, most = max(behind, key=lambda b: b[2] - b[1])
            frozen = (comm["id"], number) in still
            place = comm["places"].get(number, {"node": "", "pid": None})
            rank = int(number) if is_world else None
            reason = f"launched {op} up to {n:,} where most ranks are at {most:,}" + (
                f", unchanged over {len(snapshots)} snapshots" if frozen else ""
            )
            found.setdefault(
                (rank, place["node"], number), RasAccusation(rank, place["node"], 0.8 if frozen else 0.45, reason)
            )
    return sorted(found.values(), key=lambda a: (-a.score, a.rank if a.rank is not None else 1 << 30, a.node))


def _whole_job(last: Mapping[str, Any]) -> int:
    """Size of the communicator that holds every process of the job; 0 if there is none. Its ranks are the job's."""
    places = [
        {(p["node"], p.get("pid"), p.get("gpu")) for p in (*c["places"].values(), *c["silent"]) if p.get("pid")}
        for c in last["comms"]
    ]
    everyone = set().union(*places)
    # The text lists only some places, but counts all GPUs that answered.
    total = last["gpus"] + len(last["dead"]) if last.get("gpus") else len(everyone)
    sizes = [
        c["size"]
        for c, own_places in zip(last["comms"], places, strict=True)
        if c["size"] == total and (last.get("gpus") or own_places == everyone)
    ]
    return max(sizes, default=0)


def _find_stalled(snapshots: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    if len(snapshots) < 2:
        return set()
    first = {(c["id"], r): counts for c in snapshots[0]["comms"] for r, counts in c["counts"].items()}
    return {
        (c["id"], r)
        for c in snapshots[-1]["comms"]
        for r, counts in c["counts"].items()
        if first.get((c["id"], r)) == counts
    }
