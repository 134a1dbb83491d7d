"""Python's ``faulthandler``: threads, most recent call first, as ``File "…", line N in f`` (no comma before ``in``)."""

from __future__ import annotations

import re

from diagnosis import numbers
from diagnosis.kinds.stacks.read.stack_frames import Dump, Frame, Thread

THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-fA-F]+)(?: \[(.*?)\])? \(most recent call first\):\s*$")
FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.+?)\s*$')
HEAD = re.compile(
    r"^(?:Fatal Python error: (.*)|Timeout \(\d+:\d{2}:\d{2}(?:\.\d+)?\)!|Stack \(most recent call first\):)\s*$"
)
_END = re.compile(r"^(?:Extension modules:|  <no Python frame>|  \.\.\.|Current thread's C stack trace)")


class TextReader:
    """One process after another; a new one begins at a fatal error, a time-out, or when a thread address comes back."""

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self._frames: list[Frame] = []
        self._thread: tuple[str, str] | None = None

    def feed(self, line: str, number: int) -> bool:
        if m := FRAME.match(line):
            if self._thread is None:
                return False
            self._frames.append(Frame(m[3], m[1], numbers.whole(m[2])))
            return True
        if m := THREAD.match(line):
            self._close()
            seen = self.dumps and any(t.tid == m[2] for t in self.dumps[-1].threads)
            if not self.dumps or seen:
                self.dumps.append(Dump(line=number))
            self._thread = (m[3] or ("current" if m[1].startswith("Current") else ""), m[2])
            return True
        if m := HEAD.match(line):
            self._close()
            self.dumps.append(Dump(line=number, error=m[1] or ""))
            if line.startswith("Stack"):
                self._thread = ("current", "")
            return True
        return not line.strip() or bool(_END.match(line))

    def _close(self) -> None:
        if self._thread is not None:
            self.dumps[-1].threads.append(Thread(self._thread[0], self._thread[1], "", tuple(self._frames)))
        self._thread, self._frames = None, []

    def finish(self) -> list[Dump]:
        self._close()
        return [d for d in self.dumps if d.threads or d.error]
