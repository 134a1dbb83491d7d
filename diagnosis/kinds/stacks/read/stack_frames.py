"""Threads, processes and their frames: the common form of all stack formats.

A job's ranks mostly have the same few stacks, so :class:`Table` stores each distinct frame and each distinct stack
once; a dump of 4,096 ranks then fits in the ``facts`` of one :class:`~diagnosis.model.Parsed` instead of tens of
megabytes of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

OK, FAILED, TRUNCATED, EMPTY = "ok", "failed", "truncated", "empty"

_ADDRESS = re.compile(r"^(?:0x[0-9a-fA-F]+|\?\?)$")
_LIBRARY = re.compile(r"(?:\.so(?:\.\d+)*|\.dylib|\.dll|\.ko)$|^\[?vdso|\.(?:c|cc|cpp|cxx|cu|h|hpp|S)$")
_LEAF_LIBRARY = re.compile(
    r"^(?:libc|libpthread|ld-linux[\w-]*|libcuda|libm|linux-vdso|\[vdso\]?)\b|[_-]futex|sysdeps|nptl"
)


@lru_cache(maxsize=4096)  # of the thousands of frames of a job, most are in the same few files
def _is_library(file: str) -> bool:
    return bool(_LIBRARY.search(file))


class Frame(msgspec.Struct, frozen=True):
    """One call. ``file`` is as printed (a path, a module's short path, or a shared library for native frames)."""

    function: str
    file: str
    line: int | None = None

    @property
    def name(self) -> str:
        """The function without its class: only Python >= 3.11 prints the class, so one job may mix both."""
        return self.function if self.is_native else self.function.rsplit(".", 1)[-1]

    @property
    def base(self) -> str:
        """Base name of the file: mount points and virtual environments differ between nodes."""
        return self.file.replace("\\", "/").rsplit("/", 1)[-1]

    @property
    def is_native(self) -> bool:
        return _is_library(self.file) or self.is_nameless

    @property
    def is_nameless(self) -> bool:
        return bool(_ADDRESS.match(self.function))

    @property
    def label(self) -> str:
        """``function (file)``: what is compared between ranks; no line, no address, no rank."""
        return f"{self.name} ({self.base})" if self.base else self.name


def frame_text(label: str) -> str:
    """A frame's label in a sentence: ``function of file``, without brackets."""
    name, between, file = label.partition(" (")
    return f"{name} of {file.removesuffix(')')}" if between else name


def comparable_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Drop differences between ranks with the same activity. Native frames of a spinning wait are at a random position,
    so only Python frames are compared if there are any; of a purely native stack the nameless frames and the leaves
    inside libc and the driver are dropped.
    """
    every = tuple(frames)
    python = tuple(f for f in every if not f.is_native)
    if python:
        return python
    named = [f for f in every if not f.is_nameless]
    for at, frame in enumerate(named):
        if not _LEAF_LIBRARY.search(frame.file) and not _LEAF_LIBRARY.search(frame.base):
            return tuple(named[at:])
    return tuple(named)


class Thread(msgspec.Struct, frozen=True):
    """One thread; ``frames`` innermost first, for every order of the tool."""

    name: str
    tid: str
    state: str
    frames: tuple[Frame, ...]

    @property
    def begins(self) -> bool:
        """Whether the outermost frames are where programs and threads begin."""
        return any(f.name in _ENTRY for f in self.frames[-6:])


class Dump(msgspec.Struct):
    """One process at one time.

    ``label`` is the prefix of its lines in a bundle (``pdsh`` host, ``srun --label`` task), ``header`` the content of a
    heading above it (``rank``, ``node``); ``line`` its first line in the artifact, 1-based. ``status`` is ``ok``,
    ``failed`` (the tool could not read the process, which proves nothing about the process), ``truncated`` or
    ``empty``.
    """

    pid: int | None = None
    command: str = ""
    parent: int | None = None
    label: str | None = None
    header: dict[str, str] = msgspec.field(default_factory=dict)
    status: str = OK
    error: str = ""
    line: int = 1
    threads: list[Thread] = msgspec.field(default_factory=list)

    def main(self) -> Thread | None:
        """The thread that drives training: named so, else the one of the process id, else the one that began in a
        module."""
        for thread in self.threads:
            if thread.name == "MainThread":
                return thread
        for thread in self.threads:
            if self.pid is not None and thread.tid == str(self.pid):
                return thread
        for thread in self.threads:
            if any(f.name in _MAIN for f in thread.frames[-6:]):
                return thread
        return self.threads[-1] if self.threads else None

    def working(self) -> tuple[Frame, ...]:
        """Frames of the process's activity: its main thread, continued in the autograd thread while that runs backward.

        PyTorch runs the backward pass of CUDA tensors on a thread of the device; the main thread then shows only
        ``_engine_run_backward``, and a collective called by a backward hook is in the other thread.
        """
        main = self.main()
        if main is None:
            return ()
        first = next((f for f in main.frames if not f.is_native), None)
        if first is None or first.name not in _BACKWARD:
            return main.frames
        for thread in self.threads:
            if thread is not main and any(
                "autograd" in f.file and f.name in {"apply", "backward"} for f in thread.frames
            ):
                return thread.frames + main.frames
        return main.frames


_MAIN = {
    "<module>",
    "_run_module_as_main",
    "_run_code",
    "main",
    "Py_BytesMain",
    "pymain_run_python",
    "Py_RunMain",
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
}
_ENTRY = _MAIN | {
    "_bootstrap",
    "thread_run",
    "start_thread",
    "clone3",
    "__clone3",
    "clone",
    "run_code",
    "pymain_run_file_obj",
}
_BACKWARD = {"_engine_run_backward", "run_backward"}


class Table:
    """Distinct frames and stacks of one artifact, by number. Packing is linear; each distinct stack is stored once."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}

    def add(self, frames: Iterable[Frame]) -> int:
        key = tuple(self._frames.setdefault(f, len(self._frames)) for f in frames)
        return self._stacks.setdefault(key, len(self._stacks))

    def facts(self, dumps: Iterable[Dump]) -> dict[str, Any]:
        """JSON-able: ``{"frames": [[function, file, line]], "stacks": [[frame…]], "dumps": […]}``."""
        rows = [self._row(dump) for dump in dumps]
        return {
            "frames": [[frame.function, frame.file, frame.line] for frame in self._frames],
            "stacks": list(map(list, self._stacks)),
            "dumps": rows,
        }

    def _row(self, dump: Dump) -> dict[str, Any]:
        return {
            "pid": dump.pid,
            "command": dump.command,
            "parent": dump.parent,
            "label": dump.label,
            "header": dump.header,
            "status": dump.status,
            "error": dump.error,
            "line": dump.line,
            "threads": [[t.name, t.tid, t.state, self.add(t.frames)] for t in dump.threads],
        }


def unpack(facts: Mapping[str, Any]) -> list[Dump]:
    """The dumps that :meth:`Table.facts` packed."""
    frames = [Frame(*row) for row in facts.get("frames", ())]
    stacks = [tuple(map(frames.__getitem__, row)) for row in facts.get("stacks", ())]
    return [_unpack_dump(row, stacks) for row in facts.get("dumps", ())]


def _unpack_dump(row: Mapping[str, Any], stacks: Sequence[tuple[Frame, ...]]) -> Dump:
    return Dump(
        row["pid"],
        row["command"],
        row["parent"],
        row["label"],
        dict(row["header"]),
        row["status"],
        row["error"],
        row["line"],
        [Thread(name, tid, state, stacks[at]) for name, tid, state, at in row["threads"]],
    )
