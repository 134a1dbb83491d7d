"""Nodes whose own measurements differ from their peers': a node that computes longer, or that never
waits.

In a synchronous job all ranks end an iteration together, so its duration does not show which rank
was late. Many programs print the compute and wait times of each rank: there the late node has a
longer work time, a shorter wait time, or a lower rate. Numbers are compared position by position
within one message, as medians of nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl

from diagnosis import stats, thresholds
from diagnosis.evidence import Measure, Place
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import THRESHOLDS as WEIGHTS
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.read import raw_lines

LIMITS: Final = thresholds.limits("uneven")

THRESHOLDS: Final = thresholds.of("uneven")

id: Final = "uneven"
why: Final = "the late rank works longer or waits for nobody"
needs: Final = "a slow job, and lines of one message with durations or rates on most nodes"


_TIMED: Final = words.pattern("measures", "timed")
_NUMBER: Final = words.regex("measures", "number")
_DURATION: Final = words.regex("measures", "duration_unit")
_RATE: Final = words.regex("measures", "rate_unit")
_WORD_TIME: Final = words.regex("measures", "duration_before")
_WORD_RATE: Final = words.regex("measures", "rate_before")
_WAIT: Final = words.regex("measures", "waiting")


def look(case: Case) -> Iterator[Clue]:
    """The nodes whose own measurements differ in a job that became slow. Reads
    O(messages × nodes × LIMITS.lines) lines.
    """
    if case.pace.slow_from is None or case.total < THRESHOLDS.nodes:
        return
    for masked in _timed_messages(case, "node", case.total):
        by_place = _lines_of_places(case, masked, case.pace.slow_at)
        by_node: dict[str, list[str]] = defaultdict(list)
        for (node, _), lines in by_place.items():
            if node:
                by_node[node] += lines
        yield from compare(by_node, total=case.total)


def measured(case: Case) -> tuple[Measure, ...]:
    """What the ranks, or else the nodes, of a case state of their steps in lines of one message.
    Reads O(messages × writers × LIMITS.lines) lines.
    """
    ranks = case.catalogue.cells["rank"].drop_nulls().n_unique()
    who, total = ("rank", ranks) if ranks > case.total else ("node", case.total)
    if total < THRESHOLDS.nodes:
        return ()
    found = []
    for masked in _timed_messages(case, who, total):
        found += _measures_of(case, _lines_of_places(case, masked, None))
    return tuple(found)


def _measures_of(case: Case, by_place: Mapping[tuple[str, int | None], list[str]]) -> list[Measure]:
    columns = _columns_of(by_place)
    text = next(iter(by_place.values()))[0] if by_place else ""
    numbers = list(_NUMBER.finditer(text))
    found = []
    for (place, sense), values in sorted(columns.items()):
        if place < len(numbers) and len(values) >= THRESHOLDS.nodes:
            number = numbers[place]
            words_before = re.split(r"[\d,;|]", text[max(0, number.start() - LIMITS.chars_before) : number.start()])[-1]
            name = " ".join(re.findall(r"[^\W\d_]+", words_before)) or sense
            unit = (number.group(2) or "") if sense == "rate" or _DURATION.match(number.group(2) or "") else ""
            for (node, rank), own in values.items():
                part = "" if rank is None else f"rank {rank}"
                found.append(Measure(Place("node", node), name, sense, unit, tuple(own), part))
    return found


def _timed_messages(case: Case, who: str, total: int) -> list[int]:
    """The messages with durations or rates that most of all nodes, or ranks, print again and again."""
    timed = case.table.messages.filter(pl.col("example").str.contains(_TIMED))["masked"]
    cells = case.catalogue.cells.filter(pl.col("masked").is_in(timed.implode())).drop_nulls(who)
    many = (
        cells.group_by("masked")
        .agg(places=pl.col(who).n_unique(), n=pl.col("n").sum())
        .filter(
            (pl.col("places") >= max(THRESHOLDS.nodes, stats.MINORITY_SHARE * 2 * total))
            & (pl.col("n") >= THRESHOLDS.lines * pl.col("places"))
        )
        .sort("n", "masked", descending=[True, False])
        .head(LIMITS.messages)
    )
    return [int(masked) for masked in many["masked"]]


def _lines_of_places(case: Case, masked: int, since: int | None) -> dict[tuple[str, int | None], list[str]]:
    """The last lines of a message by node and rank."""
    message_cells = case.catalogue.cells.filter(pl.col("masked") == masked)
    by_place: dict[tuple[str, int | None], list[str]] = defaultdict(list)
    writers = case.table.sources.select("source", "node", "rank")
    for file in message_cells["file"].unique().sort().head(LIMITS.files).to_list():
        rows = case.table.rows([])
        for more in case.table.slabs([masked], files=[file]):
            late = case.clocks.correct(more, "at")
            late = late.filter((pl.col("at") >= since).fill_null(True)) if since is not None else late
            rows = (
                pl.concat([rows.select(late.columns), late]).group_by("source", maintain_order=True).tail(LIMITS.lines)
            )
        rows = rows.join(writers, on="source", how="left")
        texts = raw_lines.read_lines(rows, case.table.files, case.read, LIMITS.line_bytes)
        for node, rank, text in zip(rows["node"], rows["rank"], texts, strict=True):
            if node is not None or rank is not None:
                by_place[node or "", rank].append(text)
    return by_place


def compare(by_node: dict[str, list[str]], *, total: int) -> list[Clue]:
    """The nodes that differ, among lines of one message, by node. O(characters)."""
    out = []
    for (_, sense), values in sorted(_columns_of(by_node).items()):
        if len(values) >= max(THRESHOLDS.nodes, stats.MINORITY_SHARE * 2 * total):
            out += _odd_nodes({n: float(np.median(v)) for n, v in values.items()}, sense)
    return out


def _columns_of[P](by_place: Mapping[P, list[str]]) -> dict[tuple[int, str], dict[P, list[float]]]:
    """The numbers of lines of one message by position and sense, then by place."""
    columns: dict[tuple[int, str], dict[P, list[float]]] = defaultdict(lambda: defaultdict(list))
    for who, lines in by_place.items():
        for text in lines:
            for position, found in enumerate(_NUMBER.finditer(text)):
                sense = _sense(text[max(0, found.start() - LIMITS.chars_before) : found.start()], found.group(2) or "")
                if sense:
                    columns[position, sense][who].append(float(found.group(1)))
    return columns


def _sense(before: str, unit: str) -> str:
    """Whether a number measures work, waiting or a rate; empty for other numbers."""
    if _RATE.search(unit) or _WORD_RATE.search(before):
        return "rate"
    if not (_DURATION.match(unit) or _WORD_TIME.search(before)):
        return ""
    # the last clause before the number names the measured quantity
    return "wait" if _WAIT.search(re.split(r"\d|[,;|]", before)[-1]) else "work"


def _odd_nodes(of_node: dict[str, float], sense: str) -> list[Clue]:
    values = np.array(list(of_node.values()))
    usual = float(np.median(values))
    if usual <= 0:
        return []
    spread = max(stats.spread(values), THRESHOLDS.noise * usual)
    is_long = sense == "work"
    odd = {
        node: v
        for node, v in sorted(of_node.items())
        if abs(v - usual) > THRESHOLDS.sigmas * spread
        and (v > THRESHOLDS.ratio * usual if is_long else v < usual / THRESHOLDS.ratio)
    }
    if not stats.is_minority(len(odd), len(of_node)):
        return []
    what = {"work": "a time of work of", "wait": "a time of waiting of", "rate": "a rate of"}[sense]
    weight, peers = WEIGHTS.hint if sense == "wait" else WEIGHTS.likely, f"the other nodes about {usual:,.4g}"
    return [Clue(node, weight, f"{node} prints {what} {value:,.4g}, {peers}") for node, value in odd.items()]
