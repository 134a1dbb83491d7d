"""How long a test waits for an event. These limits only end a wait whose event never comes.

They are not measurements, so they are far above what a busy machine with one core needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: for an answer of a running program: a page, a signal, a process that starts or ends
PATIENCE_S = 180
#: for background work: reading and diagnosing evidence
WORK_S = 900


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
