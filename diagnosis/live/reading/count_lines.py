"""Lines with a counter: its numbers, the stages announced between them, the losses beside them."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from diagnosis.kinds.logs.pace import counter_words, counters, planned_end, progress
from diagnosis.knowledge import words
from diagnosis.live.found_counters import FOUND
from diagnosis.live.observation import MAX_NUMBERS, CountRow, LossRow, NumberRow, StageMark
from diagnosis.live.reading.stage_lines import AnnouncedStage

#: Stages that are kept between two counts.
MAX_ANNOUNCED: Final = 8
_MAX_NAME_CHARS: Final = 100
_NUMBERS: Final = re.compile(r"[0-9]+")
#: What a line with a loss has; the pattern of losses costs more than all else that is read in a
#: line.
_LOSS_WORD: Final = "loss"


class CountLine(NamedTuple):
    """A line whose message may have a counter. ``message``: the number of its masked text."""

    row: int
    at: int | None
    message: int
    text: str


class CountLines:
    """The counters of the lines of one log, which are added in their order.

    ``losses``: the losses beside them; ``last_row``: the last line with a counter, -1 without any.
    """

    def __init__(self, announced: Iterable[AnnouncedStage]) -> None:
        self.losses: list[LossRow] = []
        self.last_row = -1
        self._announced = deque(announced)
        self._waiting: list[StageMark] = []
        self._rows: dict[str, list[CountRow]] = {}
        self._are_last: dict[str, bool] = {}

    def add(self, line: CountLine) -> None:
        """Add a line; one without a counter changes nothing."""
        while self._announced and self._announced[0].row < line.row:
            self._waiting.append(self._announced.popleft().mark)
        counted = counter_words.counter(line.text)
        if counted is None:
            return
        kind, number, _ = counted
        name = _counter_name(kind, line.text, line.message)
        announced = tuple(self._waiting[:MAX_ANNOUNCED])
        self._rows.setdefault(name, []).append(CountRow(number, line.at, announced))
        self._are_last[name] = planned_end.is_at_total(line.text, number)
        self._waiting = []
        self.last_row = line.row
        self._add_loss(number, line.text)

    def _add_loss(self, number: int, text: str) -> None:
        if _LOSS_WORD not in text.lower():
            return
        stated = words.regex("watched", "loss").search(text)
        if stated is not None:
            loss = float(stated.group(1))
            self.losses.append(LossRow(number, loss if math.isfinite(loss) else None))

    def counters(self) -> dict[str, tuple[CountRow, ...]]:
        """The counts of each message. Only its last one can be the last one planned."""
        found = {}
        for name, rows in self._rows.items():
            last = msgspec.structs.replace(rows[-1], is_last=self._are_last[name])
            found[name] = (*rows[:-1], last)
        return found


class NumberLines:
    """A log's lines without a known counter, one of whose numbers may count, in order."""

    def __init__(self, announced: Iterable[AnnouncedStage]) -> None:
        self._announced = deque(announced)
        self._rows: dict[str, list[NumberRow]] = {}

    def add(self, line: CountLine) -> None:
        """Add a line; one without such numbers changes nothing."""
        found = progress.may_count(line.text)
        if found is None:
            return
        waiting: list[StageMark] = []
        while self._announced and self._announced[0].row < line.row:
            waiting.append(self._announced.popleft().mark)
        numbers, measure = found
        row = NumberRow(numbers[:MAX_NUMBERS], measure, line.at, tuple(waiting[:MAX_ANNOUNCED]))
        self._rows.setdefault(f"{FOUND}{line.message:x}", []).append(row)

    def numbers(self) -> dict[str, tuple[NumberRow, ...]]:
        """The lines of each message."""
        return {name: tuple(rows) for name, rows in self._rows.items()}


def _counter_name(kind: str, text: str, message: int) -> str:
    """What lines of one counter have in common: their message. Each state of a progress bar is
    drawn in another way, so the words before the bar name it.
    """
    bar = counters.DRAWN_BAR.search(text)
    if bar is None:
        return f"{kind} {message:x}"
    before = text[: bar.start()]
    without_numbers = _NUMBERS.sub("#", before)
    name = " ".join(without_numbers.split())
    return f"{kind} {name[:_MAX_NAME_CHARS]}"
