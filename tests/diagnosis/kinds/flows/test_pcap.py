"""Packet captures: file forms, encapsulations, damage."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from diagnosis.kinds.flows.read.readers.packets.pcap import LIMITS
from tests import hostile_captures
from tests.diagnosis.kinds.flows.helpers import parsed, records_of


def ethernet(payload: bytes, kind: int = 0x0800, vlan: bool = False) -> bytes:
    return b"\x02" * 12 + (b"\x81\x00\x00\x05" if vlan else b"") + struct.pack(">H", kind) + payload


def ip4(src: str, dst: str, proto: int, payload: bytes) -> bytes:
    addresses = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, proto, 0) + addresses + payload


def ip6(src: str, dst: str, proto: int, payload: bytes) -> bytes:
    return (
        struct.pack(">IHBB", 6 << 28, len(payload), proto, 64)
        + ipaddress.ip_address(src).packed
        + ipaddress.ip_address(dst).packed
        + payload
    )


def udp(sport: int, dport: int, payload: bytes = b"") -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


INNER = ip4("10.0.0.1", "10.0.1.1", 17, udp(49152, 4791, b"\x06" + b"\0" * 30))
FRAME = ethernet(INNER)
BLOCK_LIES = dict(hostile_captures.block_lies())
PACKET_LIES = dict(hostile_captures.packet_lies())
OUTER = ("192.168.0.1", "192.168.0.2")
WRAPPED = {
    "plain": FRAME,
    "vlan": ethernet(INNER, vlan=True),
    "vxlan": ethernet(ip4(*OUTER, 17, udp(5555, 4789, b"\x08\0\0\0\0\0\x05\0" + FRAME))),
    "gre": ethernet(ip4(*OUTER, 47, b"\0\0\x08\0" + INNER)),
    "gre with checksum, key and sequence": ethernet(ip4(*OUTER, 47, b"\xb0\0\x08\0" + b"\x11" * 12 + INNER)),
    "erspan I": ethernet(ip4(*OUTER, 47, b"\0\0\x88\xbe" + FRAME)),
    "erspan II": ethernet(ip4(*OUTER, 47, b"\x10\0\x88\xbe\0\0\0\x01" + b"\x10" + b"\0" * 7 + FRAME)),
    "erspan III": ethernet(ip4(*OUTER, 47, b"\x10\0\x22\xeb\0\0\0\x01" + b"\x20" + b"\0" * 11 + FRAME)),
    "ip in ip": ethernet(ip4(*OUTER, 4, INNER)),
}


def pcap(*frames: bytes, link: int = 1, order: str = "<", nano: bool = False) -> bytes:
    out = struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for k, frame in enumerate(frames):
        out += (
            struct.pack(order + "IIII", 1_700_000_000, k * (1000 if nano else 1), len(frame), len(frame) + 4000) + frame
        )
    return out


def pcapng(*frames: bytes, link: int = 1) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", link, 0, 0) + struct.pack("<HHBxxx", 9, 1, 9) + struct.pack("<HH", 0, 0))
    for k, frame in enumerate(frames):
        t = 1_700_000_000_000_000_000 + k * 1000
        out += block(6, struct.pack("<IIIII", 0, t >> 32, t & 0xFFFFFFFF, len(frame), len(frame) + 4000) + frame)
    return out


@pytest.mark.parametrize("name", WRAPPED)
def test_the_innermost_addresses_count_whatever_wraps_them(name: str, tmp_path: Path) -> None:
    (row,) = records_of(parsed(pcap(WRAPPED[name]), tmp_path))
    assert (row["src"], row["dst"], row["src_port"], row["dst_port"], row["proto"]) == (
        "10.0.0.1",
        "10.0.1.1",
        49152,
        4791,
        17,
    )
    assert row["bytes"] == len(INNER) + 4000


def test_a_later_fragment_has_addresses_and_the_protocol_and_no_ports(tmp_path: Path) -> None:
    later = INNER[:6] + struct.pack(">H", 185) + INNER[8:]  # offset 185: what follows is no header
    (row,) = records_of(parsed(pcap(ethernet(later)), tmp_path))
    assert (row["src"], row["dst"], row["src_port"], row["dst_port"], row["proto"]) == (
        "10.0.0.1",
        "10.0.1.1",
        0,
        0,
        17,
    )


@pytest.mark.parametrize(
    "data", [pcap(FRAME, FRAME), pcap(FRAME, FRAME, order=">"), pcap(FRAME, FRAME, nano=True), pcapng(FRAME, FRAME)]
)
def test_all_file_forms_give_the_same_transfer(data: bytes, tmp_path: Path) -> None:
    (row,) = records_of(parsed(data, tmp_path))
    assert (row["packets"], row["start"], row["end"] - row["start"]) == (2, 1_700_000_000_000_000_000, 1000)


@pytest.mark.parametrize("order", ["<", ">"])
def test_each_interface_of_a_pcapng_has_its_own_clock(order: str, tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)

    def clock(resolution: int, seconds: int = 0) -> bytes:
        options = struct.pack(order + "HHBxxx", 9, 1, resolution) + struct.pack(order + "HHq", 14, 8, seconds)
        return block(1, struct.pack(order + "HHI", 1, 0, 0) + options + struct.pack(order + "HH", 0, 0))

    out = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack(order + "HHI", 1, 0, 0)) + clock(9) + clock(3) + clock(0x80 | 20) + clock(6, 3600)
    second = 1_700_000_000
    ticks = [second * 10**6, (second + 1) * 10**9, (second + 2) * 1000, (second + 3) << 20, (second + 4 - 3600) * 10**6]
    for interface, t in enumerate(ticks):
        body = struct.pack(order + "IIIII", interface, t >> 32, t & 0xFFFFFFFF, len(FRAME), len(FRAME))
        out += block(6, body + FRAME)
    starts = [row["start"] for row in records_of(parsed(out, tmp_path))]
    assert starts == [(second + k) * 10**9 for k in range(5)]


@pytest.mark.parametrize(
    ("link", "frame"),
    [
        (101, INNER),
        (0, b"\x02\0\0\0" + INNER),
        (113, b"\0" * 14 + b"\x08\0" + INNER),
        (276, b"\x08\0" + b"\0" * 18 + INNER),
    ],
    ids=["raw", "null", "cooked", "cooked 2"],
)
def test_other_link_types_are_read(link: int, frame: bytes, tmp_path: Path) -> None:
    (row,) = records_of(parsed(pcap(frame, link=link), tmp_path))
    assert row["src"] == "10.0.0.1"


def test_ipv6_with_an_extension_header(tmp_path: Path) -> None:
    frame = ethernet(ip6("fd01::1", "fd01::2", 0, bytes((17, 0)) + b"\0" * 6 + udp(7, 4791)), kind=0x86DD)
    (row,) = records_of(parsed(pcap(frame), tmp_path))
    assert (row["src"], row["dst"], row["dst_port"], row["proto"]) == ("fd01::1", "fd01::2", 4791, 17)


def test_packets_cut_short_keep_their_addresses(tmp_path: Path) -> None:
    (row,) = records_of(parsed(pcap(FRAME[:34]), tmp_path))
    assert (row["src"], row["dst"], row["dst_port"]) == ("10.0.0.1", "10.0.1.1", 0)


def test_a_capture_that_breaks_off_is_used_up_to_there(tmp_path: Path) -> None:
    part = parsed(pcap(FRAME, FRAME, FRAME)[:-5], tmp_path)
    assert records_of(part)[0]["packets"] == 2
    assert any("breaks off" in note for note in part.notes)


def test_a_damaged_length_ends_the_reading_with_a_note(tmp_path: Path) -> None:
    part = parsed(pcap(FRAME) + b"\xff" * 64, tmp_path)
    assert records_of(part)[0]["packets"] == 1
    assert any("damaged" in note for note in part.notes)


def test_an_unknown_link_type_is_named(tmp_path: Path) -> None:
    part = parsed(pcap(FRAME, link=247), tmp_path)
    assert part.skipped is not None
    assert "247" in part.skipped


def test_a_pause_splits_a_connection_into_transfers(tmp_path: Path) -> None:
    head = pcap(FRAME)
    later = struct.pack("<IIII", 1_700_000_000, 500_000, len(FRAME), len(FRAME)) + FRAME
    assert [r["packets"] for r in records_of(parsed(head + later, tmp_path))] == [1, 1]


def test_transfers_continue_over_block_borders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnosis.kinds.flows.read.readers.packets.pcap.CHUNK_BYTES", 200)
    (row,) = records_of(parsed(pcap(*[FRAME] * 50), tmp_path))
    assert row["packets"] == 50


def test_interfaces_without_end_end_the_reading(tmp_path: Path) -> None:
    section = hostile_captures.section()
    several = hostile_captures.interface() * 9
    packet = hostile_captures.enhanced()
    many = hostile_captures.interface() * (LIMITS.interfaces + 1)
    part = parsed(section + several + packet + many + packet, tmp_path)
    assert part.lines == 1
    assert part.notes == ("The capture is damaged after 1 packets; what comes before is used.",)


def test_of_an_interface_with_very_many_options_the_first_are_read(tmp_path: Path) -> None:
    empty = struct.pack("<HH", 1, 0)
    nanoseconds = struct.pack("<HHBxxx", 9, 1, 9)
    micro = hostile_captures.interface(empty * LIMITS.options + nanoseconds)
    nano = hostile_captures.interface(empty * (LIMITS.options - 1) + nanoseconds)
    packets = hostile_captures.enhanced(0, 10**6) + hostile_captures.enhanced(1, 10**9)
    part = parsed(hostile_captures.section() + micro + nano + packets, tmp_path)
    assert {row["start"] for row in records_of(part)} == {10**9}


@pytest.mark.parametrize(
    "data",
    [pcap(*[b""] * 9), hostile_captures.section() + hostile_captures.enhanced(frame=b"") * 9],
    ids=["pcap", "pcapng"],
)
def test_packets_too_short_for_a_header_are_no_capture(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SimpleNamespace(blocks=0, block_bytes=64, interfaces=9, options=9, shown_types=9)
    monkeypatch.setattr("diagnosis.kinds.flows.read.readers.packets.pcap.LIMITS", small)
    part = parsed(data, tmp_path)
    assert "too short for an IP header" in (part.skipped or "")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (BLOCK_LIES["offset-0.pcapng"], "No packet of the capture has a possible time."),
        (BLOCK_LIES["packets-without-time.pcapng"], "No packet of the capture states its"),
        (BLOCK_LIES["link-types.pcapng"], "Link type 200, 201, 202, 203, 204 and 992 more"),
        (PACKET_LIES["one-byte-packets.pcap"], "The capture holds no IP packets."),
    ],
    ids=["time far off", "no time", "link types", "no address"],
)
def test_a_capture_without_records_says_why(data: bytes, words: str, tmp_path: Path) -> None:
    skipped = parsed(data, tmp_path).skipped or ""
    assert skipped.startswith(words)
    assert len(skipped) < 250
