"""Reads NCCL RAS reports (``ncclras``, text and JSON): dead processes, silent ranks and operation counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from diagnosis.kinds.stacks.recorded.ras_report import (
    Communicator,
    RasPlace,
    RasProcess,
    RasReport,
    most_frequent_counts,
)
from diagnosis.knowledge.late_patterns import late
from diagnosis.values import log_lines
from diagnosis.values.json_values import JsonObject, object_in, whole_in

_COMM = late(r"^#(\d+)-(\d+) \(([0-9a-fA-F]+)\) (.+?)\s*$")
_WHERE = r"GPU (\S+) managed by process (\d+) on node (\S+?)\s*$"
_RANK_BEHIND = late(rf"^\s*Rank (\d+) has launched up to operation (\d+)(?: -- {_WHERE})?")
_COUNT_OR_RANGE = r"\d+(?:-\d+)?"  # nodes that differ make a range: "7-8"
_TABLE = late(rf"^\s*(\d+)\s+\d+\s+{_COUNT_OR_RANGE}\s+{_COUNT_OR_RANGE}\s+(\d+)\s+{_COUNT_OR_RANGE}\s+[A-Z]")
_SUMMARY = late(rf"^\s+\d+\s+{_COUNT_OR_RANGE}\s+{_COUNT_OR_RANGE}\s+\d+\s+(\d+)\s*$")
_RANK_SET = late(r"^\s*(\d+) ranks have launched up to operation (\d+)")
_LISTED_RANK = late(rf"^\s*Rank (\d+) -- {_WHERE}")
_STATUS = late(rf"^\s*Rank (\d+) (?:has status|reported|has error) (.+?)(?: -- {_WHERE})?$")
_DEAD = late(r"^\s*Process (\d+) on node (\S+) managing GPUs? (\S+)")
_OPERATION = late(r"Communicator ranks have different (\S+) operation counts")
_MISSING_COMMA = late(r"([}\]\"\d]|true|false|null)(\s*\n\s*|\s*)(?=\{|\"[a-z_]+\"\s*:)")
TEXT = late(r"^(?:Job summary|NCCL version \S+ compiled with CUDA|\s*Group\s+Comms\s+Nodes\s+Ranks)", re.MULTILINE)
#: What a report calls a communicator in which something is wrong.
_WRONG: Final = late(r"\b(?:MISMATCH|INCOMPLETE|NOCOMM|TIMEOUT|DEAD|ABORT|ERROR)\b")
#: What ``async_error`` holds while nothing is wrong: ``ncclSuccess`` and ``ncclInProgress``, by number or name.
_NO_ERROR: Final = (0, "ncclSuccess", 7, "ncclInProgress")


def is_aside(head: bytes) -> bool:
    """Whether lines of a log follow a report in which nothing is wrong. O(len(head))."""
    text = head.decode("utf-8", "replace")
    table = TEXT.search(text)
    if table is None or _WRONG.search(text) is not None:
        return False
    return log_lines.EVENT.search(text, table.end()) is not None


def read_json(text: str) -> RasReport:
    """JSON of ``ncclras -f json``; the comma that NCCL 2.28.9 omits in ``missing_ranks`` is inserted.

    :raises ValueError, TypeError, KeyError: not a RAS report.
    """
    data = _loads(text)
    rows = data.get("communicators") if isinstance(data, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError("it has no communicators")
    report = RasReport()
    for row in rows:
        if isinstance(row, Mapping):
            report.comms.append(_communicator(row, len(report.comms)))
    return report


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_MISSING_COMMA.sub(r"\1,\2", text))


def _communicator(row: JsonObject, number: int) -> Communicator:
    """One communicator of the JSON. ``number`` names one that has neither hash nor id."""
    comm = Communicator(str(row.get("hash") or row.get("id") or number), whole_in(row.get("size") or 0))
    for rank in _objects(row.get("ranks")):
        _read_rank(comm, rank)
    for rank in _objects(row.get("missing_ranks")):
        place = _place(rank)
        is_dead = bool(object_in(rank.get("status")).get("considered_dead"))
        comm.silent.append(RasProcess(whole_in(rank["rank"]), place.node, place.pid, place.gpu, is_dead))
    comm.most = most_frequent_counts(comm.counts.values())
    return comm


def _objects(value: Any) -> list[JsonObject]:
    """The objects of a list; none where there is no list."""
    if not isinstance(value, list):
        return []
    if not all(isinstance(row, Mapping) for row in value):
        raise ValueError("a rank that is no object")
    return value


def _read_rank(comm: Communicator, rank: JsonObject) -> None:
    number = str(whole_in(rank["rank"]))
    counts = object_in(rank.get("collective_counts"))
    comm.counts[number] = {str(operation): whole_in(count) for operation, count in counts.items()}
    comm.places[number] = _place(rank)
    error = object_in(rank.get("status")).get("async_error") or 0
    if error not in _NO_ERROR:
        comm.errors = f"rank {number}: {error}"


def _place(rank: JsonObject) -> RasPlace:
    pid = rank.get("pid")
    known_pid = pid if isinstance(pid, int) else None
    return RasPlace(str(rank.get("host") or ""), known_pid, str(rank.get("cuda_dev", "")))


def read_text(text: str) -> RasReport:
    """The text report: sections of communicators (``#0-0 (hash) MISMATCH``) and of dead processes. Linear."""
    reader = _TextReader()
    for line in text.splitlines():
        reader.read(line)
    return reader.finish()


type _Find = Callable[[str], re.Match[str] | None]
type _Take = Callable[[re.Match[str]], None]


class _TextReader:
    """Reads line by line: each line goes to the first rule that knows it."""

    def __init__(self) -> None:
        self._report = RasReport()
        self._comm: Communicator | None = None
        self._operation = "operation"
        #: of a set of ranks that the next lines list: how far they are; None: no set is listed
        self._count: int | None = None
        self._size_of: dict[str, int] = {}
        self._largest_set: dict[tuple[str, str], int] = {}
        self._rules: tuple[tuple[_Find, _Take], ...] = (
            (_TABLE.match, self._read_table),
            (_SUMMARY.match, self._read_summary),
            (_COMM.match, self._begin_communicator),
            (_OPERATION.search, self._read_operation),
            (_DEAD.match, self._read_dead),
            (_RANK_SET.match, self._read_rank_set),
            (_RANK_BEHIND.match, self._read_rank_behind),
            (_LISTED_RANK.match, self._read_listed_rank),
            (_STATUS.match, self._read_status),
        )

    def read(self, line: str) -> None:
        for find, take in self._rules:
            found = find(line)
            if found is not None:
                take(found)
                return

    def finish(self) -> RasReport:
        for comm in self._report.comms:
            comm.most = comm.most or most_frequent_counts(comm.counts.values())
        return self._report

    def _read_table(self, found: re.Match[str]) -> None:
        self._size_of[found[1]] = int(found[2])

    def _read_summary(self, found: re.Match[str]) -> None:
        if not self._size_of:
            self._report.gpus = int(found[1])

    def _begin_communicator(self, found: re.Match[str]) -> None:
        name = found[3]
        known = [comm for comm in self._report.comms if comm.id == name]
        if not known:
            known = [Communicator(name, self._size_of.get(found[1], 0))]
            self._report.comms += known
        self._comm = known[0]
        self._count = None
        words = dict.fromkeys([*self._comm.errors.split(), found[4]])
        self._comm.errors = " ".join(words)

    def _read_operation(self, found: re.Match[str]) -> None:
        self._operation = found[1]

    def _read_dead(self, found: re.Match[str]) -> None:
        self._report.dead.append(RasProcess(None, found[2], int(found[1]), found[3], is_dead=True))

    def _read_rank_set(self, found: re.Match[str]) -> None:
        """The largest set of ranks with one count is where most ranks are."""
        if self._comm is None:
            return
        self._count = int(found[2])
        key = (self._comm.id, self._operation)
        if int(found[1]) > self._largest_set.get(key, 0):
            self._largest_set[key] = int(found[1])
            self._comm.most[self._operation] = int(found[2])

    def _read_rank_behind(self, found: re.Match[str]) -> None:
        if self._comm is not None:
            self._comm.counts.setdefault(found[1], {})[self._operation] = int(found[2])
            self._comm.places[found[1]] = _stated_place(found)

    def _read_listed_rank(self, found: re.Match[str]) -> None:
        """A rank of the set before it, else one whose data are missing."""
        if self._comm is None:
            return
        if self._count is not None:
            self._comm.counts.setdefault(found[1], {})[self._operation] = self._count
            self._comm.places[found[1]] = RasPlace(found[4], int(found[3]), found[2])
        elif "INCOMPLETE" in self._comm.errors:
            self._comm.silent.append(RasProcess(int(found[1]), found[4], int(found[3]), found[2]))

    def _read_status(self, found: re.Match[str]) -> None:
        if self._comm is not None:
            self._comm.places[found[1]] = _stated_place(found)


def _stated_place(found: re.Match[str]) -> RasPlace:
    """The place at the end of a line about a rank, where it states one."""
    gpu, pid, node = found[3], found[4], found[5]
    return RasPlace(node or "", int(pid) if pid else None, gpu or "")
