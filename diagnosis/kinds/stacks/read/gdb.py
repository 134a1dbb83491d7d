"""gdb's ``thread apply all bt`` (and ``py-bt`` lines within it), innermost frame first."""

from __future__ import annotations

import re

from diagnosis.kinds.stacks.read.stack_frames import Dump
from diagnosis.kinds.stacks.read.thread_reader import Rule, ThreadReader
from diagnosis.values import numbers

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


class TextReader(ThreadReader):
    """gdb counts threads down to 1, so a process begins where the number does not fall.

    The preamble of an attach (``[New LWP …]``, warnings about missing sources) is understood and dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread_number = 0
        self._pid: int | None = None

    def rules(self) -> tuple[Rule, ...]:
        return (
            (FRAME, self._read_frame),
            (PYTHON, self._read_python),
            (THREAD, self._read_thread),
            (ATTACH, self._read_attach),
        )

    def is_known_rest(self, line: str) -> bool:
        return not self.is_in_thread or not line.startswith("Process ")

    def _read_frame(self, found: re.Match[str]) -> bool:
        """A frame; one before the first thread is part of the preamble."""
        at = _AT.search(found[0])
        library = _FROM.search(found[0])
        if at is not None:
            self.add_frame(found[1], at[1], at[2])
        else:
            name = library[1].rsplit("/", 1)[-1] if library else "[native].so"
            self.add_frame(found[1], name, None)
        return True

    def _read_python(self, found: re.Match[str]) -> bool:
        self.add_frame(found[3], found[1], found[2])
        return True

    def _read_thread(self, found: re.Match[str]) -> bool:
        self.close_thread()
        number = numbers.whole(found[1]) or 0
        if not self.dumps or number >= self._thread_number:
            self.dumps.append(Dump(pid=self._pid, line=self.number))
            self._pid = None
        self._thread_number = number
        self.begin_thread(found[4] or "", found[3])
        return True

    def _read_attach(self, found: re.Match[str]) -> bool:
        self.close_thread()
        self._thread_number = 0
        if found[1]:
            self._pid = numbers.whole(found[1])
        return True

    def finish(self) -> list[Dump]:
        for dump in super().finish():
            if dump.pid is None and dump.threads:
                dump.pid = numbers.whole(dump.threads[-1].tid)  # thread 1, printed last, is the process
        return self.dumps
