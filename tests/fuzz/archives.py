"""Coverage-guided fuzzing of what opens archives: `python -m tests.fuzz archives [--seconds 120] [--seed 1]`.

Zip, tar, gzip, bzip2, xz, zstd and nests of them are changed byte by byte, also within (a changed archive packed again,
so that checksums of the outer one hold). Every input must keep these promises: walking ends and raises nothing but a
refusal out of a member's stream; there are never more members or bytes than the limits allow; every name is relative,
clean and unique enough to be stored; whatever was left out has a sentence; the same bytes give the same members twice.
"""

from __future__ import annotations

import argparse
import bz2
import faulthandler
import gzip
import io
import lzma
import random
import re
import stat
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable

import zstandard

from diagnosis.archive import archives
from tests.fuzz.readers import Coverage, Found, mutated

LIMITS = archives.Limits(members=40, total_bytes=1 << 20, ratio=50, depth=3)
_HANG_S = 300
_TEXT = b"2026-03-01 08:00:00 INFO iteration 7 loss 2.5\n" * 9
type Members = list[tuple[str, bytes]]


def tar(members: Members, kind: bytes = tarfile.REGTYPE, style: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive of these members, all of one type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../../etc/passwd" if kind != tarfile.REGTYPE else ""
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def packed_zip(members: Members, way: int = zipfile.ZIP_DEFLATED, mode: int = stat.S_IFREG | 0o644) -> bytes:
    """A zip archive of these members, all of one kind of file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", way) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, way
            archive.writestr(info, data)
    return out.getvalue()


_FILES: Members = [("n1/a.log", _TEXT), ("n1/b.log", b""), ("deep/er/c.log", b"x\n")]
_BAD: Members = [("../up.log", _TEXT), ("/abs.log", _TEXT), ("C:\\w.log", b"w"), ("a\nb", b"c"), ("x" * 1500, b"long")]
WRAPS: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: gzip.compress(data, 1, mtime=0),
    bz2.compress,
    lzma.compress,
    lambda data: zstandard.ZstdCompressor().compress(data),
    lambda data: tar([("in/inner.bin", data), ("in/beside.log", _TEXT)]),
    lambda data: packed_zip([("in/inner.bin", data), ("in/beside.log", _TEXT)]),
    lambda data: data + data,
)
SEEDS: tuple[bytes, ...] = (
    tar(_FILES),
    tar(_BAD),
    tar(_FILES, style=tarfile.GNU_FORMAT),
    tar([("n" * 200, _TEXT)], style=tarfile.GNU_FORMAT),
    tar(_FILES, tarfile.SYMTYPE),
    tar(_FILES, tarfile.LNKTYPE),
    tar(_FILES, tarfile.FIFOTYPE),
    packed_zip(_FILES),
    packed_zip(_BAD),
    packed_zip(_FILES, zipfile.ZIP_STORED),
    packed_zip(_FILES, zipfile.ZIP_LZMA),
    packed_zip(_FILES, mode=stat.S_IFLNK | 0o777),
    packed_zip([(f"{n}.log", b"x") for n in range(60)]),
    gzip.compress(bytes(3 << 20), mtime=0),
    *(wrap(tar(_FILES)) for wrap in WRAPS),
    WRAPS[0](WRAPS[4](WRAPS[5](WRAPS[0](_TEXT)))),
)


def complaint(data: bytes) -> str:
    """Which promise is broken, "" if none."""
    try:
        first, broken = _walked(data)
        again, _ = _walked(data)
    except Exception as error:  # any that comes out is what is looked for
        return f"{type(error).__name__}: {error}"[:300]
    return broken or ("" if first == again else "the same bytes give other members")


def _walked(data: bytes) -> tuple[list[tuple[str, int, str]], str]:
    found: list[tuple[str, int, str]] = []
    said: list[tuple[str, str]] = []
    total, broken = 0, ""
    for member in archives.walk(
        io.BytesIO(data), "up.bin", limits=LIMITS, on_problem=lambda path, why: said.append((path, why))
    ):
        size, note = 0, ""
        try:
            while block := member.stream.read(1 << 16):
                size += len(block)
        except archives.Refused as refusal:
            note = str(refusal)
        total += size
        found.append((member.path, size, member.note or note))
        if len(found) > LIMITS.members or total > LIMITS.total_bytes + (1 << 16):
            broken = f"{len(found)} members, {total} bytes: beyond the limits"
            break
        if archives.clean_path(member.path) != member.path:
            broken = f"the name {member.path!r} is not clean"
    for _, sentence in (*said, *((path, note) for path, _, note in found if note)):
        if not sentence.endswith((".", ")")) or len(sentence) < 20 or any(ord(char) < 32 for char in sentence):
            broken = f"no sentence: {sentence!r}"
    if not found and not said:
        broken = "nothing was given and nothing was said"
    return found, broken


def changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A change of bytes, or a changed archive within another, or a cut."""
    way = rng.randrange(5)
    if way == 0:
        return data[: rng.randrange(len(data) + 1)]
    if way == 1:
        return rng.choice(WRAPS)(data[:200_000])
    if way == 2 and data[:2] == b"\x1f\x8b":
        try:
            return gzip.compress(mutated(rng, gzip.decompress(data)[:6_000], other), 1, mtime=0)
        except (OSError, EOFError, zlib.error) as error:
            return data + str(error).encode()
    if way == 3:
        out = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            if out:
                out[rng.randrange(len(out))] = rng.choice((0, 0xFF, 0x7F, rng.randrange(256)))
        return bytes(out)
    return mutated(rng, data, other)


def run(seed: int, *, rounds: int | None = None, seconds: float | None = None) -> Found:
    """Fuzzes for so many rounds or seconds of CPU, whichever is given."""
    rng, pool, found = random.Random(seed), list(SEEDS), Found()
    began = time.process_time()
    with Coverage() as coverage:
        while found.rounds != rounds and (seconds is None or time.process_time() - began < seconds):
            data = (
                SEEDS[found.rounds] if found.rounds < len(SEEDS) else changed(rng, rng.choice(pool), rng.choice(pool))
            )
            before = len(coverage.places)
            faulthandler.dump_traceback_later(_HANG_S, exit=True)
            broken = complaint(data)
            faulthandler.cancel_dump_traceback_later()
            if len(coverage.places) > before:
                pool.append(data)
                found.kept += 1
            if broken:
                found.failures.append(("up.bin", data, broken))
            found.rounds += 1
        found.reached = len(coverage.places)
    return found


def main() -> None:
    """Fuzzes and prints what was found; fails if anything was."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120.0)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    found = run(chosen.seed, seconds=chosen.seconds)
    by_kind = {re.sub(r"[\d,-]+", "0", broken)[:60]: (data, broken) for _, data, broken in reversed(found.failures)}
    for data, broken in by_kind.values():
        print(f"{broken}\n  {len(data):,} bytes: {data[:200]!r}")
    print(
        f"{found.rounds:,} inputs, {found.kept:,} of them reach something new, {found.reached:,} lines and branches, "
        f"{len(found.failures):,} failures of {len(by_kind)} kinds, {time.process_time():.0f} CPU s"
    )
    sys.exit(bool(found.failures))
