"""Reads new ranges of growing logs: counters, losses, stages, errors and what else the watches need.

Ranges of many files are read as one block, and no table is written: a call of compiled code costs the same for a few
lines as for many, and a job of 64 nodes grows in 64 files. Linear in the ranges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from diagnosis.kinds.kind_table import kind_of
from diagnosis.kinds.logs.log_parsing import time_zone
from diagnosis.kinds.logs.meaning import signatures, stages, words
from diagnosis.kinds.logs.pace import progress
from diagnosis.kinds.logs.read import encodings, lines, wrapped
from diagnosis.kinds.logs.read.described import Described, Log
from diagnosis.kinds.logs.read.prepared import Prepared, prepare, prepare_files
from diagnosis.kinds.logs.read.sources import Sources, settle_labels
from diagnosis.live.meanings import MAX_LINE_CHARS, Meaning, examples, meanings
from diagnosis.live.news import empty_observation
from diagnosis.model import LOG_KINDS, Level
from diagnosis.recognise import LogKinds

#: Maximum number of lines with a counter that are read: the last ones of a range. The time between two of them is
#: divided by the counts between them, so a job that counts more often has the same step.
MAX_COUNTER_LINES: Final = 64
#: Maximum number of errors, statements about disks and nodes that are reported for a range.
MAX_ERRORS: Final = 5
MAX_DISKS: Final = 20
MAX_WRITERS: Final = 4_096
#: Stages that are kept between two counts.
MAX_ANNOUNCED: Final = 8
#: Number of characters of an error line that are kept.
MAX_ERROR_CHARS: Final = 300
#: Of a line that is overwritten again and again, as a progress bar is, so many states are read: the last ones.
MAX_STATES: Final = MAX_COUNTER_LINES
#: A progress bar as it is drawn, between its two ends, and the numbers before it.
_DRAWN_BAR: Final = re.compile(r"\|(?=[^|]{4})[█▉▊▋▌▍▎▏#]*[0-9]? *\||\[(?=[^\]]{4})[=#]*>?[ .\-]*\]")
_MAX_NAME_CHARS: Final = 100
_NUMBERS: Final = re.compile(r"[0-9]+")
#: What a line with a loss has; the pattern of losses costs more than all else that is read in a line.
_LOSS_WORD: Final = "loss"

type Places = npt.NDArray[np.int64]


class Range(NamedTuple):
    """New whole lines of a file: ``data``, from byte ``offset`` on. ``head``: the file's beginning, which shows its
    kind."""

    path: str
    head: bytes
    data: bytes
    offset: int = 0


class _StageMark(NamedTuple):
    """A line that begins or ends a stage."""

    row: int
    at: int | None
    stage: str
    is_end: bool


def observe(ranges: Sequence[Range], zone: str = "UTC") -> list[dict[str, Any]]:
    """The observation of each range; :func:`empty_observation` of those that are no logs. Never raises on content.

    Returns:
        In the order of the lines; times in ns UTC, None if a line has none.
        ``counters``: message -> rows of the count, its time, what was announced since the row before, and whether it is
        the last one planned; ``losses``: iteration and loss (None: not finite) of the same lines; ``stage`` at the end
        and its time; ``announced``: stages with their times after the last count, ``training`` where one ended, each
        once in a row; ``errors``: signature, category, title, text, at; ``tallies`` of error lines and of lines about
        retries; ``disks``: name and percent; ``writers``: nodes; ``lines``: their number.
    """
    zone = time_zone(zone, [])
    ranges = [one._replace(data=_states_as_lines(one)) if b"\r" in one.data else one for one in ranges]
    found, kinds, plain = [empty_observation() for _ in ranges], LogKinds(), list[int]()
    for number, one in enumerate(ranges):
        if not one.data:
            continue
        if kinds.of(one.head, one.path) is not None and _mark_bytes(one) == 0 and lines.is_plain(one.data):
            plain.append(number)
        elif kind_of(one.head, one.path) in LOG_KINDS:
            encoding, _ = encodings.encoding_of(one.head)
            begin = _mark_bytes(one)
            is_wrapped = wrapped.is_wrapped(encodings.decode(_whole_characters(one.head, encoding), encoding))
            block = lines.Block(one.data[begin:], one.offset + begin, encoding, is_wrapped=is_wrapped)
            found[number] = _observe_block([one.path], prepare(block, zone))[0]
    if plain:
        seen = _observe_block(
            [ranges[number].path for number in plain], prepare_files([ranges[n].data for n in plain], zone)
        )
        for number, observation in zip(plain, seen, strict=True):
            found[number] = observation
    return found


def _states_as_lines(one: Range) -> bytes:
    """The data with a line for each state of a line that carriage returns overwrite, at most :data:`MAX_STATES`. UTF-16
    and a journal's export stay as they are.
    """
    encoding, mark = encodings.encoding_of(one.head)
    if encoding != "utf-8" or wrapped.is_export(encodings.decode(one.head[mark:])):
        return one.data
    states: list[bytes] = []
    for line in one.data.replace(b"\r\n", b"\n").split(b"\n"):
        states += line.rsplit(b"\r", MAX_STATES)[-MAX_STATES:]
    return b"\n".join(states)


def _mark_bytes(one: Range) -> int:
    """The size of the mark before the text."""
    return 0 if one.offset else encodings.encoding_of(one.head)[1]


def _whole_characters(head: bytes, encoding: str) -> bytes:
    """The head without its mark and half characters."""
    head = head[encodings.encoding_of(head)[1] :]
    return head if encoding == "utf-8" else head[: len(head) - len(head) % 2]


def _observe_block(paths: Sequence[str], prepared: Prepared) -> list[dict[str, Any]]:
    """The observation of each log of a block."""
    described = Described([Sources(path) for path in paths])
    described.add(prepared)
    block = _Block(prepared, meanings(prepared))
    return [block.of(log, *edges) for log, edges in zip(described.logs, pairwise(prepared.cuts.tolist()), strict=True)]


class _Block:
    """The lines of a block whose messages mean something."""

    def __init__(self, prepared: Prepared, known: Sequence[Meaning]) -> None:
        self._prepared, self._known = prepared, known
        self._rows = {name: self._places(name) for name in ("is_counter", "stage", "signature", "is_disk")}

    def _places(self, name: str) -> Places:
        """The lines whose message has such a meaning."""
        has_it = np.array([bool(getattr(meaning, name)) for meaning in self._known], np.bool_)
        return np.flatnonzero(has_it[self._prepared.message]) if has_it.any() else np.empty(0, np.int64)

    def of(self, log: Log, low: int, high: int) -> dict[str, Any]:
        """The observation of a log, which has the lines from ``low`` to ``high``."""
        rows = {name: found[slice(*np.searchsorted(found, (low, high)))] for name, found in self._rows.items()}
        marks = self._marks(log, rows["stage"])
        counters, losses, counted_at = self._counters(log, rows["is_counter"][-MAX_COUNTER_LINES:], marks)
        stage, stage_at = _stage(marks, counted_at)
        writers = settle_labels(log.sources.all, log.counts)
        nodes = {source.node for source, count in zip(writers, log.counts, strict=True) if count and source.node}
        return {
            "lines": high - low,
            "counters": counters,
            "losses": losses,
            "stage": stage,
            "stage_at": stage_at,
            "announced": [row[1:] for row in _announced_stages(marks, counted_at)][:MAX_ANNOUNCED],
            "errors": self._errors(log, rows["signature"]),
            "tallies": self._tallies(low, high),
            "disks": self._disks(rows["is_disk"][-MAX_DISKS:]),
            "writers": sorted(filter(None, nodes))[:MAX_WRITERS],
        }

    def _times(self, log: Log, rows: Places) -> list[int | None]:
        return log.times(self._prepared.time[rows], self._prepared.facts.flags[rows])

    def _marks(self, log: Log, rows: Places) -> list[_StageMark]:
        of_lines = [self._known[message] for message in self._prepared.message[rows].tolist()]
        times = self._times(log, rows)
        return [
            _StageMark(row, at, one.stage, one.is_end)
            for row, at, one in zip(rows.tolist(), times, of_lines, strict=True)
        ]

    def _counters(
        self, log: Log, rows: Places, marks: Sequence[_StageMark]
    ) -> tuple[dict[str, list[list[Any]]], list[list[Any]], int]:
        """The counters of each message, the losses beside them, and the last line with a counter (-1: none)."""
        announced = _announced_stages(marks)
        found: dict[str, list[list[Any]]] = {}
        texts: dict[str, str] = {}
        losses: list[list[Any]] = []
        last, place = -1, 0
        since: list[list[Any]] = []
        read_loss = words.regex("watched", "loss")
        masked = self._prepared.facts.masked[rows].tolist()
        for row, message, at in zip(rows.tolist(), masked, self._times(log, rows), strict=True):
            while place < len(announced) and announced[place][0] < row:
                since, place = [*since, announced[place][1:]][:MAX_ANNOUNCED], place + 1
            text = self._prepared.rows.one(row, MAX_LINE_CHARS)
            if not (counted := progress.counter(text)):
                continue
            name = _counter_name(counted[0], text, message)
            found.setdefault(name, []).append([counted[1], at, since, False])
            texts[name] = text
            last, since = row, []
            if _LOSS_WORD in text.lower() and (loss := read_loss.search(text)):
                value = float(loss.group(1))
                losses.append([counted[1], value if math.isfinite(value) else None])
        for name, text in texts.items():  # only the last count can be the last one planned
            found[name][-1][3] = _is_last(text)
        return found, losses, last

    def _errors(self, log: Log, rows: Places) -> list[dict[str, Any]]:
        """The first line of each decisive rule."""
        prepared = self._prepared
        rows = rows[prepared.facts.level[rows] != Level.DEBUG]
        if not len(rows):
            return []
        messages, places = np.unique(prepared.message[rows], return_index=True)
        first: dict[str, tuple[int, int]] = {}
        for place, message in sorted(zip(places.tolist(), messages.tolist(), strict=True)):
            first.setdefault(self._known[message].signature, (int(rows[place]), message))
        listed = list(first.items())[:MAX_ERRORS]
        times = self._times(log, np.array([row for _, (row, _) in listed]))
        texts = examples(prepared, np.array([message for _, (_, message) in listed]))["example"].to_list()
        rules, out = signatures.load(), []
        for (signature, (_, message)), at, text in zip(listed, times, texts, strict=True):
            rule, category = rules.rule(signature), self._known[message].category
            title = rule.title if rule is not None else signature
            out.append(
                {"signature": signature, "category": category, "title": title, "text": text[:MAX_ERROR_CHARS], "at": at}
            )
        return out

    def _tallies(self, low: int, high: int) -> dict[str, int]:
        """Counts of lines that are errors, and of lines about retries."""
        prepared = self._prepared
        begin, end = np.searchsorted(prepared.first, (low, high)).tolist()
        count, worst = prepared.count[begin:end], prepared.worst[begin:end]
        is_retry = np.array([one.is_retry for one in self._known[begin:end]], np.bool_) & (worst != Level.DEBUG)
        return {"errors": int(count[worst >= Level.ERROR].sum()), "retries": int(count[is_retry].sum())}

    def _disks(self, rows: Places) -> list[list[Any]]:
        """What lines say of the use of file systems."""
        states_use = words.regex("watched", "disk")
        out = []
        for text in (self._prepared.rows.one(row, MAX_LINE_CHARS) for row in rows.tolist()):
            if (found := states_use.search(text)) and float(found.group(2)) <= 100:
                path = found.group(1) or next(iter(re.findall(r"(?<!\S)/[\w./-]*", text)), "")
                out.append([path[:200], float(found.group(2))])
        return out


def _counter_name(kind: str, text: str, message: int) -> str:
    """What lines of one counter have in common: their message. Each state of a progress bar is drawn in another way, so
    the words before the bar name it.
    """
    if (bar := _DRAWN_BAR.search(text)) is None:
        return f"{kind} {message:x}"
    return f"{kind} {' '.join(_NUMBERS.sub('#', text[: bar.start()]).split())[:_MAX_NAME_CHARS]}"


def _is_last(text: str) -> bool:
    """Whether the line states a count that is the planned end: ``iteration 900/900``."""
    planned = words.regex("watched", "planned").search(text)
    return planned is not None and planned.group(1) == planned.group(2)


def _announced_stages(marks: Sequence[_StageMark], after: int = -1) -> list[list[Any]]:
    """Rows of line, stage and time: the stage that a marker begins, or that follows what it ends."""
    found: list[list[Any]] = []
    for row, at, stage, is_end in marks:
        entered = stages.stage_after_end(stage, trained=True) if is_end else stage
        if row > after and (not found or found[-1][1] != entered):
            found.append([row, entered, at])
    return found


def _stage(marks: Sequence[_StageMark], counted_at: int) -> tuple[str | None, int | None]:
    """The stage at the end of the range: the stage that the last marker begins; training if it ends one, or if steps
    follow.
    """
    if not marks:
        return None, None
    row, at, stage, is_end = marks[-1]
    if counted_at > row and not is_end:
        return "training", at
    return (stages.stage_after_end(stage, trained=True) if is_end else stage), at
