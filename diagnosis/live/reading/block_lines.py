"""The lines of a block of logs whose messages mean something to the watches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from diagnosis.kinds.logs.columns.sources import settle_labels
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.read.described import Log
from diagnosis.kinds.logs.read.prepared import Prepared
from diagnosis.knowledge import words
from diagnosis.live.observation import DiskUse, ErrorRow, LineTallies, Observation
from diagnosis.live.reading.count_lines import CountLine, CountLines, NumberLines
from diagnosis.live.reading.meanings import MAX_LINE_CHARS, Meaning, examples
from diagnosis.live.reading.stage_lines import StageLine, announced_stages, last_stage
from diagnosis.model import Level

#: Maximum number of lines with a counter that are read: the last ones of a range. The time between
#: two of them is divided by the counts between them, so a job that counts more often has the same
#: step.
MAX_COUNTER_LINES: Final = 64
#: Maximum number of errors, statements about disks, ends of processes and nodes that are read of a range.
MAX_ERRORS: Final = 5
MAX_DISKS: Final = 20
MAX_ENDS: Final = 64
MAX_WRITERS: Final = 4_096
#: Stages that are kept after the last count.
MAX_ANNOUNCED: Final = 8
#: Number of characters of an error line that are kept.
MAX_ERROR_CHARS: Final = 300
#: Number of characters of a file system's name that are kept.
MAX_NAME_CHARS: Final = 200
#: A path in a line that says how full a file system is.
_PATH: Final = re.compile(r"(?<!\S)/[\w./-]*")

type Places = npt.NDArray[np.int64]


class BlockLines:
    """The lines of a block, of which each message has a meaning in ``known``."""

    def __init__(self, prepared: Prepared, known: Sequence[Meaning]) -> None:
        self._prepared, self._known = prepared, known
        self._counters = self._places([one.is_counter for one in known])
        self._numbers = self._places([one.has_numbers for one in known])
        self._stages = self._places([bool(one.stage) for one in known])
        self._errors = self._places([bool(one.signature) for one in known])
        self._disks = self._places([one.is_disk for one in known])
        self._ends = self._places([one.tells_end for one in known])

    def _places(self, has_meaning: list[bool]) -> Places:
        """The lines whose message has such a meaning."""
        if not any(has_meaning):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.array(has_meaning, np.bool_)[self._prepared.message])

    def observation_of(self, log: Log, low: int, high: int) -> Observation:
        """The observation of a log, which has the lines from ``low`` to ``high``."""
        stage_lines = self._stage_lines(log, _within(self._stages, low, high))
        announced = announced_stages(stage_lines)
        counts = CountLines(announced)
        for line in self._count_lines(log, _within(self._counters, low, high)):
            counts.add(line)
        numbers = NumberLines(announced)
        for line in self._count_lines(log, _within(self._numbers, low, high)):
            numbers.add(line)
        stage, stage_at = last_stage(stage_lines, counts.last_row)
        after = announced_stages([line for line in stage_lines if line.row > counts.last_row])
        return Observation(
            lines=high - low,
            counters=counts.counters(),
            numbers=numbers.numbers(),
            losses=tuple(counts.losses),
            stage=stage,
            stage_at=stage_at,
            announced=tuple(line.mark for line in after[:MAX_ANNOUNCED]),
            errors=self._error_rows(log, _within(self._errors, low, high)),
            ended=self._bad_end(_within(self._ends, low, high)),
            tallies=self._tallies(low, high),
            disks=self._disk_uses(_within(self._disks, low, high)),
            writers=_writers(log),
        )

    def _times(self, log: Log, rows: Places) -> list[int | None]:
        return log.times(self._prepared.time[rows], self._prepared.facts.flags[rows])

    def _stage_lines(self, log: Log, rows: Places) -> list[StageLine]:
        """The lines that begin or end a stage."""
        found = []
        messages = self._prepared.message[rows].tolist()
        for row, at, message in zip(rows.tolist(), self._times(log, rows), messages, strict=True):
            meaning = self._known[message]
            found.append(StageLine(row, at, meaning.stage, meaning.is_end))
        return found

    def _count_lines(self, log: Log, rows: Places) -> list[CountLine]:
        """The last lines whose message may have a counter."""
        last = rows[-MAX_COUNTER_LINES:]
        masked = self._prepared.facts.masked[last].tolist()
        found = []
        for row, message, at in zip(last.tolist(), masked, self._times(log, last), strict=True):
            text = self._prepared.rows.one(row, MAX_LINE_CHARS)
            found.append(CountLine(row, at, message, text))
        return found

    def _error_rows(self, log: Log, rows: Places) -> tuple[ErrorRow, ...]:
        """The first line of each decisive rule."""
        prepared = self._prepared
        severe = rows[prepared.facts.level[rows] != Level.DEBUG]
        if not len(severe):
            return ()
        first = self._first_of_rules(severe)
        times = self._times(log, np.array([row for row, _ in first]))
        texts = examples(prepared, np.array([message for _, message in first]))["example"]
        found = []
        for (_, message), at, text in zip(first, times, texts.to_list(), strict=True):
            meaning = self._known[message]
            title = _title(meaning.signature)
            row = ErrorRow(meaning.signature, meaning.category, title, text[:MAX_ERROR_CHARS], at)
            found.append(row)
        return tuple(found)

    def _first_of_rules(self, rows: Places) -> list[tuple[int, int]]:
        """The first line of each rule and its message, in order, at most :data:`MAX_ERRORS`."""
        messages, places = np.unique(self._prepared.message[rows], return_index=True)
        first: dict[str, tuple[int, int]] = {}
        for place, message in sorted(zip(places.tolist(), messages.tolist(), strict=True)):
            first.setdefault(self._known[message].signature, (int(rows[place]), message))
        return list(first.values())[:MAX_ERRORS]

    def _tallies(self, low: int, high: int) -> LineTallies:
        """Counts of lines that are errors, and of lines about retries."""
        prepared = self._prepared
        begin, end = np.searchsorted(prepared.first, (low, high)).tolist()
        count, worst = prepared.count[begin:end], prepared.worst[begin:end]
        is_about_retries = np.array([one.is_retry for one in self._known[begin:end]], np.bool_)
        is_retry = is_about_retries & (worst != Level.DEBUG)
        errors = count[worst >= Level.ERROR].sum()
        retries = count[is_retry].sum()
        return LineTallies(errors=int(errors), retries=int(retries))

    def _bad_end(self, rows: Places) -> str:
        """The first line of a bad end of a process: the code differs within one message."""
        is_bad = words.regex("watched", "bad_end")
        for row in rows[:MAX_ENDS].tolist():
            text = self._prepared.rows.one(row, MAX_LINE_CHARS)
            if is_bad.search(text):
                return text.strip()[:MAX_ERROR_CHARS]
        return ""

    def _disk_uses(self, rows: Places) -> tuple[DiskUse, ...]:
        """What the last lines say of the use of file systems."""
        states_use = words.regex("watched", "disk")
        found = []
        for row in rows[-MAX_DISKS:].tolist():
            text = self._prepared.rows.one(row, MAX_LINE_CHARS)
            stated = states_use.search(text)
            if stated is None or float(stated.group(2)) > 100:
                continue
            path = stated.group(1) or _first_path(text)
            found.append(DiskUse(path[:MAX_NAME_CHARS], float(stated.group(2))))
        return tuple(found)


def _within(rows: Places, low: int, high: int) -> Places:
    """The rows from ``low`` to ``high``, of rows in order."""
    begin, end = np.searchsorted(rows, (low, high))
    return rows[begin:end]


def _title(signature: str) -> str:
    rule = signatures.load().rule(signature)
    return signature if rule is None else rule.title


def _first_path(text: str) -> str:
    path = _PATH.search(text)
    return "" if path is None else path.group()


def _writers(log: Log) -> tuple[str, ...]:
    """The nodes that wrote the lines."""
    writers = zip(settle_labels(log.sources.all, log.counts), log.counts, strict=True)
    nodes = {source.node for source, count in writers if count and source.node}
    return tuple(sorted(nodes)[:MAX_WRITERS])
