"""The machines of processes that share a file: which word of their lines of progress tells where a
rank runs.

A word of a line is the name of the rank's machine if it is the same in all lines of that rank, and
neighbouring ranks have it in common. So it is found in any form of line, whatever stands around it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.pace import writer_numbers
from diagnosis.kinds.logs.pace.progress import Progress
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import LogTable
from diagnosis.model import ReadRange

LIMITS: Final = thresholds.limits("shared_files")
THRESHOLDS: Final = thresholds.of("shared_files")

#: A word with letters and digits, or an address; letters of other scripts end it.
_NAME: Final = re.compile(
    r"(?<![0-9A-Za-z._-])(?=[A-Za-z._-]{0,60}\d)"
    r"(?:[A-Za-z][0-9A-Za-z]{0,60}(?:[-_.][0-9A-Za-z]{1,60}){0,8}|\d{1,3}(?:\.\d{1,3}){3})"
)


def machines_of_ranks(progress: Progress, table: LogTable, read: ReadRange) -> Mapping[int, str]:
    """The machine of each rank whose lines of progress stand with those of others in one file.
    Reads up to ``LIMITS.lines`` lines of the message that counts most often. Asked only where no
    header, path or inventory names a machine. O(points + lines read).
    """
    points = progress.points
    if points.is_empty():
        return {}
    message = points.group_by("file", "masked").agg(lines=pl.len(), steps=pl.col("n").n_unique())
    is_shared = pl.col("lines") >= THRESHOLDS.writers * pl.col("steps")
    in_order = message.sort("lines", "file", "masked", descending=[True, False, False])
    shared = in_order.filter(is_shared)
    if shared.is_empty():
        return {}
    file, masked = shared.row(0)[:2]
    rows = table.rows([masked], files=[file], limit=LIMITS.lines)
    texts = raw_lines.read_lines(rows, table.files, read, LIMITS.line_bytes)
    return machines_in(texts, writer_numbers.ranks_of(texts, [None] * len(texts)))


def machines_in(lines: Sequence[str], ranks: Sequence[int | None]) -> Mapping[int, str]:
    """The machine of each rank by the words of its lines; empty without any. O(characters)."""
    words = [_NAME.findall(line, 0, LIMITS.chars) for line in lines]
    for place in range(min(map(len, words), default=0)):
        of_rank: dict[int, set[str]] = defaultdict(set)
        for names, rank in zip(words, ranks, strict=True):
            if rank is not None:
                of_rank[rank].add(names[place])
        machine = {rank: min(names) for rank, names in of_rank.items() if len(names) == 1}
        if len(machine) == len(of_rank) and _are_machines(machine):
            return machine
    return {}


def _are_machines(name_of: Mapping[int, str]) -> bool:
    """Whether these are names of machines: there are several, each of neighbouring ranks, and none
    is the rank itself ("w6"), which each rank has alone.
    """
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(name_of):
        ranks[name_of[rank]].append(rank)
    are_neighbours = all(own[-1] - own[0] == len(own) - 1 for own in ranks.values())
    return 1 < len(ranks) < len(name_of) and are_neighbours
