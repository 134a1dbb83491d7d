"""How long a test waits for an event, and how it states that work is little: never by a clock.

The limits of time only end what never ends by itself. They are not measurements, so they are far above what a busy
machine with one core needs. A test that something is fast counts its work (:func:`steps_of`, queries, bytes read), or
compares the work for some input with that for four times the input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

#: for an answer of a running program: a page, a signal, a process that starts or ends; `PATIENCE_S=20 pytest …` ends a
#: failing wait sooner while somebody looks for its reason
PATIENCE_S = int(os.environ.get("PATIENCE_S", "180"))
#: for background work: reading and diagnosing evidence
WORK_S = 900
#: CPU seconds for work that takes about one: what takes this long is endless, or grows with the square of its input
HANG_CPU_S = 300


def wait_for(
    is_there: Callable[[], object],
    what: Callable[[], object] | str = "",
    within_s: float = PATIENCE_S,
    *,
    every_s: float = 0.05,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Poll until the event has happened. Raises AssertionError with ``what``, or the text that its call returns.

    Whoever asks by loading a page asks seldom: the site would have more to do with the questions than with the work.
    ``pause`` waits for some seconds.
    """
    deadline = time.monotonic() + within_s
    while not is_there():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what() if callable(what) else what}"
        pause(every_s)


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """Fail with AssertionError if the work inside has taken :data:`HANG_CPU_S` of this process. Main thread only."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"it goes on after {HANG_CPU_S} CPU seconds")

    former = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, HANG_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


@contextlib.contextmanager
def counting_steps() -> Iterator[Callable[[], int]]:
    """Counts calls and turns of loops of Python in all threads, the same on every machine; yields
    what tells how many there were so far.
    """
    tool, events = sys.monitoring, sys.monitoring.events
    count = 0

    def step(*_: object) -> None:
        nonlocal count
        count += 1

    counted = (events.PY_START, events.CALL, events.JUMP)
    tool.use_tool_id(tool.PROFILER_ID, "steps")
    try:
        for event in counted:
            tool.register_callback(tool.PROFILER_ID, event, step)
        tool.set_events(tool.PROFILER_ID, events.PY_START | events.CALL | events.JUMP)
        yield lambda: count
    finally:
        tool.set_events(tool.PROFILER_ID, events.NO_EVENTS)
        for event in counted:
            tool.register_callback(tool.PROFILER_ID, event, None)
        tool.free_tool_id(tool.PROFILER_ID)


def steps_of(work: Callable[[], object]) -> int:
    """How many steps (:func:`counting_steps`) the work takes."""
    with counting_steps() as so_far:
        work()
        return so_far()
