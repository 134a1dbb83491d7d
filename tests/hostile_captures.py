"""More hostile evidence (:mod:`tests.hostile_corpus`): packet captures that lie about lengths, times and interfaces."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.archives import gz_of

type File = tuple[str, bytes]

SECOND = 1_772_000_000
SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
IP = bytes.fromhex("4500 002e 0000 0000 40 11 0000 0a000001 0a000101 c000 12b7 001a 0000".replace(" ", "")) + bytes(18)
MACS = bytes(12)
FRAME = MACS + b"\x08\0" + IP
#: an IPv4 header around an IPv4 packet, a tag of a virtual network
IN_IP = IP[:9] + b"\x04" + IP[10:20]
TAG = b"\x81\0\0\x05"


def packet(frame: bytes = FRAME, at: int = SECOND, micro: int = 0, *, captured: int = -1, wire: int = -1) -> bytes:
    """One packet of a pcap file; lengths that are not given are true."""
    lengths = (len(frame) if captured < 0 else captured, len(frame) if wire < 0 else wire)
    return struct.pack("<IIII", at, micro, *lengths) + frame


def head(link: int = 1, snap: int = 65_535, order: str = "<") -> bytes:
    """The header of a pcap file."""
    return struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, link)


def block(kind: int, body: bytes, order: str = "<", length: int = -1) -> bytes:
    """One block of a pcapng file; a length that is not given is true."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12 if length < 0 else length)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<", magic: int = BYTE_ORDER_MAGIC) -> bytes:
    """The begin of a section."""
    return block(SECTION, struct.pack(order + "IHHq", magic, 1, 0, -1), order)


def interface(options: bytes = b"", link: int = 1, order: str = "<") -> bytes:
    """A description of an interface."""
    return block(INTERFACE, struct.pack(order + "HHI", link, 0, 0) + options, order)


def enhanced(number: int = 0, ticks: int = SECOND * 10**6, frame: bytes = FRAME, order: str = "<") -> bytes:
    """A packet of an interface, with its time."""
    words = (number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(ENHANCED, struct.pack(order + "IIIII", *words) + frame, order)


def packet_lies() -> Iterator[File]:
    """pcap files whose packets lie about their length or time, or are wrapped in very many headers."""
    good = packet()
    yield "snap-0.pcap", head(snap=0) + good * 9
    yield "snap-most.pcap", head(snap=0xFFFFFFFF) + good * 9
    yield "captured-more-than-sent.pcap", head() + packet(wire=10) * 9
    yield "sent-4-gib.pcap", head() + packet(wire=0xFFFFFFFF) * 9
    yield "sent-nothing.pcap", head() + packet(wire=0) * 9
    yield "captured-far-beyond.pcap", head() + good * 9 + packet(captured=1 << 20)
    yield "empty-packets.pcap.gz", gz_of(head() + packet(b"") * 60_000)
    yield "one-byte-packets.pcap", head() + packet(b"E") * 900
    yield "time-2106-once.pcap", head() + good * 9 + packet(at=0xFFFFFFFF) + good * 9
    yield "time-1970-once.pcap", head() + good * 9 + packet(at=0) + good * 9
    yield "time-backwards.pcap", head() + b"".join(packet(at=SECOND - n) for n in range(900))
    yield "time-jumps.pcap", head() + b"".join(packet(at=n * 40_503_001 % (1 << 32)) for n in range(900))
    yield "micro-most.pcap", head() + packet(micro=0xFFFFFFFF) * 9
    yield "ip-in-ip.pcap", head() + packet(FRAME[:14] + IN_IP * 400 + IP) * 9
    yield "tags.pcap", head() + packet(MACS + TAG * 2_000 + FRAME[12:]) * 9
    yield "header-lengths.pcap", head() + b"".join(packet(FRAME[:14] + bytes([n]) + IP[1:]) for n in range(256))
    yield "raw-headers-cut.pcap", head(link=101) + b"".join(packet(IP[:n]) for n in range(28))
    yield "order-turns.pcap", head() + good * 9 + head(order=">") + struct.pack(">IIII", SECOND, 0, 60, 60) + FRAME
    yield "two-files.pcap", (head() + good * 9) * 2
    addresses = (struct.pack(">II", n * 2_654_435_761 % (1 << 32), n) for n in range(2_000))
    yield "addresses.pcap", head() + b"".join(packet(FRAME[:26] + pair + FRAME[34:]) for pair in addresses)


def block_lies() -> Iterator[File]:
    """pcapng files whose blocks, options and interfaces lie."""
    begin = section() + interface()
    option = struct.Struct("<HH")
    yield "interfaces.pcapng.gz", gz_of(section() + interface() * 60_000 + enhanced(59_999))
    links = b"".join(interface(link=n) for n in range(200, 1_200))
    yield "link-types.pcapng", section() + links + b"".join(enhanced(n) for n in range(1_000))
    yield "options-empty.pcapng.gz", gz_of(section() + interface(option.pack(1, 0) * 60_000) * 2 + enhanced())
    yield "options-long.pcapng", section() + interface(option.pack(2, 0xFFFF) + b"eth0") + enhanced() * 9
    yield "options-cut.pcapng", section() + interface(option.pack(14, 8) + b"abc") + enhanced() * 9
    yield "clock-without-value.pcapng", section() + interface(option.pack(9, 0)) + enhanced() * 9
    for number, power in enumerate((0, 0x7F, 0x80, 0xFF)):
        clock = interface(option.pack(9, 1) + bytes([power, 0, 0, 0]))
        yield f"clock-{number}.pcapng", section() + clock + enhanced(ticks=(1 << 64) - 1) * 9 + enhanced(ticks=0)
    for number, offset_s in enumerate(((1 << 63) - 1, -(1 << 63))):
        yield (
            f"offset-{number}.pcapng",
            section() + interface(option.pack(14, 8) + struct.pack("<q", offset_s)) + (enhanced() * 9),
        )
    yield "order-turns.pcapng", begin + enhanced() * 9 + section(">") + interface(order=">") + enhanced(order=">") * 9
    yield "order-unknown.pcapng", section(magic=0xDEADBEEF) + interface() + enhanced() * 9
    yield "order-turns-alone.pcapng", begin + enhanced() * 9 + interface(order=">") + enhanced(order=">") * 9
    yield "blocks-of-nothing.pcapng", begin + enhanced() * 9 + bytes(90_000)
    yield "blocks-least.pcapng.gz", gz_of(begin + block(0x0BAD, b"") * 60_000 + enhanced())
    yield "block-longest.pcapng", begin + block(ENHANCED, FRAME, length=0xFFFFFFFC)
    yield "block-cut.pcapng", begin + enhanced() * 9 + enhanced()[:-30]
    yield "packets-least.pcapng.gz", gz_of(begin + enhanced(frame=b"") * 40_000)
    yield "packets-without-time.pcapng", begin + block(SIMPLE, struct.pack("<I", 60) + FRAME) * 9
    yield "sections.pcapng", section() * 2_000 + interface() + enhanced() * 9
