"""More hostile evidence (:mod:`tests.hostile_corpus`): very many small things, stated counts beyond
any job, archives that lie about their members, and databases and dumps that lie about their sizes.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import pickle
import sqlite3
import struct
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from tests.archives import gz_of, tar_of, zip_of

type File = tuple[str, bytes]

LINE = b"2026-03-01 08:00:00 INFO iteration 1 loss 2.5\n"
COUNTS = (
    "rank 4294967295 of world size 1000000000000",
    "rank -1 world size -8",
    "iteration 1000000000000000000/1 loss 2.5",
    "step 18446744073709551615: loss nan",
    "epoch -9223372036854775808 step 1e999999",
    "exit code 99999999999999999999 of local_rank: 2147483648 (pid: -1)",
    "GPU 4294967295 on node999999999999: Xid 4294967295",
    "waited 1e308 seconds of 1e-308",
    "nodes 1..1000000000 ready",
)


def counted() -> Iterator[File]:
    """Logs that state counts beyond any job, and very many small things."""
    for number, text in enumerate(COUNTS):
        rows = [f"2026-03-01 08:00:{n:02d} ERROR {text}\n" for n in range(20)]
        yield f"count-{number}.log", "".join(rows).encode()
    yield "open-quote.csv", b'start_time,duration,src,dst,bytes\n1,1,"a' + b"x\n" * 200_000
    yield "carriage-and-newline.log", b"\r\n" * 100_000 + LINE
    yield "newline-texts.jsonl", (json.dumps({"msg": "a\n" * 900, "time": "x"}) + "\n").encode() * 60
    yield "words-of-rules.log", LINE + _words_of_rules()
    yield "paragraphs.log", b"".join(b"ERROR " + _different_words(n) + b"\n" for n in range(600))


def _words_of_rules() -> bytes:
    """Messages that hold the words of many rules, each of which is then tried."""
    told = (
        "CUDA error out of memory NCCL timeout watchdog Xid 79 fallen off the bus ECC uncorrectable "
        "exit code 137 killed signal 9 connection reset by peer no space left on device "
    )
    return b"".join(f"ERROR {n:x}{'a' * (n % 7)} {told * 12}\n".encode() for n in range(100))


def _different_words(number: int) -> bytes:
    letters = b"ghijklmnopqrstuvwxyz"
    marks = [(number * 31 + place * 17) % 8_000 for place in range(30)]
    return b" ".join(bytes([letters[m % 20], letters[m // 20 % 20], letters[m // 400]]) for m in marks)


def spelled() -> Iterator[File]:
    """Text whose marks lie: other encodings than stated, marks that join, and half characters."""
    yield "combining.log", LINE + b"RuntimeError: e" + "\u0301".encode() * 150_000 + b"\n"
    yield "bidi.log", LINE + "ERROR \u202e\u2066node-1\u2069 lost\u200b\n".encode() * 2_000
    yield "joiners.log", LINE + ("ERROR " + "\U0001f468\u200d" * 900 + "\n").encode() * 20
    yield "surrogates.log", LINE + b"ERROR \xed\xb0\x80\xed\xa0\x80 lost\n" * 500
    yield "nul.log", b"\0" * 200_000 + LINE
    yield "nul-words.log", b"E\0R\0R\0O\0R\0 " * 20_000 + b"\n" + LINE
    yield "mark-32-text-16.log", b"\xff\xfe\0\0" + LINE.decode().encode("utf-16-le") * 9
    yield "mark-16-text-8.log", b"\xfe\xff" + LINE * 9
    yield "marks-between.log", (b"\xef\xbb\xbf" + LINE) * 300
    yield "surrogates.jsonl", b'{"msg": "\\udc00\\ud800 error", "node": "\\ud800"}\n' * 90


def archived() -> Iterator[File]:
    """Archives that lie about their members, or hold what no evidence is."""
    yield "links.tar", _tar_of_kinds()
    yield "sparse.tar", _sparse_tar()
    yield "deep-names.zip", zip_of({"d/" * depth + "a.log": LINE for depth in range(1, 90, 4)})
    yield "same-names.zip", _zip_of_one_name(40)
    yield "lying-nest.zip", zip_of({f"{n}.tar.gz": gz_of(tar_of({"a.zip": b"PK\3\4"})) for n in range(9)})
    part = bytes(8 << 20)
    packed = {
        "bz2": bz2.compress(part),
        "xz": lzma.compress(part),
        "zst": zstandard.ZstdCompressor().compress(part),
        "gz": gz_of(part),
    }
    for end, data in packed.items():
        yield f"bomb.log.{end}", data
        yield f"cut-bomb.log.{end}", data[: len(data) // 2]


def _tar_of_kinds() -> bytes:
    """Links to files outside, to each other and to themselves, devices and a pipe."""
    out = io.BytesIO()
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in kinds:
            for target in ("/etc/passwd", "../../a", "a.log", f"{kind!r}.log"):
                member = tarfile.TarInfo(f"{kind!r}.log")
                member.type, member.linkname, member.devmajor = kind, target, 1
                archive.addfile(member)
        good = tarfile.TarInfo("good.log")
        good.size = len(LINE)
        archive.addfile(good, io.BytesIO(LINE))
    return out.getvalue()


def _sparse_tar() -> bytes:
    """An old GNU sparse member that states 8 GiB of holes."""
    plain = bytearray(tar_of({"a.log": LINE}, mode="w"))
    plain[156:157] = b"S"
    plain[483:495] = b"%011o\0" % (8 << 30)
    plain[148:156] = b" " * 8
    plain[148:156] = b"%06o\0 " % sum(plain[:512])
    return bytes(plain)


def _zip_of_one_name(count: int) -> bytes:
    """Several members of one name, with different bytes."""
    made = zip_of({f"{number:02d}.log": LINE * (number + 1) for number in range(count)})
    for number in range(count):
        made = made.replace(b"%02d.log" % number, b"00.log")
    return made


def listed() -> Iterator[File]:
    """Documents and dumps of very many entries, or with numbers that no machine holds."""
    yield "numbers.json", b'{"a": 1e999999, "b": ' + b"7" * 400 + b', "c": -Infinity, "d": [NaN]}' * 1
    yield "depth.json", b'{"nodes": ' + b'[{"a": ' * 3_000 + b"1" + b"}]" * 3_000 + b"}"
    events = [{"ph": "X", "pid": n, "tid": -n, "ts": 1e300 * n, "dur": -1, "name": "k"} for n in range(3_000)]
    yield "trace.json", json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    metric = 'DCGM_FI_DEV_GPU_TEMP{gpu="%d",Hostname="n%d",UUID="GPU-%x"} %s\n'
    values = ("1e999", "NaN", "+Inf", "-1", "42")
    yield "labels.prom", "".join(metric % (n, n, n, values[n % 5]) for n in range(4_000)).encode()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nstatus: {phase: Failed}\n---\n"
    yield "documents.yaml", "".join(pod % n for n in range(2_000)).encode()
    yield "items.yaml", ("apiVersion: v1\nkind: List\nitems:\n" + "- {kind: Pod}\n" * 3_000).encode()
    thread = 'Thread %d (idle): "t%d"\n    wait (threading.py:359)\n'
    head = "Process 7: python train.py\nPython v3.11\n\n"
    yield "threads_rank5.txt", (head + "".join(thread % (n, n) for n in range(4_000))).encode()
    yield "tensorboard.tfevents.1", struct.pack("<QI", 1 << 62, 0) + b"\xff" * 400
    yield "tensorboard.tfevents.2", struct.pack("<QI", 12, 7) + b"\0" * 16 + struct.pack("<QI", 1 << 31, 7)
    yield "wandb.sqlite", _database()
    yield "changed.sqlite", _database()[:16] + b"\xff" * 84 + _database()[100:]


def _database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.db")
        with sqlite3.connect(file) as database:
            database.execute("create table events (at text, said text)")
            database.executemany("insert into events values (?, ?)", [("1", "x" * 90)] * 200)
        database.close()
        return file.read_bytes()


def dumped() -> Iterator[File]:
    """Pickles of a flight recorder that refer to themselves, or state very many entries."""
    ring: dict[str, object] = {"version": "2.9", "entries": [{"pg_id": 10**30, "record_id": -1}]}
    ring["entries"] = [ring, ring]
    yield "ring_rank6.pickle", pickle.dumps(ring)
    wide: list[object] = [{"state": "scheduled", "collective_seq_id": n} for n in range(5)]
    for _ in range(24):
        wide = [wide, wide]
    yield "wide_rank7.pickle", pickle.dumps({"version": "2.9", "entries": wide})
    entry = {"pg_id": 1 << 70, "collective_seq_id": 10**18, "input_sizes": [[1 << 62]], "frames": []}
    yield "counts_rank8.pickle", pickle.dumps({"version": "2.9", "entries": [entry] * 50})
