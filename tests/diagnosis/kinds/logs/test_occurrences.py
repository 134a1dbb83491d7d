"""Occurrences: who printed which message, counted line by line, for files that are read together and in slices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.columns.tables import COLUMNS
from diagnosis.kinds.logs.rows import occurrences
from diagnosis.kinds.logs.rows.stored_rows import Rows

#: (source, message, seconds or None) of each line.
FILE = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.none() | st.integers(0, 9)), min_size=1, max_size=12)
SECOND = 1_000_000_000


def written(lines: Sequence[tuple[int, int, int | None]], target: Path) -> Rows:
    """A table of one log's lines."""
    table = {
        "line": range(1, len(lines) + 1),
        "source": [source for source, _, _ in lines],
        "masked": [message for _, message, _ in lines],
        "time": [None if at is None else at * 600 * SECOND for _, _, at in lines],
    }
    frame = pl.DataFrame(table).with_columns(pl.lit(0).alias(name) for name in COLUMNS if name not in table)
    frame.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items()).write_parquet(target)
    return Rows(target, None, len(lines))


def counted(files: Sequence[Sequence[tuple[int, int, int | None]]]) -> list[tuple[object, ...]]:
    """The rows of ``OCCURRENCES`` by definition."""
    found = []
    for number, lines in enumerate(files):
        times = [None if at is None else at * 600 * SECOND for _, _, at in lines]
        for source, message in {(source, message) for source, message, _ in lines}:
            mine = [n for n, line in enumerate(lines) if line[:2] == (source, message)]
            own = [t for n in mine if (t := times[n]) is not None]
            before = [next((t for t in reversed(times[: n + 1]) if t is not None), None) for n in mine]
            after = [next((t for t in times[n:] if t is not None), None) for n in mine]
            known = [t for t in before if t is not None]
            until = None if None in after else max(t for t in after if t is not None)
            row = (min(own or known, default=None), max(known, default=None), until, bool(own))
            found.append((number, 10 * number + source, message, len(mine), mine[0] + 1, mine[-1] + 1, *row))
    return sorted(found)


@settings(max_examples=60)
@given(files=st.lists(FILE, min_size=1, max_size=3), most=st.sampled_from([1, 4, 1000]))
def test_each_message_of_each_source_is_counted_with_its_first_and_last_times(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, int, int | None]]], most: int
) -> None:
    folder = tmp_path_factory.mktemp("occurrences")
    rows = [written(lines, folder / f"{number}.parquet") for number, lines in enumerate(files)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occurrences, "MAX_LINES", most)
        found, spans = occurrences.occurrences_of_files(rows, [10 * number for number in range(len(files))], None, None)

    assert found.rows() == counted(files)
    assert spans["lines"].to_list() == [len(lines) for lines in files]
    backwards = [
        sum(b - a <= -2 for a, b in pairwise(known))
        for known in ([at for _, _, at in lines if at is not None] for lines in files)
    ]
    assert spans["jumps"].to_list() == backwards


@settings(max_examples=100)
@given(lines=FILE, cuts=st.sets(st.integers(1, 11)), fold=st.integers(1, 4))
def test_a_log_counted_in_any_pieces_and_joined_in_any_tree_is_counted_as_one(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[int, int, int | None]],
    cuts: set[int],
    fold: int,
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    edges = [0, *sorted(cut for cut in cuts if cut < len(lines)), len(lines)]
    runs = [
        occurrences.count_lines(written(lines[low:high], folder / f"{low}.parquet")) for low, high in pairwise(edges)
    ]
    while len(runs) > 1:  # neighbours are joined, the first ones in larger groups
        runs = [
            occurrences.join_counts(runs[:fold]),
            *(occurrences.join_counts(runs[n : n + 2]) for n in range(fold, len(runs), 2)),
        ]
        fold = max(fold, 2)

    whole = occurrences.count_lines(written(lines, folder / "whole.parquet"))
    assert runs[0].edges == whole.edges
    assert runs[0].occurrences.rows() == whole.occurrences.rows()
