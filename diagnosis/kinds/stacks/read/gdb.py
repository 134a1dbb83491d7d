"""gdb's ``thread apply all bt`` (and ``py-bt`` lines within it), innermost frame first."""

from __future__ import annotations

import re

from diagnosis.kinds.stacks.read.stack_frames import Dump, Frame, Thread

THREAD = re.compile(
    r'^Thread (\d+) \((?:Thread (0x[0-9a-fA-F]+) )?\(?LWP (\d+)\)?(?: "(.*?)")?[^)]*\)(?: \(Exiting\))?:\s*$'
)
FRAME = re.compile(r"^#\d+\s+(?:0x[0-9a-fA-F]+ in )?(\S.*?) \(.*$")
PYTHON = re.compile(r'^\s+File "(.*)", line (\d+), in (\S+)')
ATTACH = re.compile(
    r"^(?:Attaching to (?:program: .*, )?process (\d+)|\[New LWP \d+\]|\[Thread debugging using"
    r"|0x[0-9a-fA-F]+ in \S+ \()"
)
_AT = re.compile(r"\) at (\S+?):(\d+)\s*$")
_FROM = re.compile(r"\) from (\S+)\s*$")


def _frame(line: str, function: str) -> Frame:
    if at := _AT.search(line):
        return Frame(function, at[1], int(at[2]))
    library = _FROM.search(line)
    return Frame(function, library[1].rsplit("/", 1)[-1] if library else "[native].so")


class TextReader:
    """gdb counts threads down to 1, so a process begins where the number does not fall.

    The preamble of an attach (``[New LWP …]``, warnings about missing sources) is understood and dropped.
    """

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self._frames: list[Frame] = []
        self._thread: tuple[str, str] | None = None
        self._number = 0
        self._pid: int | None = None

    def feed(self, line: str, number: int) -> bool:
        if m := FRAME.match(line):
            if self._thread is None:
                return line.startswith("#")
            self._frames.append(_frame(line, m[1]))
            return True
        if (m := PYTHON.match(line)) and self._thread is not None:
            self._frames.append(Frame(m[3], m[1], int(m[2])))
            return True
        if m := THREAD.match(line):
            self._close()
            if not self.dumps or int(m[1]) >= self._number:
                self.dumps.append(Dump(pid=self._pid, line=number))
                self._pid = None
            self._number = int(m[1])
            self._thread = (m[4] or "", m[3])
            return True
        if m := ATTACH.match(line):
            self._close()
            self._number = 0
            self._pid = int(m[1]) if m[1] else self._pid
            return True
        return not line.strip() or self._thread is None or not line.startswith("Process ")

    def _close(self) -> None:
        if self._thread is not None:
            self.dumps[-1].threads.append(Thread(self._thread[0], self._thread[1], "", tuple(self._frames)))
        self._thread, self._frames = None, []

    def finish(self) -> list[Dump]:
        self._close()
        for dump in self.dumps:
            if dump.pid is None and dump.threads:
                dump.pid = int(dump.threads[-1].tid)  # thread 1, printed last, is the process
        return self.dumps
