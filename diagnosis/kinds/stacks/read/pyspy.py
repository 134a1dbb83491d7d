"""py-spy dumps, as text and as JSON (https://github.com/benfred/py-spy, ``py-spy dump [--native] [--locals]
[--json]``)."""

from __future__ import annotations

import json
import re
from typing import Any

from diagnosis.kinds.stacks.read.stack_frames import FAILED, TRUNCATED, Dump, Frame, Thread

PROCESS = re.compile(r"^Process (\d+): (.*)$")
PARENT = re.compile(r"^Parent Process (\d+): ")
PYTHON = re.compile(r"^Python v(\S+) \(")
THREAD = re.compile(r"^Thread (0x[0-9A-Fa-f]+|\d+) \((idle|active|active\+gil)\)(?:: \"(.*)\")?\s*$")
FRAME = re.compile(r"^    (\S.*) \(([^()]+?)(?::(\d+))?\)\s*$")


class TextReader:
    """Reads lines of one process after another into :attr:`dumps`. The caller handles other lines. :meth:`feed` returns
    whether the line was understood.
    """

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self._frames: list[Frame] = []
        self._thread: tuple[str, str, str] | None = None

    def feed(self, line: str, number: int) -> bool:
        if (m := FRAME.match(line)) and self._thread is not None:
            self._frames.append(Frame(m[1], m[2], int(m[3]) if m[3] else None))
            return True
        if line.startswith("        ") and self._thread is not None:
            return True  # the values of --locals: they differ between ranks by nature
        if m := THREAD.match(line):
            self._close()
            if not self.dumps:
                self.dumps.append(Dump(line=number))
            self._thread = (m[3] or "", str(int(m[1], 16)) if m[1].startswith("0x") else m[1], m[2])
            return True
        if m := PROCESS.match(line):
            self._close()
            self.dumps.append(Dump(pid=int(m[1]), command=m[2], line=number))
            return True
        if (m := PARENT.match(line)) and self.dumps:
            self.dumps[-1].parent = int(m[1])
            return True
        if PYTHON.match(line):
            return True
        if line.startswith("Error: "):
            self._close()
            if not (self.dumps and self.dumps[-1].pid is not None and not self.dumps[-1].threads):
                self.dumps.append(Dump(line=number))
            self.dumps[-1].status, self.dumps[-1].error = FAILED, line[7:].strip()
            return True
        if line.startswith("Reason: ") and self.dumps and self.dumps[-1].status == FAILED:
            self.dumps[-1].error += f": {line[8:].strip()}"
            return True
        return not line.strip()

    def _close(self) -> None:
        if self._thread is not None:
            name, tid, state = self._thread
            self.dumps[-1].threads.append(Thread(name, tid, state, tuple(self._frames)))
        self._thread, self._frames = None, []

    def finish(self) -> list[Dump]:
        self._close()
        return self.dumps


def from_json(text: str) -> list[Dump]:
    """One dump a process id. The JSON has neither command line nor host; ``process_info`` is null in every release
    seen.

    :raises ValueError: not py-spy's shape.
    """
    rows: Any = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError("expected a list of threads")
    by_pid: dict[int | None, Dump] = {}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("frames"), list):
            raise ValueError("a thread without frames")
        pid = row.get("pid")
        if not isinstance(pid, int | None):
            raise ValueError("a process id that is no number")
        dump = by_pid.setdefault(pid, Dump(pid=pid))
        info = row.get("process_info")
        if isinstance(info, dict) and not dump.command:
            dump.command = str(info.get("command_line") or "")
        frames = tuple(
            Frame(str(f.get("name")), str(f.get("short_filename") or f.get("filename") or ""), _line(f.get("line")))
            for f in row["frames"]
            if isinstance(f, dict)
        )
        state = "active+gil" if row.get("owns_gil") else "active" if row.get("active") else "idle"
        dump.threads.append(
            Thread(
                str(row.get("thread_name") or ""), str(row.get("os_thread_id") or row.get("thread_id")), state, frames
            )
        )
    for dump in by_pid.values():
        dump.threads.reverse()  # the JSON lists threads last to first; readers expect the main thread on top
    return list(by_pid.values())


def _line(value: Any) -> int | None:
    """The line's number; py-spy writes 0 if it is unknown."""
    return value if isinstance(value, int) and value else None


class JsonReader:
    """JSON of processes that follow each other in a bundle, on one line each or indented."""

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self._held: list[str] = []
        self._line = 1

    def feed(self, line: str, number: int) -> bool:
        if not self._held:
            if not line.startswith("["):
                return not line.strip()
            self._line = number
        self._held.append(line)
        if line == "]" or (len(self._held) == 1 and line.endswith("]")):
            self._close()
        return True

    def _close(self) -> None:
        text, self._held = "\n".join(self._held), []
        try:
            found = from_json(text)
        except (ValueError, RecursionError) as error:
            found = [Dump(status=TRUNCATED, error=f"not a complete py-spy JSON dump ({error})")]
        for dump in found:
            dump.line = self._line
        self.dumps += found

    def finish(self) -> list[Dump]:
        if self._held:
            self._close()
        return self.dumps
