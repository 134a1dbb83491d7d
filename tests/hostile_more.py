"""More hostile evidence (:mod:`tests.hostile_corpus`): headers that ask for memory, text that other readers expand, and
records of collectors.
"""

from __future__ import annotations

import json
import lzma
import struct
import zlib
from collections.abc import Iterator

from tests.archives import gz_of, tar_of, zip_of

type File = tuple[str, bytes]

LINE = b"2026-03-01 08:00:00 INFO iteration 1 loss 2.5\n"
ESCAPES = (
    b"\x1b[", b"\x1b]0;", b"\x1b]8;;http://x\x07", b"\x1b[" + b"9;" * 2_000 + b"m", b"\x1bP", b"\x9b", b"\x1b[2J",
    b"\x08" * 500, b"\x1b#8", b"\x1b[999999999C",
)  # fmt: skip


def packers() -> Iterator[File]:
    """Compressed files whose headers ask for memory or have no end, and bombs of many streams."""
    part = bytes(1 << 20)
    yield "zeros.log.xz", lzma.compress(part) * 70
    yield "window.log.zst", b"\x28\xb5\x2f\xfd\x00\xf8" + b"\xff" * 60
    yield "dictionary.log.xz", _with_dictionary(lzma.compress(LINE), 40)
    for flag in (0x04, 0x08, 0x10, 0x1E):
        yield f"header-{flag}.log.gz", b"\x1f\x8b\x08" + bytes([flag]) + bytes(6) + b"a" * 100_000
    yield "tar-of-bombs.tar.gz", gz_of(tar_of({f"{n}.log.gz": gz_of(part) for n in range(9)}, mode="w"))
    yield "overlap.zip", _overlapping(60)
    several = {f"{n}.zip": zip_of({f"{n}.tar.gz": gz_of(tar_of({"a.log": LINE}))}) for n in range(20)}
    yield "zip-of-zips.zip", zip_of(several)


def _with_dictionary(packed: bytes, code: int) -> bytes:
    """An .xz file whose first block asks for another size of its dictionary; 40 is 4 GiB."""
    size = (packed[12] + 1) * 4
    header = bytearray(packed[12 : 12 + size - 4])
    header[4] = code
    return packed[:12] + bytes(header) + struct.pack("<I", zlib.crc32(header)) + packed[12 + size :]


def _overlapping(count: int) -> bytes:
    """A zip archive whose directory names one member many times."""
    plain = zip_of({"a.log": bytes(300_000)})
    begin, end = plain.index(b"PK\1\2"), plain.index(b"PK\5\6")
    entry = plain[begin:end]
    counts = struct.pack("<HHII", count, count, count * len(entry), begin)
    return plain[:begin] + entry * count + plain[end : end + 8] + counts + b"\0\0"


def expansions() -> Iterator[File]:
    """Text that readers of XML, YAML, JSON and tables expand."""
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 30))
    yield "entities.xml", f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "x">{entities}]><x>&a29;</x>'.encode()
    yield "outside.xml", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>\n'
    anchors = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    yield "anchors.yaml", f"a0: &a0 [x]\n{anchors}".encode()
    yield "anchors-inventory.yaml", f"nodes: &n [*n, *n]\nworld_size: {'9' * 5_000}\n".encode()
    yield "tag.yaml", b"!!python/object/apply:os.system ['true']\n" * 20
    yield "digits.json", b'{"world_size": ' + b"9" * 100_000 + b"}"
    yield "digits.jsonl", (b'{"time": ' + b"9" * 50_000 + b', "msg": "x"}\n') * 4
    yield "exponent.jsonl", b'{"time": 1e999999999, "msg": "x", "level": 1E-999999999}\n' * 30
    yield "many-objects.json", b"[" + b"{}," * 100_000 + b"{}]"
    yield "many-keys.json", json.dumps({f"k{n}": [n] for n in range(15_000)}).encode()
    yield "deep-log.jsonl", b'{"msg": ' + b'{"msg": ' * 900 + b'"x"' + b"}" * 901 + b"\n"
    yield "export.json", b'{"data": {"result": [' + b'{"stream": {}, "values": [["1", "x"]]},' * 5_000 + b"{}]}}"
    yield "columns.csv", b"1," * 300_000 + b"\n"
    yield "quotes.csv", b'"' * 100_000 + b"\n"
    yield "ragged.csv", b"".join(b"a," * (n % 3_000) + b"\n" for n in range(300))


def records() -> Iterator[File]:
    """Binary records with lengths and templates that lie."""
    template = struct.pack(">HHHH", 0, 8 + 4 * 16_000, 256, 16_000) + struct.pack(">HH", 1, 0) * 16_000
    yield "templates.netflow9", struct.pack(">HHIIII", 9, 65_535, 0, 0, 0, 0) + template[:60_000]
    yield "templates.ipfix", struct.pack(">HHIII", 10, 65_535, 0, 0, 0) + template[:60_000]
    yield "length.sflow", struct.pack(">II", 5, 1) + b"\xff" * 200
    yield "lists.msgpack", b"\xdd\xff\xff\xff\xff" * 2_000
    yield "text.msgpack", b"\xdb\xff\xff\xff\xff" + b"a" * 2_000
    yield "footer.arrow", b"ARROW1\0\0" + bytes(64) + b"\xff\xff\xff\x7fARROW1"
    yield "stream.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(64)
    yield "columns.orc", b"ORC" + b"\xff" * 300
    yield "sizes.avro", b"Obj\x01" + b"\xff" * 9 + b"\x7f" + bytes(64)
    yield "journal.journal", b"LPKSHHRH" + b"\xff" * 264
    yield "core.dump", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\xff" * 200


def texts() -> Iterator[File]:
    """Logs with marks of other encodings, control sequences, and lines of great length or number."""
    for name, mark in (
        ("16le", b"\xff\xfe"),
        ("16be", b"\xfe\xff"),
        ("32le", b"\xff\xfe\0\0"),
        ("32be", b"\0\0\xfe\xff"),
    ):
        yield f"mark-of-{name}.log", mark + LINE * 20
        yield f"odd-{name}.log", mark + LINE.decode().encode(f"utf-{name[:2]}-{name[2:]}")[:-1]
    for number, escape in enumerate(ESCAPES):
        yield f"escape-{number}.log", LINE * 9 + (escape + b"RuntimeError: a\n") * 40
    yield "carriage.log", b"\r" * 300_000 + LINE
    yield "form-feeds.log", b"\f\v\x85" * 100_000 + LINE
    yield "two-lines.log", b"x" * 1_000_000 + b"\n" + b"ERROR " * 60_000 + b"\n" + LINE
    yield "bytes.log", bytes(range(256)) * 400
    yield (
        "same-error.log",
        (LINE + b"Traceback (most recent call last):\n" + b'  File "a.py", line 1, in f\n' * 60) * 60,
    )
    yield "machines.log", b"".join(b"node-%d: " % n + LINE for n in range(2_000))
    yield "ranks.log", b"".join(b"[rank%d]: " % (n * n * n) + LINE for n in range(2_000))
