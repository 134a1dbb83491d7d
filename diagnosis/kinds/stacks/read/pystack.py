"""pystack (https://github.com/bloomberg/pystack): threads with their most recent call LAST, optionally with C
frames."""

from __future__ import annotations

import re

from diagnosis import numbers
from diagnosis.kinds.stacks.read.stack_frames import Dump, Frame, Thread

THREAD = re.compile(
    r"^(?:Traceback for thread"
    r"|The frame stack for thread) (\d+)(?: \((.*?)\))? \[(.*?)\] ?\(?(?:most recent call last\)|is empty).*$"
)
FRAME = re.compile(r'^    \((Python|C)\) File "(.*)", line (\d+|\?+|None), in (.+?)(?: \((\S+)\))?\s*$')


class TextReader:
    """pystack prints no process id; a thread id that comes back begins the next process."""

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self._frames: list[Frame] = []
        self._thread: tuple[str, str, str] | None = None

    def feed(self, line: str, number: int) -> bool:
        if (m := FRAME.match(line)) and self._thread is not None:
            file = m[5] if m[1] == "C" and m[5] else m[2]
            self._frames.append(Frame(m[4], file, numbers.whole(m[3])))
            return True
        if m := THREAD.match(line):
            self._close()
            if not self.dumps or any(t.tid == m[1] for t in self.dumps[-1].threads):
                self.dumps.append(Dump(line=number))
            self._thread = (m[2] or "", m[1], "active+gil" if "Has the GIL" in m[3] else "")
            return True
        return not line.strip() or (self._thread is not None and line.startswith("      "))

    def _close(self) -> None:
        if self._thread is not None:
            name, tid, state = self._thread
            self.dumps[-1].threads.append(Thread(name, tid, state, tuple(reversed(self._frames))))
        self._thread, self._frames = None, []

    def finish(self) -> list[Dump]:
        self._close()
        return self.dumps
