"""Nodes whose own measurements differ from their peers': a node that computes longer, or that never
waits.

In a synchronous job all ranks end an iteration together, so its duration does not show which rank
was late. Many programs print the compute and wait times of each rank, or how long a save took:
there the late node has a longer work time, a shorter wait time, or a lower rate in the same steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

import polars as pl

from diagnosis import stats, thresholds, unevenness
from diagnosis.evidence import MAX_VALUES, Measure, Place
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.compare.quantities import quantities, rank_of, step_of
from diagnosis.kinds.logs.meaning import hosts
from diagnosis.kinds.logs.read import raw_lines

LIMITS: Final = thresholds.limits("uneven")

THRESHOLDS: Final = thresholds.of("uneven")

id: Final = "uneven"
why: Final = "the late rank works longer or waits for nobody"
needs: Final = "a slow job, and lines of one message with durations or rates on most nodes"

type _Writer = tuple[str, int | None]


class _Value(NamedTuple):
    """One stated value: its step, if the line names one, and the line."""

    step: int | None
    value: float
    path: str
    line: int


#: Name, number in the line, sense and unit of a quantity.
type _Key = tuple[str, int, str, str]


def find_clues(case: Case) -> Iterator[Clue]:
    """The nodes that :mod:`diagnosis.unevenness` finds slow in a job that became slow."""
    if case.pace.slow_from is None or case.total < THRESHOLDS.nodes:
        return
    for result in unevenness.compare_places(measured(case)):
        if result.is_fault and result.kind == "node" and result.target:
            yield Clue(result.target, WEIGHTS.likely, result.sentence)


def measured(case: Case) -> tuple[Measure, ...]:
    """What the ranks, or else the nodes, of a case state of their steps. Reads up to
    ``LIMITS.messages`` × ``LIMITS.lines`` lines.
    """
    ranks = case.catalogue.occurrences["rank"].drop_nulls().n_unique()
    who, total = ("rank", ranks) if ranks > case.total else ("node", case.total)
    told: dict[_Key, dict[_Writer, list[_Value]]] = defaultdict(lambda: defaultdict(list))
    for masked in _measuring_messages(case, who, total):
        for (node, rank), text, path, line in _lines(case, masked):
            writer = (node, rank_of(text) if rank is None else rank)
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


def _measuring_messages(case: Case, who: str, total: int) -> list[list[int]]:
    """The messages with a quantity that most of all nodes or ranks, or one alone, print again and
    again; those that differ by the name of their node alone are one.
    """
    messages = case.table.messages.filter(pl.col("count") >= THRESHOLDS.lines).select("masked", "text", "example")
    wording = pl.Series("wording", hosts.hide_hosts(messages["text"], case.catalogue.nodes))
    occurrences = case.catalogue.occurrences.join(messages.with_columns(wording), on="masked")
    places = pl.col(who).drop_nulls().n_unique()
    # what one place alone prints shows the course of the job
    is_of_most = (pl.col("places") >= stats.MINORITY_SHARE * 2 * total) | (pl.col("places") == 1)
    is_repeated = pl.col("n") >= THRESHOLDS.lines * pl.col("places")
    many = (
        occurrences.group_by("wording")
        .agg(pl.col("masked").unique().sort(), pl.col("example").first(), places=places, n=pl.col("n").sum())
        .filter(is_of_most & is_repeated)
        .sort("n", "wording", descending=[True, False])
        .head(LIMITS.candidates)
    )
    rows = many.select("example", "masked").iter_rows()
    return [masked for example, masked in rows if _measures(example)][: LIMITS.messages]


def _measures(example: str) -> bool:
    return next(quantities(example), None) is not None


def _lines(case: Case, masked: Sequence[int]) -> Iterable[tuple[_Writer, str, str, int]]:
    """Lines of one wording with writer, path and number, spread over the whole run. Reads the lines
    of up to ``LIMITS.files`` files, small ones together.
    """
    occurrences = case.catalogue.occurrences.filter(pl.col("masked").is_in(masked))
    each = max(LIMITS.of_writer, LIMITS.lines // max(1, occurrences.height))
    most = int(occurrences["n"].max() or 0)  # type: ignore[arg-type]
    stride = max(1, ceil(most / each))
    writers = case.table.sources.select("source", "node", "rank")
    place = pl.int_range(pl.len()).over("source")
    files = occurrences["file"].unique().sort().head(LIMITS.files).to_list()
    for slab in case.table.slabs(masked, files=files):
        rows = slab.filter(place % stride == 0).join(writers, on="source", how="left", maintain_order="left")
        texts = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.line_bytes)
        writers_of = zip(rows["node"], rows["rank"], texts, rows["file"], rows["line"], strict=True)
        for node, rank, text, file, line in writers_of:
            if node is not None or rank is not None:
                yield (node or "", rank), text, case.table.files[file], line
