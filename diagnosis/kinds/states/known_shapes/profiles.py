"""Reads a trace of PyTorch's profiler (Kineto): how long the GPU of one rank computed and
communicated in each step.

A rank that works longer is slow; the others wait for it in their collectives. The sums are compared
between the ranks (:mod:`diagnosis.facts.unevenness`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

#: Kernels of libraries for collectives, in which a rank also waits for the others.
_COLLECTIVE: Final = re.compile(r"(?i)nccl|rccl|hccl|oneccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all")
_STEP: Final = "ProfilerStep#"
#: Larger numbers are no times.
_MAX_US: Final = 1e18


class _Event(msgspec.Struct):
    """One event; times in microseconds."""

    name: str = ""
    cat: str = ""
    ts: float | str = 0.0
    dur: float | str = 0.0


class _Distributed(msgspec.Struct):
    rank: int = -1


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents", default_factory=list)
    distributed: _Distributed = msgspec.field(name="distributedInfo", default_factory=_Distributed)


class StepTimes(msgspec.Struct, frozen=True):
    """What the GPU of a rank did in one step, in microseconds."""

    computed_us: float
    communicated_us: float


def read(text: str) -> tuple[str, list[StepTimes]]:
    """``rank 3`` (empty if the trace does not say) and the times of each step, in order; none of a
    damaged trace. A trace without steps is one step. O(events × log(steps)).
    """
    try:
        trace = msgspec.json.decode(text, type=_Trace)
    except (msgspec.DecodeError, RecursionError):
        return "", []
    part = f"rank {trace.distributed.rank}" if trace.distributed.rank >= 0 else ""
    return part, list(_step_times(trace.events))


def _step_times(events: Sequence[_Event]) -> Iterator[StepTimes]:
    steps = [event for event in events if event.name.startswith(_STEP)]
    starts = sorted({_number(event.ts) for event in steps}) or [0.0]
    computed = [0.0] * len(starts)
    communicated = [0.0] * len(starts)
    for event in events:
        if event.cat.lower() == "kernel":
            step = max(0, bisect_right(starts, _number(event.ts)) - 1)
            sums = communicated if _COLLECTIVE.search(event.name) else computed
            sums[step] += _number(event.dur)
    every = map(StepTimes, computed, communicated)
    yield from (times for times in every if times != StepTimes(0.0, 0.0))


def _number(value: float | str) -> float:
    is_time = isinstance(value, (int, float)) and 0.0 <= value < _MAX_US
    return float(value) if is_time else 0.0
