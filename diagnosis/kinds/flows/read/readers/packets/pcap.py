"""Packet captures: pcap (all four magics) and pcapng. A truncated capture is used up to its last whole packet."""

from __future__ import annotations

import struct
from typing import BinaryIO, Final

import msgspec
import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.read.flow_records import MAX_TIME_NS, RecordWriter
from diagnosis.kinds.flows.read.readers.base import Reading, UnusableFlows
from diagnosis.kinds.flows.read.readers.packets.bursts import Bursts
from diagnosis.kinds.flows.read.readers.packets.decode import LINK_TYPES, Ints, decode
from diagnosis.model import ParseHints
from diagnosis.values.plain import listed

MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
PCAPNG = b"\x0a\x0d\x0d\x0a"
LIMITS: Final = thresholds.limits("pcap")
CHUNK_BYTES = 32 << 20
#: No packet is longer; a larger length means that the file is damaged.
MAX_PACKET_BYTES = 1 << 20
_TINY_PACKETS: Final = "Most of its {count:,} packets so far are too short for an IP header."


class _Batch(msgspec.Struct):
    """Packets found in one block of bytes: columns of equal length."""

    offset: Ints
    captured: Ints
    wire: Ints
    time: Ints
    link: Ints


class _Interface(msgspec.Struct):
    link: int
    ticks: int  # per second
    shift: int  # seconds


def sniff_pcap(head: bytes) -> bool:
    """True for the magics of pcap and pcapng."""
    return head[:4] in MAGICS or head[:4] == PCAPNG


def read_pcap(stream: BinaryIO, path: str, hints: ParseHints, out: RecordWriter) -> Reading:
    """Packets to bursts to records."""
    head = stream.read(24)
    reading = Reading("pcapng" if head[:4] == PCAPNG else "pcap")
    bursts = Bursts(out)
    walker: _Pcap | _PcapNg = _PcapNg() if head[:4] == PCAPNG else _Pcap(head)
    rest = head if head[:4] == PCAPNG else b""
    unknown: set[int] = set()
    seen = size_read = 0
    while True:
        block = stream.read(CHUNK_BYTES)
        size_read += len(block)
        buffer = rest + block
        batch, used = walker.walk(buffer)
        if walker.walked > LIMITS.blocks + size_read // LIMITS.block_bytes:
            raise UnusableFlows(_TINY_PACKETS.format(count=walker.walked))
        if len(batch.offset):
            seen += len(batch.offset)
            _pass_on(buffer, batch, bursts, reading, unknown)
        rest = buffer[used:]
        if not block or walker.broken:
            break
        if len(rest) > 2 * CHUNK_BYTES:
            walker.broken = True
            break
    bursts.finish()
    reading.lines = seen
    _add_notes(reading, walker, seen, is_cut=bool(rest))
    links = listed(list(map(str, sorted(unknown))), LIMITS.shown_types)
    if unknown and not out.rows:
        how = "Capture on an Ethernet, cooked (-i any) or raw IP interface."
        raise UnusableFlows(f"Link type {links} is not known here. {how}")
    if unknown:
        reading.notes.append(f"Packets of unknown link types ({links}) were left out.")
    if not out.rows:
        raise UnusableFlows(_no_records(seen, walker.lost, out.dropped))
    return reading


def _add_notes(reading: Reading, walker: _Pcap | _PcapNg, seen: int, *, is_cut: bool) -> None:
    """What of the capture was left out, in sentences."""
    if walker.broken:
        reading.notes.append(f"The capture is damaged after {seen} packets; what comes before is used.")
    elif is_cut:
        reading.notes.append(f"The capture breaks off inside a packet; its {seen} whole packets are used.")
    if walker.lost:
        reading.notes.append(
            f"{walker.lost:,} packets state no time or no known interface; they were left out. Record with enhanced "
            "packet blocks, as tcpdump and dumpcap do."
        )
    if reading.bad_rows:
        many = f"{reading.bad_rows:,} {'packet holds' if reading.bad_rows == 1 else 'packets hold'}"
        reading.notes.append(f"{many} no whole IP header (ARP and the like, or cut); they were left out.")


def _no_records(seen: int, without_time: int, out_of_time: int) -> str:
    """Why a capture gives no record."""
    if out_of_time:
        return "No packet of the capture has a possible time. Check the clock of the machine that recorded it."
    if without_time and not seen:
        return "No packet of the capture states its time. Record with enhanced packet blocks, as tcpdump does."
    if not seen:
        return "The capture holds no whole packet. Check its filter and that the copy was complete."
    return "The capture holds no IP packets."


def _pass_on(buffer: bytes, batch: _Batch, bursts: Bursts, reading: Reading, unknown: set[int]) -> None:
    unknown.update(int(x) for x in np.unique(batch.link) if int(x) not in LINK_TYPES)
    table = decode(np.frombuffer(buffer, dtype=np.uint8), batch.offset, batch.captured, batch.wire, batch.link)
    reading.bad_rows += len(batch.offset) - table.height
    at = batch.time[table["row"].to_numpy()]
    bursts.add(
        table.drop("row").with_columns(
            path=pl.lit(None, dtype=pl.String),
            start=pl.Series(at),
            end=pl.Series(at),
            packets=pl.lit(1, dtype=pl.Int64),
        )
    )


class _Pcap:
    """pcap: a 24-byte header, then 16 bytes before each packet."""

    def __init__(self, head: bytes) -> None:
        if len(head) < 24:
            raise UnusableFlows("The pcap file ends inside its header. Record it again.")
        self._order, self._unit = MAGICS[head[:4]]
        self._length = struct.Struct(self._order + "I")
        self._link = struct.unpack(self._order + "I", head[20:24])[0] & 0xFFFF
        self.broken = False
        self.lost = 0
        self.walked = 0

    def walk(self, buffer: bytes) -> tuple[_Batch, int]:
        """The whole packets in a buffer and how many bytes they take.

        The chain of lengths is followed one by one; the other header fields are read at once.
        """
        found: list[int] = []
        at, last, unpack, note = 0, len(buffer) - 16, self._length.unpack_from, found.append
        while at <= last:
            length = unpack(buffer, at + 8)[0]
            if length > MAX_PACKET_BYTES:
                self.broken = True
                break
            if at + 16 + length > last + 16:
                break
            note(at)
            at += 16 + length
        self.walked += len(found)
        offset = np.array(found, dtype=np.int64)
        rows = (
            np.frombuffer(buffer, dtype=np.uint8)[offset[:, None] + np.arange(16)]
            if found
            else np.zeros((0, 16), dtype=np.uint8)
        )
        words = np.ascontiguousarray(rows).view(self._order + "u4").astype(np.int64)
        batch = _Batch(
            offset + 16,
            words[:, 2],
            words[:, 3],
            words[:, 0] * 1_000_000_000 + words[:, 1] * self._unit,
            np.full(len(offset), self._link, dtype=np.int64),
        )
        return batch, at


class _PcapNg:
    """pcapng: typed blocks; interfaces say link type and clock, enhanced packets carry time."""

    def __init__(self) -> None:
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self.broken = False
        self.lost = 0
        self.walked = 0

    def walk(self, buffer: bytes) -> tuple[_Batch, int]:
        """The packets of the whole blocks in a buffer and how many bytes these take."""
        found: list[tuple[int, int, int, int, int]] = []
        at, size = 0, len(buffer)
        while at + 12 <= size:
            if buffer[at : at + 4] == PCAPNG:
                self._order = "<" if buffer[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
                self._interfaces = []
            self.walked += 1
            kind, length = struct.unpack_from(self._order + "II", buffer, at)
            is_block = length >= 12 and length % 4 == 0 and length <= MAX_PACKET_BYTES * 16
            if not is_block or len(self._interfaces) > LIMITS.interfaces:
                self.broken = True
                break
            if at + length > size:
                break
            if kind == 1 and length >= 20:
                self._interfaces.append(self._interface(buffer[at + 8 : at + length - 4]))
            elif kind == 6 and length >= 32:
                self._packet(buffer, at, length, found)
            elif kind in (2, 3):  # packets of an old form, and of a form without time
                self.lost += 1
            at += length
        columns = np.array(found, dtype=np.int64).reshape(-1, 5).T
        return _Batch(*columns), at

    def _interface(self, body: bytes) -> _Interface:
        link = struct.unpack_from(self._order + "H", body, 0)[0]
        found = _Interface(link, 1_000_000, 0)
        at = 8
        for _ in range(LIMITS.options):
            if at + 4 > len(body):
                break
            code, length = struct.unpack_from(self._order + "HH", body, at)
            value = body[at + 4 : at + 4 + length]
            if code == 0:
                break
            if code == 9 and value:
                power = value[0] & 0x7F
                found.ticks = 2**power if value[0] & 0x80 else 10 ** min(power, 18)
            elif code == 14 and len(value) == 8:
                found.shift = struct.unpack(self._order + "q", value)[0]
            at += 4 + (length + 3) // 4 * 4
        return found

    def _packet(self, buffer: bytes, at: int, length: int, found: list[tuple[int, int, int, int, int]]) -> None:
        number, high, low, captured, full = struct.unpack_from(self._order + "IIIII", buffer, at + 8)
        if number >= len(self._interfaces) or captured > length - 32:
            self.lost += 1
            return
        interface = self._interfaces[number]
        ticks = high << 32 | low
        time = ticks * 1_000_000_000 // interface.ticks + interface.shift * 1_000_000_000
        # an impossible time must only fit into the column; the writer counts it
        found.append((at + 28, captured, full, min(max(time, -1), MAX_TIME_NS + 1), interface.link))
