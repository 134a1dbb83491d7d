"""Ranks of a hung job that lack the last step of all others, who wait for them in the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.pace import writer_numbers
from diagnosis.kinds.logs.pace.progress import point_rows
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.values import stats

LIMITS: Final = thresholds.limits("behind")
THRESHOLDS: Final = thresholds.of("behind")

_TITLE: Final = "Last steps of the ranks"
_CHECK: Final = Check("behind", _TITLE, "", "", 0.0, "node", (), (), (), finding="slow_place")


class _Last(NamedTuple):
    """The last step of a writer, and its line."""

    step: int
    path: str
    line: int


type _Writer = tuple[str, int | None]


def ranks_behind(case: Case) -> tuple[Result, ...]:
    """The few writers whose last step is before most others', each with a result."""
    last = _last_steps(case)
    if len(last) < THRESHOLDS.writers:
        return ()
    lasts = Counter(one.step for one in last.values())
    usual, most = max(lasts.items(), key=lambda row: (row[1], row[0]))
    behind = {writer: one for writer, one in last.items() if one.step < usual}
    is_of_most = most >= THRESHOLDS.share * len(last)
    if not is_of_most or not stats.is_minority(len(behind), len(last)):
        return ()
    in_order = sorted(behind.items(), key=_by_name)
    return tuple(_result(case, writer, one, usual) for writer, one in in_order)


def _by_name(row: tuple[_Writer, _Last]) -> tuple[str, int]:
    (node, rank), _ = row
    return node, -1 if rank is None else rank


def _last_steps(case: Case) -> Mapping[_Writer, _Last]:
    """The last step of each rank, or else of each node."""
    points = case.progress.points
    if points.is_empty():
        return {}
    steps = points.select("file", "line", "n")
    writers = case.table.sources.select("source", "node", "rank")
    rows = point_rows(case.table, points["masked"].unique().sort())
    rows = rows.join(steps, on=["file", "line"], maintain_order="left").sort("file", "line")
    rows = rows.group_by("file", "source", maintain_order=True).tail(LIMITS.of_writer)
    # the number of a writer is found by the turns that writers take in a file
    rows = rows.head(LIMITS.lines).sort("file", "line")
    rows = rows.join(writers, on="source", how="left", maintain_order="left")
    texts = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.line_bytes)
    ranks = writer_numbers.ranks_of(texts, rows["rank"])
    last: dict[_Writer, _Last] = {}
    columns = (rows["node"], ranks, rows["n"], rows["file"], rows["line"])
    for node, rank, step, file, line in zip(*columns, strict=True):
        if node is not None or rank is not None:
            last[node or "", rank] = _Last(step, case.table.files[file], line)
    return last


def _result(case: Case, writer: _Writer, last: _Last, usual: int) -> Result:
    node, rank = writer
    node = node or (case.node_of(rank) if rank is not None else None) or ""
    says = f"printed step {last.step:,} last, the others step {usual:,}"
    outcome = Outcome("behind", says, THRESHOLDS.odds)
    target, kind = (node, "node") if node else (f"rank {rank}", "rank")
    words = f"rank {rank}" if node and rank is not None else ""
    return Result(_CHECK, outcome, last.path, last.line, words, target, kind)
