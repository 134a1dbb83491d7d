"""The order of findings on one clock, though some are stamped with whole seconds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from diagnosis.evidence import FINDING_KINDS

_ORDER_OF_KIND: Final = {what: n for n, what in enumerate(FINDING_KINDS)}


def causal_order[Row](rows: Iterable[Row], key: Callable[[Row], tuple[float | None, str, str]]) -> list[Row]:
    """The rows by time, those without a time last. ``key``: time in seconds, kind (of
    ``FINDING_KINDS``), text.

    A stamp without a fraction says only the second. Such a row comes after the last row of this
    second that precedes it causally: a consequence stamped .0 is not earlier than its cause stamped
    .299. Rows with fractions keep the order of their times. O(n log n).
    """
    dated: dict[int, list[Row]] = defaultdict(list)
    undated: list[Row] = []
    for row in rows:
        at = key(row)[0]
        if at is None:
            undated.append(row)
        else:
            dated[math.floor(at)].append(row)

    def place(row: Row) -> int:
        return _ORDER_OF_KIND.get(key(row)[1], len(_ORDER_OF_KIND))

    def by_kind(row: Row) -> tuple[int, str]:
        return place(row), key(row)[2]

    def by_time(row: Row) -> tuple[float | None, int, str]:
        return key(row)[0], *by_kind(row)

    ordered: list[Row] = []
    for second in sorted(dated):
        fine = sorted((row for row in dated[second] if key(row)[0] != second), key=by_time)
        whole = sorted((row for row in dated[second] if key(row)[0] == second), key=by_kind)
        done = 0
        for row in whole:
            before = [n for n, other in enumerate(fine, 1) if place(other) < place(row)]
            until = max([done, *before])
            ordered += [*fine[done:until], row]
            done = until
        ordered += fine[done:]
    return ordered + sorted(undated, key=by_kind)
