"""pystack (https://github.com/bloomberg/pystack): threads with their most recent call LAST, optionally with C
frames."""

from __future__ import annotations

import re

from diagnosis.kinds.stacks.read.stack_frames import Dump, Frame
from diagnosis.kinds.stacks.read.thread_reader import Rule, ThreadReader

THREAD = re.compile(
    r"^(?:Traceback for thread"
    r"|The frame stack for thread) (\d+)(?: \((.*?)\))? \[(.*?)\] ?\(?(?:most recent call last\)|is empty).*$"
)
FRAME = re.compile(r'^    \((Python|C)\) File "(.*)", line (\d+|\?+|None), in (.+?)(?: \((\S+)\))?\s*$')


class TextReader(ThreadReader):
    """pystack prints no process id; a thread id that comes back begins the next process."""

    def rules(self) -> tuple[Rule, ...]:
        return (FRAME, self._read_frame), (THREAD, self._read_thread)

    def is_known_rest(self, line: str) -> bool:
        return self.is_in_thread and line.startswith("      ")

    def _read_frame(self, found: re.Match[str]) -> bool:
        is_native = found[1] == "C"
        return self.add_frame(found[4], (is_native and found[5]) or found[2], found[3])

    def _read_thread(self, found: re.Match[str]) -> bool:
        self.close_thread()
        if not self.dumps or self.has_thread(found[1]):
            self.dumps.append(Dump(line=self.number))
        state = "active+gil" if "Has the GIL" in found[3] else ""
        self.begin_thread(found[2] or "", found[1], state)
        return True

    def in_order(self, frames: list[Frame]) -> tuple[Frame, ...]:
        return tuple(reversed(frames))
