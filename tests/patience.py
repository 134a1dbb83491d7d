"""How long a test waits: until the event. These limits only end a wait whose event never comes.

They are no measurements, so that they are far beyond what a busy machine with one core needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: for an answer of something that runs: a page, a signal, a process that starts or ends
PATIENCE_S = 180
#: for work in the background: evidence that is read and diagnosed
WORK_S = 900


def wait_for(
    is_there: Callable[[], object], what: Callable[[], object] | str = "", within_s: float = PATIENCE_S
) -> None:
    """Poll until the event is there; AssertionError with ``what`` was waited for, or what its call tells by then."""
    deadline = time.monotonic() + within_s
    while not is_there():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what() if callable(what) else what}"
        time.sleep(0.05)
