"""The boot time of a kernel, from lines that state both the seconds since boot and the time of day.

``dmesg`` dates its lines by seconds since boot. The kernel states the time of day when it sets its clock and in every
audit record; a system log with the same kernel's lines states it at their start.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from diagnosis.kinds.logs.read.lines import Rows
from diagnosis.kinds.logs.text import stamps

#: Number of lines of one block that are read.
_LINES_READ = 20_000
#: Seconds by which the stated boot times may differ; if they differ more, the log contains several boots.
_TOLERANCE_S = 60
_NS = 1_000_000_000
_EPOCH = r"\((1[0-9]{9}(?:\.[0-9]{1,6})?)[:)]"
_KERNEL = r" kernel: (?:<[0-9]+>)?\[ *([0-9]{1,8}\.[0-9]{6})\]"

type Places = npt.NDArray[np.int64]


def boot_times(rows: Rows, since: Places, stamped: Places, time: Places) -> list[int]:
    """Boot times (ns UTC) that the lines of a block state: lines ``since`` are dated from boot, lines ``stamped`` by
    system logs; ``time``: times of all lines, ns. O(lines read).
    """
    epoch = _seconds_found(rows, since[:_LINES_READ], _EPOCH)
    uptime = _seconds_found(rows, stamped[:_LINES_READ], _KERNEL)
    has_epoch, has_uptime = epoch >= 0, (uptime >= 0) & (time[stamped[:_LINES_READ]] != stamps.NO_TIME)
    both = np.concatenate(
        [
            epoch[has_epoch] - time[since[:_LINES_READ]][has_epoch],
            time[stamped[:_LINES_READ]][has_uptime] - uptime[has_uptime],
        ]
    )
    return [int(boot) for boot in both]


def agreed_boot_time(boots: Sequence[int]) -> int | None:
    """The boot time (ns UTC) on which all lines agree; None if no line states it or the log contains several."""
    if not boots or max(boots) - min(boots) > _TOLERANCE_S * _NS:
        return None
    return round(statistics.median(boots))


def _seconds_found(rows: Rows, places: Places, pattern: str) -> Places:
    """The seconds that ``pattern`` finds in each line, in ns; -1 if it finds none."""
    found = rows.text(places, 300).str.extract(pattern, 1).cast(pl.Float64, strict=False)
    return ((found * 1e6).round().cast(pl.Int64) * 1_000).fill_null(-1).to_numpy()
