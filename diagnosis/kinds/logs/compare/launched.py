"""Ranks that launched fewer collectives than the others of their communicator, as NCCL's traces
count them.

With ``NCCL_DEBUG_SUBSYS=COLL`` each process writes a line for each collective that it launches,
with its number. When nothing follows, the rank with the lower number is the one that the others
wait for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

import msgspec
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.knowledge import words
from diagnosis.values import stats

LIMITS: Final = thresholds.limits("launched")

THRESHOLDS: Final = thresholds.of("launched")

CATEGORY: Final = "framework.collective.timeout"
_LAUNCHED, _JOINED, _PROCESS = (words.regex("watchdogs", what) for what in ("launched", "joined", "process"))
_CHECK: Final = Check("launched", "Collectives that each rank launched", "", "", 0.0, "node", (), (), ())


class Launch(msgspec.Struct, frozen=True):
    """The last collective that a rank launched in one communicator, and the line that says so."""

    rank: int
    node: str
    operation: str
    number: int
    path: str
    line: int


def ranks_behind(case: Case) -> tuple[Result, ...]:
    """The few ranks that launched fewer collectives than most. O(lines of the traces)."""
    traces = case.table.messages.filter(case.table.says(r"\bNCCL INFO \w+: opCount "))
    if traces.is_empty():
        return ()
    joins = case.table.messages.filter(case.table.says(r"\bcomm 0x[0-9a-f]+ rank \d+ nranks "))
    joined = dict(_joined(_lines(case, joins, LIMITS.joins)))
    launches = _last_launches(_lines(case, traces, LIMITS.traces), joined)
    found = list(chain.from_iterable(map(_behind, launches.values())))
    return tuple(found[: LIMITS.results])


type _Line = tuple[str, str, int]
type _Process = tuple[str, str, str]


def _lines(case: Case, messages: pl.DataFrame, of_writer: int) -> list[_Line]:
    """The last lines of these messages of each writer: text, path and number."""
    masked = messages["masked"].to_list()
    found: list[_Line] = []
    files = case.catalogue.occurrences.filter(pl.col("masked").is_in(masked))["file"].unique().sort()
    for file in files.head(LIMITS.files).to_list():
        rows = case.table.rows([])
        for more in case.table.slabs(masked, files=[file]):
            rows = pl.concat([rows, more]).group_by("source", maintain_order=True).tail(of_writer)
        texts = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.line_bytes)
        found += [(text, case.table.files[file], line) for text, line in zip(texts, rows["line"], strict=True)]
    return found


def _joined(lines: Iterable[_Line]) -> Iterator[tuple[_Process, tuple[str, int]]]:
    """Of each process and communicator the id that all its ranks share, and the rank."""
    for text, _, _ in lines:
        process, join = _PROCESS.search(text), _JOINED.search(text)
        if process and join:
            yield (process[1], process[2], join[1]), (join[3], int(join[2]))


def _last_launches(lines: Iterable[_Line], joined: Mapping[_Process, tuple[str, int]]) -> dict[str, list[Launch]]:
    """The last launch of each rank, by communicator."""
    groups: dict[str, dict[int, Launch]] = defaultdict(dict)
    for text, path, line in lines:
        process, launch = _PROCESS.search(text), _LAUNCHED.search(text)
        if process and launch:
            known = joined.get((process[1], process[2], launch[3]))
            if known is not None:
                group, rank = known
                groups[group][rank] = Launch(rank, process[1], launch[1], int(launch[2], 16), path, line)
    return {group: list(of_rank.values()) for group, of_rank in groups.items()}


def _behind(launches: list[Launch]) -> Iterator[Result]:
    """Who is behind where most ranks of one communicator are."""
    if len(launches) < THRESHOLDS.ranks:
        return
    most, votes = Counter(launch.number for launch in launches).most_common(1)[0]
    late = [launch for launch in launches if launch.number <= most - THRESHOLDS.lag]
    if not stats.is_minority(len(late), len(launches)) or not stats.is_nearly_all(votes, len(launches)):
        return
    odds = THRESHOLDS.odds
    says = "launched fewer collectives than the other ranks, which wait for it"
    outcome = Outcome("launched-less", says, odds, categories={CATEGORY: odds}, adds=CATEGORY)
    for launch in late:
        told = f"rank {launch.rank} {launch.operation} 0x{launch.number:x}, {votes} of {len(launches)} ranks 0x{most:x}"
        yield Result(_CHECK, outcome, launch.path, launch.line, told, launch.node)
