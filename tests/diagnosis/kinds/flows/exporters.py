"""One table of transfers written as every exporter would write it: columns start_time, duration (seconds), src, dst,
src_port, dst_port, proto, bytes, packets, switches.
"""

from __future__ import annotations

import base64
import io
import ipaddress
import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl

#: Limits of each form: the time resolution in seconds if it is coarser than microseconds.
COARSE = {"nfdump-csv": 1.0, "nfdump-csv-2024": 1e-3, "nfdump-csv-fast": 1e-3, "nfdump-ndjson": 1e-3,
          "nfdump-json": 1e-3, "aws-vpc": 1.0, "azure": 1.0}  # fmt: skip
NAMES = {6: "TCP", 17: "UDP"}


def _stamp(seconds: float, style: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(style)


def _ms(seconds: float, gap: str = " ") -> str:
    return _stamp(seconds, f"%Y-%m-%d{gap}%H:%M:%S.%f")[:-3]


def _lines(rows: list[dict[str, Any]], header: str, row: Callable[[dict[str, Any]], str]) -> bytes:
    return "".join(line + "\n" for line in (header, *map(row, rows)) if line).encode()


def _objects(rows: list[dict[str, Any]], of: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    return "".join(json.dumps(of(r)) + "\n" for r in rows).encode()


def _nfdump_object(r: dict[str, Any]) -> dict[str, Any]:
    six = ":" in r["src"]
    return {
        "type": "FLOW", "first": _ms(r["start_time"], "T"), "last": _ms(r["start_time"] + r["duration"], "T"),
        "in_packets": r["packets"], "in_bytes": r["bytes"], "proto": r["proto"],
        "src_port": r["src_port"], "dst_port": r["dst_port"],
        "src6_addr" if six else "src4_addr": r["src"], "dst6_addr" if six else "dst4_addr": r["dst"], "sampled": 0,
    }  # fmt: skip


def _goflow2(r: dict[str, Any]) -> dict[str, Any]:
    start = round(r["start_time"] * 1e6) * 1000
    return {
        "type": "IPFIX", "time_received_ns": start, "sampling_rate": 1, "sampler_address": r["switches"].split(";")[0],
        "time_flow_start_ns": start, "time_flow_end_ns": start + round(r["duration"] * 1e6) * 1000,
        "bytes": r["bytes"], "packets": r["packets"], "src_addr": r["src"], "dst_addr": r["dst"],
        "proto": NAMES[r["proto"]], "src_port": r["src_port"], "dst_port": r["dst_port"],
    }  # fmt: skip


def _goflow2_protobuf(r: dict[str, Any]) -> dict[str, Any]:
    start = round(r["start_time"] * 1e6) * 1000
    src, dst = (base64.b64encode(ipaddress.ip_address(r[end]).packed).decode() for end in ("src", "dst"))
    return {
        "type": "IPFIX", "timeReceivedNs": str(start), "samplingRate": "1", "samplerAddress": "wKgBAQ==",
        "timeFlowStartNs": str(start), "timeFlowEndNs": str(start + round(r["duration"] * 1e6) * 1000),
        "bytes": str(r["bytes"]), "packets": str(r["packets"]), "srcAddr": src, "dstAddr": dst,
        "proto": r["proto"], "srcPort": r["src_port"], "dstPort": r["dst_port"],
    }  # fmt: skip


def _azure(rows: list[dict[str, Any]]) -> bytes:
    tuples = [
        f"{int((r['start_time'] + r['duration']) * 1e3)},{r['src']},{r['dst']},{r['src_port']},{r['dst_port']},"
        f"{r['proto']},O,{state},NX,{counts}"
        for r in rows
        for state, counts in (("B", "0,0,0,0"), ("E", f"{r['packets']},{r['bytes']},0,0"))
    ]
    flows = [{"aclID": "a", "flowGroups": [{"rule": "r", "flowTuples": tuples}]}]
    return json.dumps({"records": [{"category": "FlowLogFlowEvent", "flowRecords": {"flows": flows}}]}).encode()


def _google(r: dict[str, Any]) -> dict[str, Any]:
    ends = (r["start_time"], r["start_time"] + r["duration"])
    start, end = (_stamp(round(t, 6), "%Y-%m-%dT%H:%M:%S.%fZ") for t in ends)
    joined = {"src_ip": r["src"], "dest_ip": r["dst"], "src_port": r["src_port"], "dest_port": r["dst_port"]}
    payload = {"connection": joined | {"protocol": r["proto"]}, "bytes_sent": str(r["bytes"])}
    payload |= {"packets_sent": str(r["packets"]), "start_time": start, "end_time": end, "reporter": "SRC"}
    return {"insertId": "i", "jsonPayload": payload, "timestamp": end}


def _zeek(r: dict[str, Any]) -> dict[str, Any]:
    return {
        "ts": round(r["start_time"], 6), "uid": "C1", "id.orig_h": r["src"], "id.orig_p": r["src_port"],
        "id.resp_h": r["dst"], "id.resp_p": r["dst_port"], "proto": NAMES[r["proto"]].lower(),
        "duration": round(r["duration"], 6), "orig_bytes": r["bytes"], "resp_bytes": 0, "orig_pkts": r["packets"],
    }  # fmt: skip


def _packets(rows: list[dict[str, Any]]) -> list[tuple[float, int, dict[str, Any]]]:
    """A packet a millisecond or so from start to end; time, bytes and the transfer of each, by time."""
    out = []
    for r in rows:
        count = max(2, int(r["duration"] / 0.0012) + 2)
        for k in range(count):
            size = r["bytes"] // count + (r["bytes"] % count if k == 0 else 0)
            out.append((round(r["start_time"] + r["duration"] * k / (count - 1), 6), size, r))
    return sorted(out, key=lambda p: p[0])


def _frame(r: dict[str, Any]) -> bytes:
    """Ethernet, IPv4 or IPv6, and the first bytes of UDP or TCP."""
    ports = struct.pack(">HH", r["src_port"], r["dst_port"])
    body = ports + (struct.pack(">HH", 8, 0) if r["proto"] == 17 else struct.pack(">IIHHHH", 0, 0, 0x5010, 0, 0, 0))
    a, b = ipaddress.ip_address(r["src"]), ipaddress.ip_address(r["dst"])
    if a.version == 6:
        head = struct.pack(">IHBB", 6 << 28, len(body), r["proto"], 64) + a.packed + b.packed
        return b"\x02" * 12 + b"\x86\xdd" + head + body
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, r["proto"], 0) + a.packed + b.packed
    return b"\x02" * 12 + b"\x08\x00" + head + body


def _pcap(rows: list[dict[str, Any]]) -> bytes:
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)]
    for at, size, r in _packets(rows):
        frame, ticks = _frame(r), round(at * 1e6)
        out += [struct.pack("<IIII", ticks // 1_000_000, ticks % 1_000_000, len(frame), size), frame]
    return b"".join(out)


def _pcapng(rows: list[dict[str, Any]]) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), block(1, struct.pack("<HHI", 1, 0, 0))]
    for at, size, r in _packets(rows):
        frame, ticks = _frame(r), round(at * 1e6)
        out.append(block(6, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), size) + frame))
    return b"".join(out)


def _tshark(rows: list[dict[str, Any]]) -> bytes:
    head = "frame.time_epoch,ip.src,ip.dst,udp.srcport,udp.dstport,frame.len\n"
    line = '"{:.6f}","{src}","{dst}","{src_port}","{dst_port}","{}"\n'
    return (head + "".join(line.format(at, size, **r) for at, size, r in _packets(rows))).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(rows).write_parquet(buffer)
    return buffer.getvalue()


CANONICAL = "start_time,duration,src,dst,src_port,dst_port,proto,bytes,packets,switches"
ZEEK = ("ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "duration", "orig_bytes",
        "resp_bytes", "orig_pkts")  # fmt: skip
AWS = ("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action "
       "log-status")  # fmt: skip

EXPORTERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "canonical-csv": lambda rows: _lines(
        rows, CANONICAL,
        lambda r: "{start_time:.6f},{duration:.6f},{src},{dst},{src_port},{dst_port},{proto},{bytes},{packets},"
        "{switches}".format(**r),
    ),
    "parquet": _parquet,
    "nfdump-csv": lambda rows: _lines(
        rows, "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out",
        lambda r: f"{_stamp(r['start_time'], '%Y-%m-%d %H:%M:%S')},"
        f"{_stamp(r['start_time'] + r['duration'], '%Y-%m-%d %H:%M:%S')},{r['duration']:.3f},{r['src']},{r['dst']},"
        f"{r['src_port']},{r['dst_port']},{NAMES[r['proto']]},........,0,0,{r['packets']},{r['bytes']},0,0,0,0",
    ) + b"Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,2,3,4,5,6\n",
    "nfdump-csv-2024": lambda rows: _lines(
        rows, "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows",
        lambda r: f"{_ms(r['start_time'])},{r['duration']:.3f},{r['proto']},{r['src']},{r['src_port']},{r['dst']},"
        f"{r['dst_port']},{r['packets']},{r['bytes']},1",
    ),
    "nfdump-csv-fast": lambda rows: _lines(
        rows, "cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,output,flags,srcTos,"
        "packets,bytes",
        lambda r: f"1,2,{int(r['start_time'] * 1e3)},{int((r['start_time'] + r['duration']) * 1e3)},{r['proto']},"
        f"{r['src']},{r['src_port']},{r['dst']},{r['dst_port']},0,0,0,0,........,0,{r['packets']},{r['bytes']}",
    ),
    "nfdump-ndjson": lambda rows: _objects(rows, _nfdump_object),
    "nfdump-json": lambda rows: json.dumps([_nfdump_object(r) for r in rows], indent=1).encode(),
    "goflow2": lambda rows: _objects(rows, _goflow2),
    "goflow2-protobuf": lambda rows: _objects(rows, _goflow2_protobuf),
    "azure": _azure,
    "google": lambda rows: _objects(rows, _google),
    "zeek-conn": lambda rows: b"#separator \\x09\n" + _lines(
        rows, "#fields\t" + "\t".join(ZEEK), lambda r: "\t".join(str(_zeek(r)[name]) for name in ZEEK)
    ) + b"#close\t2023-11-14-22-13-20\n",
    "zeek-json": lambda rows: _objects(rows, _zeek),
    "tshark": _tshark,
    "aws-vpc": lambda rows: _lines(
        rows, AWS,
        lambda r: f"2 1 eni-0a {r['src']} {r['dst']} {r['src_port']} {r['dst_port']} {r['proto']} {r['packets']} "
        f"{r['bytes']} {int(r['start_time'])} {int(r['start_time'] + r['duration'] + 1)} ACCEPT OK",
    ),
    "pcap": _pcap,
    "pcapng": _pcapng,
}  # fmt: skip
