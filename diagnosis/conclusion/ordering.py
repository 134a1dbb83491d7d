"""The order of findings on one clock, though some are stamped with whole seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from diagnosis.evidence import FINDING_KINDS

_ORDER_OF_KIND: Final = {what: n for n, what in enumerate(FINDING_KINDS)}


def causal_order[Row](rows: Iterable[Row], key: Callable[[Row], tuple[float | None, str, str]]) -> list[Row]:
    """The rows by time, those without a time last. ``key``: time in seconds, kind (of ``FINDING_KINDS``), text.

    A stamp without a fraction says only the second. Such a row comes after the last row of this second that precedes it
    causally: a consequence stamped .0 is not earlier than its cause stamped .299. Rows with fractions keep the order
    of their times. O(n log n).
    """
    dated: dict[int, list[Row]] = {}
    undated: list[Row] = []
    for row in rows:
        at = key(row)[0]
        if at is None:
            undated.append(row)
        else:
            dated.setdefault(math.floor(at), []).append(row)

    def place(row: Row) -> int:
        return _ORDER_OF_KIND.get(key(row)[1], len(_ORDER_OF_KIND))

    out: list[Row] = []
    for second in sorted(dated):
        fine = sorted((r for r in dated[second] if key(r)[0] != second), key=lambda r: (key(r)[0], place(r), key(r)[2]))
        whole = sorted((r for r in dated[second] if key(r)[0] == second), key=lambda r: (place(r), key(r)[2]))
        done = 0
        for row in whole:
            before = max((n for n, other in enumerate(fine, 1) if place(other) < place(row)), default=0)
            out += fine[done:before]
            done = max(done, before)
            out.append(row)
        out += fine[done:]
    return out + sorted(undated, key=lambda r: (place(r), key(r)[2]))
