"""What the readers of text dumps have in common: lines become frames, frames threads, threads processes."""

from __future__ import annotations

import re
from collections.abc import Callable

from diagnosis.kinds.stacks.read.stack_frames import Dump, Frame, Thread
from diagnosis.values import numbers

#: A pattern, and what reads its match: whether the line belongs to the dump.
type Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], bool]]


class ThreadReader:
    """Reads lines of one process after another into :attr:`dumps`: each line goes to the first rule that matches."""

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self.number = 0  # of the line that is read, from 1
        self._rules: tuple[Rule, ...] = self.rules()
        self._frames: list[Frame] = []
        self._thread: tuple[str, str, str] | None = None

    def rules(self) -> tuple[Rule, ...]:
        raise NotImplementedError

    def feed(self, line: str, number: int) -> bool:
        """Whether the line was understood."""
        self.number = number
        for pattern, read in self._rules:
            found = pattern.match(line)
            if found is not None:
                return read(found)
        return not line.strip() or self.is_known_rest(line)

    def is_known_rest(self, line: str) -> bool:
        """Whether a line that no rule reads is part of a dump all the same."""
        return False

    @property
    def is_in_thread(self) -> bool:
        return self._thread is not None

    def begin_thread(self, name: str, tid: str, state: str = "") -> None:
        """The frames that follow are those of this thread of the last process."""
        self._thread = (name, tid, state)

    def add_frame(self, function: str, file: str, line: str | None) -> bool:
        """A frame of the thread; False if there is none."""
        if self._thread is None:
            return False
        self._frames.append(Frame(function, file, numbers.whole(line) if line else None))
        return True

    def close_thread(self) -> None:
        """The thread is complete."""
        if self._thread is not None:
            name, tid, state = self._thread
            self.dumps[-1].threads.append(Thread(name, tid, state, self.in_order(self._frames)))
        self._thread = None
        self._frames = []

    def in_order(self, frames: list[Frame]) -> tuple[Frame, ...]:
        """The frames of a thread, innermost first."""
        return tuple(frames)

    def has_thread(self, tid: str) -> bool:
        """Whether the last process has a thread of this id already: then another process begins."""
        return bool(self.dumps) and any(thread.tid == tid for thread in self.dumps[-1].threads)

    def finish(self) -> list[Dump]:
        """All processes, after the last line."""
        self.close_thread()
        return self.dumps
