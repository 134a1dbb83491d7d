"""Packet headers to addresses, ports and lengths, for a whole block of packets at once.

Every packet is a cursor (position, kind of header there); each round moves all cursors one header on, and unwraps
VLAN tags, GRE, ERSPAN (I, II, III) and VXLAN until the innermost IP packet is reached. A packet cut off before its
ports keeps its addresses.
"""

from __future__ import annotations

import ipaddress

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

ETHERNET, IPV4, IPV6, DONE, GIVEN_UP = 0, 1, 2, 8, 9
#: Link types (as in pcap headers) that can be read.
LINK_TYPES = {
    0: "null",
    1: "ethernet",
    12: "raw",
    14: "raw",
    101: "raw",
    108: "loop",
    113: "cooked",
    228: "raw",
    229: "raw",
    276: "cooked2",
}
VXLAN_PORTS = (4789, 8472)
MAX_ROUNDS = 5


class Packets(msgspec.Struct):
    """Cursors over one block: ``at`` and ``stop`` index ``data``; ``wire`` is the length on the wire, ``first`` where
    the frame begins.
    """

    data: Bytes
    at: Ints
    stop: Ints
    wire: Ints
    first: Ints
    kind: Ints

    def byte(self, offset: Ints) -> Ints:
        """One byte at each offset. Its position is checked once a header, not once a byte."""
        return self.data[np.minimum(offset, len(self.data) - 1)].astype(np.int64)

    def word(self, offset: Ints) -> Ints:
        """Two bytes, big endian."""
        return self.byte(offset) << 8 | self.byte(offset + 1)

    def long(self, offset: Ints) -> Ints:
        """Four bytes, big endian."""
        return self.word(offset) << 16 | self.word(offset + 2)


def decode(data: Bytes, offset: Ints, captured: Ints, wire: Ints, link: Ints) -> pl.DataFrame:
    """Columns src, dst, src_port, dst_port, proto, bytes and ``row`` (the packet's number); packets without IP are
    left out.
    """
    p = Packets(data, offset.copy(), offset + captured, wire, offset.copy(), np.full(len(offset), GIVEN_UP))
    _enter_link(p, link)
    count = len(offset)
    proto, sport, dport = (np.full(count, -1, dtype=np.int64) for _ in range(3))
    layer = np.full(count, -1, dtype=np.int64)
    version = np.zeros(count, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        active = _give_up_cut(p)
        ether = p.kind == ETHERNET
        if not (active | ether).any():
            break
        if ether.any():
            _ethernet(p, ether)
            active = _give_up_cut(p)
        layer = np.where(active, p.at, layer)
        version = np.where(active, np.where(p.kind == IPV4, 4, 6), version)
        inner, first = _transport(p, active)
        proto = np.where(active, inner, proto)
        has_ports = active & ((inner == 6) | (inner == 17) | (inner == 132)) & (first + 4 <= p.stop)
        both = p.long(first)
        sport = np.where(has_ports, both >> 16, np.where(active, -1, sport))
        dport = np.where(has_ports, both & 0xFFFF, np.where(active, -1, dport))
        p.kind = np.where(active, DONE, p.kind)
        _unwrap(p, active, inner, first, dport)
    good = layer >= 0
    rows = np.flatnonzero(good)
    src, dst = _addresses(p, layer, version, rows)
    return pl.DataFrame(
        {
            "row": rows,
            "src": src,
            "dst": dst,
            "src_port": np.where(sport[rows] >= 0, sport[rows], 0),
            "dst_port": np.where(dport[rows] >= 0, dport[rows], 0),
            "proto": proto[rows],
            "bytes": np.maximum(wire[rows] - (layer[rows] - p.first[rows]), 0),
        }
    )


def _enter_link(p: Packets, link: Ints) -> None:
    """Places the cursors behind the link header."""
    p.kind[link == 1] = ETHERNET
    present = set(np.unique(link).tolist())
    for number, length in ((0, 4), (108, 4), (12, 0), (14, 0), (101, 0), (228, 0), (229, 0)):
        if number not in present:
            continue
        chosen = link == number
        p.at[chosen] += length
        nibble = p.byte(p.at) >> 4
        p.kind = np.where(chosen, np.where(nibble == 4, IPV4, np.where(nibble == 6, IPV6, GIVEN_UP)), p.kind)
    for number, length, where in ((113, 16, 14), (276, 20, 0)):
        if number not in present:
            continue
        chosen = link == number
        kind = p.word(p.at + where)
        p.at = np.where(chosen, p.at + length, p.at)
        p.kind = np.where(chosen, _network(kind), p.kind)


def _network(ethertype: Ints) -> Ints:
    return np.where(ethertype == 0x0800, IPV4, np.where(ethertype == 0x86DD, IPV6, GIVEN_UP))


def _ethernet(p: Packets, chosen: npt.NDArray[np.bool_]) -> None:
    kind = p.word(p.at + 12)
    at = p.at + 14
    for _ in range(3):
        tagged = (kind == 0x8100) | (kind == 0x88A8) | (kind == 0x9100)
        if not (chosen & tagged).any():
            break
        kind = np.where(tagged, p.word(at + 2), kind)
        at = np.where(tagged, at + 4, at)
    p.at = np.where(chosen, at, p.at)
    p.kind = np.where(chosen, _network(kind), p.kind)


def _transport(p: Packets, active: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Protocol number and where its header begins; fragments after the first have no ports (protocol kept, header
    beyond the end).
    """
    four = p.kind == IPV4
    header = (p.byte(p.at) & 0x0F) * 4
    later = (p.word(p.at + 6) & 0x1FFF) != 0
    proto = p.byte(p.at + np.where(four, 9, 6))
    first = np.where(four, p.at + header, p.at + 40)
    first = np.where(four & later, p.stop, first)
    for _ in range(4):
        extended = active & ~four & np.isin(proto, (0, 43, 60))
        if not extended.any():
            break
        length = (p.byte(first + 1) + 1) * 8
        proto = np.where(extended, p.byte(first), proto)
        first = np.where(extended, first + length, first)
    return proto, first


def _unwrap(p: Packets, active: npt.NDArray[np.bool_], proto: Ints, first: Ints, dport: Ints) -> None:
    """Moves the cursors of tunnelled packets to the inner header; all others stay done."""
    gre = active & (proto == 47)
    if gre.any():
        flags, kind = p.word(first), p.word(first + 2)
        sequence = (flags & 0x1000) > 0
        after = first + 4 + 4 * ((flags & 0x8000) > 0) + 4 * ((flags & 0x2000) > 0) + 4 * sequence
        two = kind == 0x88BE
        three = kind == 0x22EB
        optional = (p.byte(after + 11) & 1) * 8
        inner = np.where(two, after + 8 * sequence, np.where(three, after + 12 + optional, after))
        frame = two | three | (kind == 0x6558)
        direct = _network(kind)
        target = np.where(frame, ETHERNET, np.where(direct != GIVEN_UP, direct, DONE))
        p.at = np.where(gre & (target != DONE), inner, p.at)
        p.kind = np.where(gre, target, p.kind)
    vxlan = active & (proto == 17) & ((dport == VXLAN_PORTS[0]) | (dport == VXLAN_PORTS[1]))
    if vxlan.any():
        vxlan &= (p.byte(first + 8) & 0x08) > 0
        p.at = np.where(vxlan, first + 16, p.at)
        p.kind = np.where(vxlan, ETHERNET, p.kind)
    nested = active & ((proto == 4) | (proto == 41))
    if nested.any():
        p.at = np.where(nested, first, p.at)
        p.kind = np.where(nested, np.where(proto == 4, IPV4, IPV6), p.kind)


def _give_up_cut(p: Packets) -> npt.NDArray[np.bool_]:
    """Packets whose next header is IP and captured whole; cut ones are given up."""
    cut = ((p.kind == IPV4) & (p.at + 20 > p.stop)) | ((p.kind == IPV6) & (p.at + 40 > p.stop))
    p.kind = np.where(cut, GIVEN_UP, p.kind)
    return np.asarray((p.kind == IPV4) | (p.kind == IPV6))


def _addresses(p: Packets, layer: Ints, version: Ints, rows: Ints) -> tuple[pl.Series, pl.Series]:
    """Source and destination as text; only the different ones are formatted."""
    at, four = layer[rows], version[rows] == 4
    out: list[pl.Series] = []
    for offset4, offset6 in ((12, 8), (16, 24)):
        code = np.zeros(len(rows), dtype=np.int64)
        numbers, code[four] = np.unique(p.long(at[four] + offset4), return_inverse=True)
        names = [str(ipaddress.IPv4Address(int(n))) for n in numbers]
        if not four.all():
            raw = p.byte(at[~four][:, None] + offset6 + np.arange(16)).astype(np.uint8)
            packed, inverse = np.unique(np.ascontiguousarray(raw).view("V16").ravel(), return_inverse=True)
            code[~four] = inverse + len(names)
            names += [str(ipaddress.IPv6Address(bytes(x))) for x in packed]
        out.append(pl.Series(names, dtype=pl.String).gather(code))
    return out[0], out[1]
