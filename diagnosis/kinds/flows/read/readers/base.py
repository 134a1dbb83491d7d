"""The input and output of every reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from diagnosis import thresholds
from diagnosis.facts.operations import Sum
from diagnosis.kinds.flows.read.flow_records import RecordWriter
from diagnosis.kinds.flows.read.port_rates import Bandwidth
from diagnosis.kinds.flows.read.refused_traffic import Refusals
from diagnosis.model import ParseHints

LIMITS: Final = thresholds.limits("base")
BLOCK_BYTES = 16 << 20
#: Blocks of a line that are read at once: no record is so long, and a table of one takes ten times its bytes.
_LINE_BLOCKS: Final = 2
_MANY_LINES: Final = "Most of its {lines:,} lines so far are too short for a record of a flow."


class UnusableFlows(Exception):
    """The artifact cannot be used as flow evidence; the message states the reason and what to do."""


class Reading(msgspec.Struct):
    """Facts that a reader found besides the records: format, time zone, sampling, notes, unusable counters, and the
    ``bandwidth`` of port counters, and what a firewall refused.
    """

    format: str
    time_zone: str = "UTC"
    sampling: float = 1.0
    lines: int = 0
    bad_rows: int = 0
    #: lines without a record; reported with the rows that the writer drops
    bad_lines: int = 0
    #: rows with more fields than the header names: fields beyond its last column are not read
    cut_rows: int = 0
    notes: list[str] = msgspec.field(default_factory=list)
    bandwidth: Bandwidth | None = None
    #: of a table that holds no flows, but what each worker did
    operations: tuple[Sum, ...] = ()
    refusals: Refusals = msgspec.field(default_factory=Refusals)


Reader = Callable[[BinaryIO, str, ParseHints, RecordWriter], Reading]


def blocks_of_lines(stream: BinaryIO, first: bytes = b"", size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Whole lines in blocks of about ``size`` bytes; a line of :data:`_LINE_BLOCKS` is cut: memory stays bounded.
    Raises ``UnusableFlows`` for very many short lines: each becomes a row, which takes far more memory than an empty
    line.
    """
    lines = size_read = 0
    for block in _blocks(stream, first, size):
        lines += block.count(b"\n")
        size_read += len(block)
        if lines > LIMITS.lines + size_read // LIMITS.line_bytes:
            raise UnusableFlows(_MANY_LINES.format(lines=lines))
        yield block


def _blocks(stream: BinaryIO, first: bytes, size: int) -> Iterator[bytes]:
    rest = first
    while True:
        block = stream.read(size)
        if not block:
            if rest:
                yield rest
            return
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > _LINE_BLOCKS * size:
                yield rest
                rest = b""
            continue
        yield rest + block[:cut]
        rest = block[cut:]
