"""Python's ``faulthandler``: threads, most recent call first, as ``File "…", line N in f`` (no comma before ``in``)."""

from __future__ import annotations

import re

from diagnosis.kinds.stacks.read.stack_frames import Dump
from diagnosis.kinds.stacks.read.thread_reader import Rule, ThreadReader

THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-fA-F]+)(?: \[(.*?)\])? \(most recent call first\):\s*$")
FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.+?)\s*$')
HEAD = re.compile(
    r"^(?:Fatal Python error: (.*)|Timeout \(\d+:\d{2}:\d{2}(?:\.\d+)?\)!|Stack \(most recent call first\):)\s*$"
)
_END = re.compile(r"^(?:Extension modules:|  <no Python frame>|  \.\.\.|Current thread's C stack trace)")


class TextReader(ThreadReader):
    """One process after another; a new one begins at a fatal error, a time-out, or when a thread address comes back."""

    def rules(self) -> tuple[Rule, ...]:
        return (FRAME, self._read_frame), (THREAD, self._read_thread), (HEAD, self._read_head)

    def is_known_rest(self, line: str) -> bool:
        return bool(_END.match(line))

    def _read_frame(self, found: re.Match[str]) -> bool:
        return self.add_frame(found[3], found[1], found[2])

    def _read_thread(self, found: re.Match[str]) -> bool:
        self.close_thread()
        if not self.dumps or self.has_thread(found[2]):
            self.dumps.append(Dump(line=self.number))
        unnamed = "current" if found[1].startswith("Current") else ""
        self.begin_thread(found[3] or unnamed, found[2])
        return True

    def _read_head(self, found: re.Match[str]) -> bool:
        self.close_thread()
        self.dumps.append(Dump(line=self.number, error=found[1] or ""))
        if found[0].startswith("Stack"):
            self.begin_thread("current", "")
        return True

    def finish(self) -> list[Dump]:
        return [dump for dump in super().finish() if dump.threads or dump.error]
