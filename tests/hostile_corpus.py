"""Hostile evidence of every kind, made in code: small files, the same each time, one dictionary of name and bytes.

Whoever finds a new way to stop a reader adds a file here: the tests read all of them by the command line and as an
upload (`tests/triage/test_hostile_corpus.py`).
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np
import polars as pl
import zstandard

from tests import hostile_captures, hostile_counts, hostile_more
from tests.archives import gz_of, tar_of, zip_of
from tests.fuzz.archives import SEEDS, tar
from tests.hostile_files import PANICKING_PARQUET, nested_parquet

type File = tuple[str, bytes]

LOG = b"".join(b"2026-03-01 08:00:%02d INFO iteration %d loss 2.5\n" % (n % 60, n) for n in range(30))
PACKERS = {
    "gz": gz_of,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
#: text that runs a pattern in circles, if one is careless
PUMPS = (
    "1,", "1.", "1e", "a.", "a-", "a_", "a/", "/a", "[", "(", "{", "((", "\\", '"', "'", ":", "::", "a:", "=", "a=",
    "0x", "-", "--", "+", "\t", " ", ",", ";", "|", "#", "@", "<", ">", "%", "a1", "A", "é", "0", "00:00:00 ",
    "[rank0]: ",
    'File "', "step 1/", "iteration ", "{1,2,", "node-1,", "n[1-", "GPU 0 ", "10.0.0.1:", "pid=1 ", "loss ", "a@a.",
)  # fmt: skip
MARKS = (
    0, 7, 8, 0x0B, 0x0C, 0x1B, 0x7F, 0x85, 0xA0, 0xAD, 0x61C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x202E, 0x2066,
    0x2069, 0xFEFF, 0xFFFD, 0xFFFE, 0xE0001, 0x1F525, 0x10FFFF, 0x301, 0x3042, 0xFF1D,
)  # fmt: skip
TIMES = (
    "0000-00-00 00:00:00", "9999-12-31 23:59:60", "2026-02-30 08:00:00", "2026-13-01 25:61:61", "1677-09-21 00:12:43",
    "2262-04-12 00:00:00", "1969-12-31 23:59:59", "99999-01-01 00:00:00", "Feb 29 08:00:00", "-1", "1e308", "NaN",
    "18446744073709551616", "[99999999999.999999]", "2026-03-01T08:00:00+99:99",
)  # fmt: skip
NUMBERS = (
    "1e999",
    "-1e999",
    "NaN",
    "inf",
    "9" * 400,
    "-" + "9" * 30,
    "0x" + "f" * 99,
    "²",
    "١٢",
    "1_000",
    "1e-400",
    "",
)
NAMES = (
    "../up.log", "/abs.log", "C:\\w.log", "a\nb.log", "a\rb.log", "-rf.log", "~root.log", "con.log", "x" * 240 + ".log",
    "a/" * 90 + "deep.log", "esc\x1b[31m.log", "rtl\u202egol.log", "zero\u200b.log", "=1+1.log", "<b>.log", "{{7}}.log",
    "%s%n.log", "`id`.log", "a|b.log", "semi;colon.log", "\u2028.log", "e\u0301" * 60 + ".log", ".", "..log", " .log",
)  # fmt: skip
STATED_SIZES = (
    b"77777777777\0",
    b"\x80" + bytes(3) + b"\x40" + bytes(7),
    b"\xff" * 12,
    b"-0000000001\0",
    b"zzzzzzzzzzz\0",
)


@cache
def classes() -> dict[str, dict[str, bytes]]:
    """All of them, by their class."""
    makers = (
        *(_damaged, _tars, _zips, _bombs, _names, _logs, _lines, _json_logs, _tables, _captures, _stacks, _facts),
        *(hostile_more.packers, hostile_more.expansions, hostile_more.records, hostile_more.texts),
        *(hostile_counts.counted, hostile_counts.spelled, hostile_counts.archived),
        *(hostile_counts.listed, hostile_counts.dumped),
        *(hostile_captures.packet_lies, hostile_captures.block_lies),
    )
    return {make.__name__.strip("_"): dict(make()) for make in makers}


@cache
def files() -> dict[str, bytes]:
    """All of them."""
    made: dict[str, bytes] = {}
    for several in classes().values():
        assert not made.keys() & several.keys()
        made |= several
    return made


def _damaged() -> Iterator[File]:
    """Whole containers that were cut, changed, doubled or followed by something."""
    whole = {f"tar.{end}": pack(tar_of({"a.log": LOG}, mode="w")) for end, pack in PACKERS.items()}
    whole |= {f"log.{end}": pack(LOG) for end, pack in PACKERS.items()}
    whole |= {"tar": tar_of({"a.log": LOG, "b.log": LOG}, mode="w"), "zip": zip_of({"a.log": LOG, "b.log": LOG})}
    for end, data in whole.items():
        half = len(data) // 2
        yield f"cut-half.{end}", data[:half]
        yield f"cut-end.{end}", data[:-1]
        yield f"head-alone.{end}", data[:12]
        yield f"changed.{end}", data[:half] + bytes(byte ^ 0xFF for byte in data[half : half + 8]) + data[half + 8 :]
        yield f"doubled.{end}", data + data
        yield f"noise-behind.{end}", data + b"\x01noise" * 50
        yield f"zeros-behind.{end}", data + bytes(70_000)
    for number, seed in enumerate(SEEDS):
        yield f"seed-{number}.bin", seed


def _tars() -> Iterator[File]:
    """Headers that state what is not there."""
    plain = tar_of({"a.log": LOG, "b.log": LOG}, mode="w")
    for number, size in enumerate(STATED_SIZES):
        yield f"size-{number}.tar", _with_field(plain, 124, size)
    for number, kind in enumerate(b"LKxgSVMD12346N"):
        yield f"kind-{number}.tar", _with_field(_with_field(plain, 156, bytes([kind])), 124, STATED_SIZES[0])
    for key, value in (
        ("size", str(1 << 62)), ("size", "-1"), ("size", "x"), ("path", "a/" * 5_000), ("mtime", "1e999"),
        ("GNU.sparse.realsize", str(1 << 62)), ("GNU.sparse.map", "0," + str(1 << 62)),
        ("GNU.sparse.size", str(1 << 50)),
        ("linkpath", "\0"), ("hdrcharset", "BINARY"),
    ):  # fmt: skip
        body = f" {key}={value}\n".encode()
        record = str(len(body) + len(str(len(body) + 9))).encode() + body
        yield f"pax-{key}-{zlib.crc32(value.encode()) % 1000}.tar", tar([("pax", record)], kind=b"x")[:1024] + plain
    yield "no-end.tar", plain[:-1024]
    yield "headers-alone.tar", plain[:512] * 300


def _with_field(archive: bytes, at: int, value: bytes) -> bytes:
    """A tar archive whose first header has this value, with the right sum."""
    header = bytearray(archive[:512])
    header[at : at + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


def _zips() -> Iterator[File]:
    """Directories that state what is not there."""
    plain = zip_of({"a.log": LOG, "b.log": LOG})
    directory, end = plain.index(b"PK\1\2"), plain.index(b"PK\5\6")
    for name, at, value in (
        ("size", directory + 24, b"\xff" * 4), ("packed", directory + 20, b"\xff" * 4),
        ("crc", directory + 16, bytes(4)),
        ("method", directory + 10, b"\x63\0"), ("locked", directory + 8, b"\x01\0"),
        ("offset", directory + 42, b"\xff" * 4),
        ("name", directory + 28, b"\xff\xff"), ("extra", directory + 30, b"\xff\xff"), ("count", end + 8, b"\xff" * 4),
        ("begin", end + 16, b"\xff" * 4), ("length", end + 12, b"\xff" * 4), ("comment", end + 20, b"\xff\xff"),
        ("local", 26, b"\xff\xff"), ("local-size", 18, b"\xff" * 8), ("small", directory + 24, b"\x01\0\0\0"),
    ):  # fmt: skip
        yield f"states-{name}.zip", plain[:at] + value + plain[at + len(value) :]
    yield "no-directory.zip", plain[:directory]
    yield "directory-alone.zip", plain[directory:]
    yield "empty.zip", plain[end:]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(1500):
            archive.writestr(f"{number}.log", b"")
    yield "many-empty.zip", out.getvalue()


def _bombs() -> Iterator[File]:
    """Little that unfolds to much, or to very many."""
    zeros = bytes(70 << 20)
    yield "zeros.log.gz", gzip.compress(zeros, 9, mtime=0)
    yield "zeros.log.zst", zstandard.ZstdCompressor().compress(zeros)
    yield "zeros.zip", zip_of({"zeros.log": zeros})
    nested = zip_of({"deep.log": LOG})
    for _ in range(20):
        nested = zip_of({"in.zip": nested})
    yield "nested.zip", nested
    packed = LOG
    for _ in range(30):
        packed = gz_of(packed)
    yield "nested.log.gz", packed
    for end, pack in PACKERS.items():
        yield f"empty-streams.log.{end}", pack(b"") * 3_000
    yield "quine.tar.gz", gz_of(tar_of({f"{n}.gz": gz_of(gz_of(LOG)) for n in range(20)}, mode="w"))


def _names() -> Iterator[File]:
    for number, name in enumerate(NAMES):
        yield f"name-{number}.zip", zip_of({name: LOG, "beside.log": LOG})
        yield f"name-{number}.tar", tar([(name, LOG), ("beside.log", LOG)])


def _logs() -> Iterator[File]:
    """Whole logs in odd encodings, with odd ends of lines, or of one line."""
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp037", "shift-jis", "utf-7"):
        yield f"in-{encoding}.log", (LOG.decode() + "Verlust ö\n").encode(encoding, "replace")
    yield "cr-alone.log", LOG.replace(b"\n", b"\r")
    yield "crlf.log", LOG.replace(b"\n", b"\r\n")
    yield "nul-between.log", LOG.replace(b" ", b"\0")
    yield "nul-tail.log", LOG + bytes(300_000)
    yield "half-surrogate.log", LOG + b"\xed\xa0\x80 error\n" * 50
    yield "one-line.log", b"error " * 200_000
    yield "one-word.log", b"a" * 1_000_000
    yield "blank-lines.log", b"\n" * 200_000
    yield "spaces.log", b" " * 1_000_000 + b"\n"
    yield "bar.log", LOG + b"\r".join(b" %d%%|##| %d/900 [00:01<00:02]" % (n % 100, n) for n in range(3_000))
    yield "usage.log", LOG + _usage() * 3
    yield (
        "usage-of-ranks.log",
        b"".join(b"[rank%d]: " % (n % 8) + line for n in range(40) for line in _usage().splitlines(True)[:20]),
    )
    for joint in (",", ", ", "-", ".", ":", "/", " "):
        listed = joint.join(map(str, range(1, 60))).encode()
        line = b"2026-03-01 08:00:%02d chosen {" + listed + b"} of 0.%d\n"
        yield f"list-{ord(joint[0])}-{len(joint)}.log", b"".join(line % (n % 60, n) for n in range(40))


def _usage() -> bytes:
    """A usage text as argparse prints it, with choices."""
    rows = [b"usage: train.py [-h]"]
    for n in range(60):
        choices = b",".join(b"%d" % one for one in range(1, 10 + n % 40))
        rows += [b"  --layers-of-stage-%d {%s}" % (n, choices), b"                        Layers [1,2,...,%d]." % n]
    return b"\n".join(rows) + b"\ntrain.py: error: argument --layers: invalid choice: 'a'\n"


def _lines() -> Iterator[File]:
    """A usual log with hostile lines in it."""
    for number, pump in enumerate(PUMPS):
        line = pump * (4_000 // len(pump))
        text = "".join(f"2026-03-01 08:00:{n:02d} ERROR {line}{n}!\n" for n in range(6)) + f"{line}\n" * 6
        yield f"pump-{number}.log", LOG + text.encode()
    for mark in MARKS:
        char = chr(mark)
        yield f"mark-{mark:x}.log", LOG + f"{char}RuntimeError: {char}a{char}b{char}\n".encode() * 9
    for number, time in enumerate(TIMES):
        yield f"time-{number}.log", b"".join(f"{time} ERROR iteration {n} failed\n".encode() for n in range(20))
    for number, value in enumerate(NUMBERS):
        words = (
            f"iteration {value}/{value} loss {value} rank {value} node{value} Xid {value} step {value} ms: {value}\n"
        )
        yield f"number-{number}.log", LOG + words.encode() * 9


def _json_logs() -> Iterator[File]:
    """Lines of JSON objects."""
    yield "deep.jsonl", b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"\n"
    yield "deep-lists.json", b"[" * 100_000
    yield "keys.jsonl", (json.dumps({f"k{n}": n for n in range(5_000)}) + "\n").encode() * 3
    for number, value in enumerate(("1e999", "NaN", "-Infinity", "9" * 500, "null", "[]", '"\\ud800"', "{}")):
        line = f'{{"time": {value}, "msg": {value}, "level": {value}, "host": {value}}}\n'
        yield f"value-{number}.jsonl", line.encode() * 20
    yield "same-keys.jsonl", b'{"msg": 1, "msg": "x", "msg": {}}\n' * 20


_HEAD = b"start_time,duration,src,dst,bytes\n"


def _tables() -> Iterator[File]:
    """Flow records as tables."""
    for number, value in enumerate((*NUMBERS[:10], *TIMES[:6], '"', "\0", "=1")):
        row = f"{value},{value},10.0.0.1,{value},{value}\n1772000000,1,10.0.0.1,10.0.0.2,100\n"
        yield f"flows-{number}.csv", _HEAD + row.encode() * 9
    yield "head-alone-flows.csv", _HEAD
    yield "columns-flows.csv", b",".join(b"c%d" % n for n in range(20_000)) + b"\n" + b"1," * 20_000 + b"\n"
    yield "fields-flows.csv", _HEAD + b"1," * 50_000 + b"\n"
    yield "quote-flows.csv", _HEAD + b'"' + b"1,2,10.0.0.1,10.0.0.2,5\n" * 500
    yield "panic.parquet", PANICKING_PARQUET
    yield "nested.parquet", nested_parquet(60)
    columns = {"start_time": [1.0, 2.0], "duration": [1.0, 1.0], "dst": ["a", "b"], "bytes": [1, 2]}
    table = _parquet(pl.DataFrame({**columns, "src": ["10.0.0.1", "10.0.0.2"]}))
    yield "page.parquet", _parquet(pl.DataFrame({**columns, "src": ["x" * (70 << 20), "b"]}))
    many = {"start_time": 1.0, "duration": 0.5, "src": "10.0.0.1", "dst": "10.0.0.2", "bytes": 9}
    yield "equal-rows.parquet", _parquet(pl.select(**{name: pl.repeat(value, 300_000) for name, value in many.items()}))
    for cut in (4, 12, 60, 200, len(table) // 2):
        yield f"cut-{cut}.parquet", table[:-cut]
    for at in range(len(table) - 120, len(table) - 8, 14):
        yield f"footer-{len(table) - at}.parquet", table[:at] + b"\xff\x7f" + table[at + 2 :]
    yield "long-footer.parquet", table[:-8] + b"\xff\xff\xff\x7fPAR1"
    yield "arrow.feather", b"ARROW1\0\0" + b"\xff" * 64
    yield "array.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", 80) + b"{'descr': '|O', 'shape': (1<<60,)}".ljust(80)
    out = io.BytesIO()
    np.savez_compressed(out, a=np.zeros(1 << 20))
    yield "zeros.npz", out.getvalue()


def _parquet(table: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    table.write_parquet(out, compression="zstd", statistics=False)
    return out.getvalue()


def _captures() -> Iterator[File]:
    """Packets and binary flow records."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    packet = struct.pack("<IIII", 1772000000, 0, 60, 60) + bytes(12) + b"\x08\0\x45" + bytes(45)
    yield "head-alone.pcap", head
    yield "packets.pcap", head + packet * 50
    yield "cut.pcap", head + packet * 50 + packet[:20]
    for number, length in enumerate((0, 1, 0x7FFFFFFF, 0xFFFFFFFF)):
        yield f"length-{number}.pcap", head + struct.pack("<IIII", 1, 0, length, length) + bytes(200) + packet
    for number, link in enumerate((0, 113, 147, 0xFFFF)):
        yield f"link-{number}.pcap", head[:20] + struct.pack("<I", link) + packet * 9
    yield "time.pcap", head + struct.pack("<IIII", 0xFFFFFFFF, 0xFFFFFFFF, 60, 60) + packet[16:]
    for number, length in enumerate((0, 12, 13, 0xFFFFFFFF)):
        yield f"block-{number}.pcapng", struct.pack("<IIIHHq", 0x0A0D0D0A, length, 0x1A2B3C4D, 1, 0, -1) + bytes(64)
    yield "netflow.nfcapd", b"\x0c\xa5\x01\0" + b"\xff" * 300


def _stacks() -> Iterator[File]:
    """Dumps of stacks and of collectives."""
    entry = {"pg_id": 0, "collective_seq_id": 1, "state": "scheduled", "frames": [{"name": "f"}]}
    yield "repeated_trace_rank0.pickle", pickle.dumps({"version": "2", "entries": [entry] * 60_000}, protocol=2)
    for number, data in enumerate(
        (
            b"\x80\x02cos\nsystem\n(X\x02\0\0\0idtR.", b"\x80\x02" + b"]" * 50_000 + b".",
            b"\x80\x02}r\xff\xff\xff\x7f.",
            b"\x80\x02X\xff\xff\xff\x7fa.", b"\x80\x04\x95" + b"\xff" * 8 + b".", b"\x80\x02" + b"(" * 50_000 + b"t.",
            b"\x80\x02]q\0h\0a.", b"\x80\x02" + b"h\0" * 1000 + b".", b"\x80\x02\x8a\xff" + b"9" * 255 + b".",
            b"\x80\x02",
            b"\x80\x02]q\0(" + b"h\0h\0e]q\1(h\0h\0e]q\2(h\1h\1e" * 30 + b".",
        )
    ):  # fmt: skip
        yield f"trace_rank{number}.pickle", data
    for number, value in enumerate(("1e999", "9" * 400, "[]", "null", '"x"', "-1", "NaN")):
        text = f'{{"version": "2", "pg_config": {{}}, "entries": [{{"pg_id": {value}, "collective_seq_id": {value}}}]}}'
        yield f"recorder_rank{number}.json", text.encode()
    yield "pyspy_rank1.json", b'[{"thread_id": 1, "frames": ' + b"[" * 5_000 + b"]" * 5_000 + b"}]"
    yield "stack_rank2.txt", b"Process 1: python\nThread 1 (active)\n" + b"    f (a.py:1)\n" * 50_000
    yield "stack_rank3.txt", b"Thread 0x" + b"f" * 9_000 + b" (most recent call first):\n" + b'  File "a" line 9\n' * 99


def _facts() -> Iterator[File]:
    """Descriptions of jobs."""
    for number, value in enumerate(("1e999", "9" * 400, "[]", "null", '"x"', "-1", "NaN", str(1 << 40))):
        yield (
            f"inventory-{number}/inventory.json",
            f'{{"job_id": {value}, "nodes": {value}, "world_size": {value}}}'.encode(),
        )
        yield (
            f"layout-{number}/layout.json",
            f'{{"tp": {value}, "pp": {value}, "dp": {value}, "world_size": 8}}'.encode(),
        )
    yield "inventory-8/inventory.json", json.dumps({"nodes": [f"n[1-{9**n}]" for n in range(40)]}).encode()
    yield "hostlist.log", LOG + b"SLURM_NODELIST=n[1-999999999],m[0000001-9999999]\n" * 3
