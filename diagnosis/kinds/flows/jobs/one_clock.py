"""Whether the records of a job were stamped by clocks that agree. O(n log n) in a stretch from the middle."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture, Flows

THRESHOLDS: Final = thresholds.of("pairs")

#: Number of transfers whose acknowledgements, or transfers before them, are looked for.
MAX_ACKNOWLEDGED = 20_000


def has_one_clock(flows: Flows, capture: Capture) -> bool:
    """Whether transfers are acknowledged while they run, though another collector may have seen the acknowledgement.
    Looks at a stretch from the middle; False where nothing is acknowledged.
    """
    data = flows.take(middle_rows(flows, MAX_ACKNOWLEDGED))
    if capture.resolution_s >= THRESHOLDS.at_once_s or not len(data):
        return False
    first, last = np.searchsorted(capture.flows.start, [data.start[0] - 1.0, data.start[-1] + 1.0])
    small = first + np.flatnonzero(capture.flows.control[first:last])
    if not len(small):
        return False
    acks = capture.flows.take(small)
    forth = pl.DataFrame({"src": data.src, "dst": data.dst, "port": data.port, "start": data.start})
    back = pl.DataFrame({"src": acks.dst, "dst": acks.src, "port": acks.port, "start": acks.start, "ack": acks.start})
    near = forth.join_asof(
        back,
        on="start",
        by=["src", "dst", "port"],
        strategy="nearest",
        tolerance=THRESHOLDS.at_once_s,
        check_sortedness=False,  # both are in order of start
    )
    return bool(near["ack"].is_not_null().sum() >= THRESHOLDS.min_answered_share * near.height)


def hands_on(flows: Flows, capture: Capture) -> bool:
    """Whether most records begin just as something that another machine sent comes through: rounds of
    rings, recorded one by one on one clock.
    """
    data = flows.take(middle_rows(flows, MAX_ACKNOWLEDGED))
    if capture.resolution_s >= THRESHOLDS.at_once_s or not len(data):
        return False
    length = np.maximum(data.end - data.start, capture.resolution_s)
    sent = pl.DataFrame({"member": data.src, "start": data.start, "length": length})
    came = pl.DataFrame({"member": data.dst, "start": data.end, "came": data.end}).sort("start")
    near = sent.join_asof(came, on="start", by="member", strategy="nearest", check_sortedness=False)
    is_next = (near["start"] - near["came"]).abs() <= THRESHOLDS.handed_on * near["length"]
    return bool(is_next.fill_null(False).mean() >= THRESHOLDS.min_handed_on)


def middle_rows(flows: Flows, most: int) -> slice:
    """All records, or a stretch from the middle of a long capture."""
    first = max(0, (len(flows) - most) // 2)
    return slice(first, first + most)
