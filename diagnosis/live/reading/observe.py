"""Reads new ranges of growing logs: counters, losses, stages, errors and what else the watches
need.

Ranges of many files are read as one block, and no table is written: a call of compiled code costs
the same for a few lines as for many, and a job of 64 nodes grows in 64 files. Linear in the ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from diagnosis.files.recognise import LogKinds
from diagnosis.kinds.kind_table import kind_of
from diagnosis.kinds.logs.columns.sources import Sources
from diagnosis.kinds.logs.log_parsing import time_zone
from diagnosis.kinds.logs.read import lines
from diagnosis.kinds.logs.read.described import Described
from diagnosis.kinds.logs.read.prepared import Prepared, prepare, prepare_files
from diagnosis.kinds.logs.text import encodings
from diagnosis.kinds.logs.unwrap import wrapped
from diagnosis.live.observation import Observation
from diagnosis.live.reading.block_lines import MAX_COUNTER_LINES, BlockLines
from diagnosis.live.reading.meanings import meanings
from diagnosis.model import LOG_KINDS

#: Of a line that is overwritten again and again, as a progress bar is, so many states are read: the
#: last ones.
MAX_STATES: Final = MAX_COUNTER_LINES


class Range(NamedTuple):
    """New whole lines of a file from byte ``offset`` on. ``head``: the file's beginning."""

    path: str
    head: bytes
    data: bytes
    offset: int = 0


def observe(ranges: Sequence[Range], zone: str = "UTC") -> list[Observation]:
    """The observation of each range; an empty one of what is no log. Never raises."""
    known_zone = time_zone(zone, [])
    with_states = [_with_states_as_lines(one) for one in ranges]
    found = [Observation() for _ in ranges]
    kinds = LogKinds()
    plain: list[int] = []
    for number, one in enumerate(with_states):
        if not one.data:
            continue
        if _is_plain(one, kinds):
            plain.append(number)
        elif kind_of(one.head, one.path) in LOG_KINDS:
            block = _block_of(one)
            (found[number],) = _observe_block([one.path], prepare(block, known_zone))
    if plain:
        paths = [with_states[number].path for number in plain]
        texts = [with_states[number].data for number in plain]
        together = _observe_block(paths, prepare_files(texts, known_zone))
        for number, observation in zip(plain, together, strict=True):
            found[number] = observation
    return found


def _is_plain(one: Range, kinds: LogKinds) -> bool:
    """Whether a range can be read with others: UTF-8, no mark, no wrapped lines."""
    if kinds.of(one.head, one.path) is None or _mark_bytes(one):
        return False
    return lines.is_plain(one.data)


def _block_of(one: Range) -> lines.Block:
    """A range that is read alone."""
    encoding, _ = encodings.encoding_of(one.head)
    head = encodings.decode(_whole_characters(one.head, encoding), encoding)
    begin = _mark_bytes(one)
    offset = one.offset + begin
    return lines.Block(one.data[begin:], offset, encoding, is_wrapped=wrapped.is_wrapped(head))


def _with_states_as_lines(one: Range) -> Range:
    """The range with a line for each state of a line that carriage returns overwrite, at most
    :data:`MAX_STATES`. UTF-16 and a journal's export stay as they are.
    """
    if b"\r" not in one.data:
        return one
    encoding, mark = encodings.encoding_of(one.head)
    if encoding != "utf-8" or wrapped.is_export(encodings.decode(one.head[mark:])):
        return one
    states: list[bytes] = []
    for line in one.data.replace(b"\r\n", b"\n").split(b"\n"):
        states += line.rsplit(b"\r", MAX_STATES)[-MAX_STATES:]
    return one._replace(data=b"\n".join(states))


def _mark_bytes(one: Range) -> int:
    """The size of the mark before the text."""
    return 0 if one.offset else encodings.encoding_of(one.head)[1]


def _whole_characters(head: bytes, encoding: str) -> bytes:
    """The head without its mark and half characters."""
    _, mark = encodings.encoding_of(head)
    text = head[mark:]
    return text if encoding == "utf-8" else text[: len(text) - len(text) % 2]


def _observe_block(paths: Sequence[str], prepared: Prepared) -> list[Observation]:
    """The observation of each log of a block."""
    described = Described([Sources(path) for path in paths])
    described.add(prepared)
    block = BlockLines(prepared, meanings(prepared))
    edges = pairwise(prepared.cuts.tolist())
    found = []
    for log, (begin, end) in zip(described.logs, edges, strict=True):
        found.append(block.observation_of(log, begin, end))
    return found
