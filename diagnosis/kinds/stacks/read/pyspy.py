"""py-spy dumps, as text and as JSON (https://github.com/benfred/py-spy, ``py-spy dump [--native] [--locals]
[--json]``)."""

from __future__ import annotations

import json
import re
from typing import Any

from diagnosis.kinds.stacks.read.stack_frames import FAILED, TRUNCATED, Dump, Frame, Thread
from diagnosis.kinds.stacks.read.thread_reader import Rule, ThreadReader
from diagnosis.values import numbers
from diagnosis.values.json_values import JsonObject, object_in, objects_in

PROCESS = re.compile(r"^Process (\d+): (.*)$")
PARENT = re.compile(r"^Parent Process (\d+): ")
PYTHON = re.compile(r"^Python v(\S+) \(")
THREAD = re.compile(r"^Thread (0x[0-9A-Fa-f]+|\d+) \((idle|active|active\+gil)\)(?:: \"(.*)\")?\s*$")
ERROR = re.compile(r"^Error: (.*)$")
REASON = re.compile(r"^Reason: (.*)$")
FRAME = re.compile(r"^    (\S.*) \(([^()]+?)(?::(\d+))?\)\s*$")


class TextReader(ThreadReader):
    """Processes as text, with or without ``--native``, ``--locals`` and ``--subprocesses``."""

    def rules(self) -> tuple[Rule, ...]:
        return (
            (FRAME, self._read_frame),
            (THREAD, self._read_thread),
            (PROCESS, self._read_process),
            (PARENT, self._read_parent),
            (ERROR, self._read_error),
            (REASON, self._read_reason),
        )

    def is_known_rest(self, line: str) -> bool:
        """The version, and the values of --locals: they differ between ranks by nature."""
        is_local = self.is_in_thread and line.startswith("        ")
        return is_local or bool(PYTHON.match(line))

    def _read_frame(self, found: re.Match[str]) -> bool:
        return self.add_frame(found[1], found[2], found[3])

    def _read_thread(self, found: re.Match[str]) -> bool:
        self.close_thread()
        if not self.dumps:
            self.dumps.append(Dump(line=self.number))
        tid = str(int(found[1], 16)) if found[1].startswith("0x") else found[1]
        self.begin_thread(found[3] or "", tid, found[2])
        return True

    def _read_process(self, found: re.Match[str]) -> bool:
        self.close_thread()
        self.dumps.append(Dump(pid=numbers.whole(found[1]), command=found[2], line=self.number))
        return True

    def _read_parent(self, found: re.Match[str]) -> bool:
        if self.dumps:
            self.dumps[-1].parent = numbers.whole(found[1])
        return bool(self.dumps)

    def _read_error(self, found: re.Match[str]) -> bool:
        """An error of the tool: of the process whose heading stands above it, else of one without a heading."""
        self.close_thread()
        is_headed = bool(self.dumps) and self.dumps[-1].pid is not None and not self.dumps[-1].threads
        if not is_headed:
            self.dumps.append(Dump(line=self.number))
        self.dumps[-1].status = FAILED
        self.dumps[-1].error = found[1].strip()
        return True

    def _read_reason(self, found: re.Match[str]) -> bool:
        is_of_error = bool(self.dumps) and self.dumps[-1].status == FAILED
        if is_of_error:
            self.dumps[-1].error += f": {found[1].strip()}"
        return is_of_error


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
        dump.command = dump.command or _command(row)
        dump.threads.append(_thread(row))
    for dump in by_pid.values():
        dump.threads.reverse()  # the JSON lists threads last to first; readers expect the main thread on top
    return list(by_pid.values())


def _command(row: JsonObject) -> str:
    info = object_in(row.get("process_info"))
    return str(info.get("command_line") or "")


def _thread(row: JsonObject) -> Thread:
    frames = tuple(map(_frame, objects_in(row["frames"])))
    tid = str(row.get("os_thread_id") or row.get("thread_id"))
    return Thread(str(row.get("thread_name") or ""), tid, _state(row), frames)


def _frame(frame: JsonObject) -> Frame:
    file = str(frame.get("short_filename") or frame.get("filename") or "")
    return Frame(str(frame.get("name")), file, _line(frame.get("line")))


def _state(row: JsonObject) -> str:
    if row.get("owns_gil"):
        return "active+gil"
    return "active" if row.get("active") else "idle"


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
