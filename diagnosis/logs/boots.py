"""When a kernel booted, told by lines that state both the seconds since then and the time of day.

``dmesg`` dates its lines by the former only. The kernel itself states the latter when it sets its clock and in every
audit record; a system log that holds the same kernel's lines states it in front of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.logs import scan
from diagnosis.logs.lines import Rows

#: Lines of one block that are asked.
_ASKED = 20_000
#: Seconds by which the boots that lines state may differ; more, and the log holds several boots.
_APART_S = 60
_NS = 1_000_000_000
_EPOCH = r"\((1[0-9]{9}(?:\.[0-9]{1,6})?)[:)]"
_KERNEL = r" kernel: (?:<[0-9]+>)?\[ *([0-9]{1,8}\.[0-9]{6})\]"

type Places = npt.NDArray[np.int64]


def stated(rows: Rows, since: Places, stamped: Places, time: Places) -> list[int]:
    """Boot times (ns UTC) that the lines of a block state: those at ``since`` are dated from boot, those at
    ``stamped`` by system logs; ``time`` is all lines', ns. O(lines asked).
    """
    epoch = _seconds(rows, since[:_ASKED], _EPOCH)
    uptime = _seconds(rows, stamped[:_ASKED], _KERNEL)
    has_epoch, has_uptime = epoch >= 0, (uptime >= 0) & (time[stamped[:_ASKED]] != scan.NO_TIME)
    both = np.concatenate(
        [
            epoch[has_epoch] - time[since[:_ASKED]][has_epoch],
            time[stamped[:_ASKED]][has_uptime] - uptime[has_uptime],
        ]
    )
    return [int(boot) for boot in both]


def settle(boots: Sequence[int]) -> int | None:
    """The one boot (ns UTC) that lines agree on; None where none states it or the log holds several."""
    if not boots or max(boots) - min(boots) > _APART_S * _NS:
        return None
    return round(statistics.median(boots))


def _seconds(rows: Rows, places: Places, pattern: str) -> Places:
    """The seconds that ``pattern`` finds in each line, in ns; -1 where it finds none."""
    found = rows.text(places, 300).str.extract(pattern, 1).cast(pl.Float64, strict=False)
    return ((found * 1e6).round().cast(pl.Int64) * 1_000).fill_null(-1).to_numpy()
