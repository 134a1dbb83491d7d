"""What the ranks or nodes of a job state of their own steps: durations, waits, rates, sizes.

In a synchronous job all ranks end an iteration together, so its duration does not show which rank
was late. Many programs print the compute and wait times of each rank, or how long a save took:
:mod:`diagnosis.facts.unevenness` compares them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import MAX_VALUES, Measure, Place
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.compare.quantities import quantities, step_of
from diagnosis.kinds.logs.meaning import hosts
from diagnosis.kinds.logs.pace import writer_numbers
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import Groups, LogTable
from diagnosis.model import ReadRange
from diagnosis.values import stats
from diagnosis.values.extremes import greatest

LIMITS: Final = thresholds.limits("rank_measures")

THRESHOLDS: Final = thresholds.of("rank_measures")

type _Writer = tuple[str, int | None]
#: Its writer, text, path and number.
type _Line = tuple[_Writer, str, str, int]


class _Value(NamedTuple):
    """One stated value: its step, if the line names one, and the line."""

    step: int | None
    value: float
    path: str
    line: int


#: Name, number in the line, sense and unit of a quantity.
type _Key = tuple[str, int, str, str]


def measured(case: Case) -> tuple[Measure, ...]:
    """What ranks, or nodes, state of their steps. O(messages + occurrences + lines read)."""
    return measures_in(case.table, messages(case), case.read, case.node_of_rank)


def messages(facts: Facts) -> list[list[int]]:
    """The messages that are read, those of one wording together. O(messages + occurrences)."""
    ranks = facts.catalogue.occurrences["rank"].drop_nulls().n_unique()
    nodes = len(facts.catalogue.nodes)
    who, total = ("rank", ranks) if ranks > nodes else ("node", nodes)
    return _measuring_messages(facts, who, total)


def measures_in(
    table: LogTable, groups: Groups, read: ReadRange, machine_of: Mapping[int, str | None]
) -> tuple[Measure, ...]:
    """What the lines of these messages state. ``machine_of``: ranks whose lines name no machine.
    Reads up to ``LIMITS.messages`` × ``LIMITS.lines`` lines. O(lines read).
    """
    told: dict[_Key, dict[_Writer, list[_Value]]] = defaultdict(lambda: defaultdict(list))
    for masked in groups:
        for (node, rank), text, path, line in _of_writers(list(_lines(table, masked, read))):
            writer = (node or _machine(machine_of, rank), rank)
            step = step_of(text)
            seen: dict[str, int] = defaultdict(int)
            for found in quantities(text):
                key = (found.name, seen[found.name], found.sense, found.unit)
                seen[found.name] += 1
                told[key][writer].append(_Value(step, found.value, path, line))
    measures: list[Measure] = []
    for key, of_writer in sorted(told.items()):
        in_order = sorted(of_writer, key=lambda writer: (writer[0], writer[1] or 0))
        measures += [_measure(key, writer, of_writer[writer]) for writer in in_order]
    return tuple(measures)


def _machine(machine_of: Mapping[int, str | None], rank: int | None) -> str:
    """The machine of a rank; empty if it is unknown."""
    return (machine_of.get(rank) if rank is not None else None) or ""


def _of_writers(lines: Sequence[_Line]) -> Iterator[_Line]:
    """Lines of one wording with their ranks, as stated; without those of unknown writers."""
    texts = [text for _, text, _, _ in lines]
    ranks = writer_numbers.ranks_of(texts, [rank for (_, rank), _, _, _ in lines])
    for ((node, _), text, path, line), rank in zip(lines, ranks, strict=True):
        if node or rank is not None:
            yield (node, rank), text, path, line


def _measure(key: _Key, writer: _Writer, values: list[_Value]) -> Measure:
    """The last values of one writer; with their steps if all state one."""
    name, _, sense, unit = key
    node, rank = writer
    own = values[-MAX_VALUES:]
    steps = tuple(one.step for one in own if one.step is not None)
    return Measure(
        Place("node", node),
        name,
        sense,
        unit,
        tuple(one.value for one in own),
        "" if rank is None else f"rank {rank}",
        own[-1].path,
        own[-1].line,
        steps=steps if len(steps) == len(own) else (),
    )


def _measuring_messages(facts: Facts, who: str, total: int) -> list[list[int]]:
    """The messages with a quantity that most of all nodes or ranks, or one alone, print again and
    again; those that differ by the name of their node alone are one.
    """
    is_often = pl.col("count") >= THRESHOLDS.lines
    often = facts.table.messages.filter(is_often).select("masked", "text", "example")
    wording = pl.Series("wording", hosts.hide_hosts(often["text"], facts.catalogue.nodes))
    # a number for each wording: a job of many files has a million occurrences
    worded = often.select("masked", "example", wording, number=wording.rank("dense"))
    places_of = facts.catalogue.occurrences.select("masked", who, "n")
    occurrences = places_of.join(worded.select("masked", "number"), on="masked")
    places = pl.col(who).drop_nulls().n_unique()
    n = pl.col("n").sum()
    # what one place alone prints shows the course of the job
    is_of_most = (pl.col("places") >= stats.MINORITY_SHARE * 2 * total) | (pl.col("places") == 1)
    is_repeated = pl.col("n") >= THRESHOLDS.lines * pl.col("places")
    many = (
        occurrences.group_by("number")
        .agg(pl.col("masked").unique().sort(), pl.col("masked").first().alias("first"), places=places, n=n)
        .filter(is_of_most & is_repeated)
        .join(worded.select("example", "wording", first="masked"), on="first")
        .sort("n", "wording", descending=[True, False])
        .head(LIMITS.candidates)
    )
    rows = many.select("example", "masked").iter_rows()
    return [masked for example, masked in rows if _measures(example)][: LIMITS.messages]


def _measures(example: str) -> bool:
    return next(quantities(example), None) is not None


def _lines(table: LogTable, masked: Sequence[int], read: ReadRange) -> Iterator[_Line]:
    """Lines of one wording with writer, path and number, spread over the whole run. Reads the lines
    of up to ``LIMITS.files`` files, small ones together.
    """
    occurrences = table.occurrences.filter(pl.col("masked").is_in(masked))
    each = max(LIMITS.of_writer, LIMITS.lines // max(1, occurrences.height))
    most = greatest(occurrences["n"]) or 0
    stride = max(1, ceil(most / each))
    place = pl.int_range(pl.len()).over("source")
    files = occurrences["file"].unique().sort().head(LIMITS.files).to_list()
    for slab in table.slabs(masked, files=files):
        rows = table.placed(slab.filter(place % stride == 0))
        texts = raw_lines.read_lines(rows, table.files, read, LIMITS.line_bytes)
        writers_of = zip(rows["node"], rows["rank"], texts, rows["file"], rows["line"], strict=True)
        for node, rank, text, file, line in writers_of:
            yield (node or "", rank), text, table.files[file], line
