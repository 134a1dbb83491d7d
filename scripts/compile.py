"""Compile the engine's loops once, before several processes that need them begin together: a loop takes a second.

A small log is read in the interpreter (`diagnosis.processing.jit`), so that a diagnosis of a sample alone would
compile nothing.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from diagnosis import ParseHints, parse
from diagnosis.pipeline import diagnose
from diagnosis.processing import jit, machine_code
from ingest.wire import loki, otlp, scanning
from ingest.wire.rows import Budget
from triage.places import ROOT

#: Lines in whose places, stamps and writers every loop has something to read.
_LINES = (
    "node-7:2100:2400 [0] NCCL INFO comm 123e4567-e89b-12d3-a456-426614174000",
    "  12: worker-3: 2026-03-01T08:00:00Z step 12 loss 3.5",
    "worker-3: 2026-03-01 08:00:00,123 INFO [rank3]: step 12 loss 3.5",
    "Mar  1 08:00:00 node-7 kernel: [   12.345678] mlx5_core 0000:4e:00.0: link down",
    "[rank3]:[W301 08:00:00.123456789 socket.cpp:460] retrying",
)
#: A group of one record in protobuf, as collectors push it.
_RECORD = b"\x12\x04\x12\x02\x0a\x00"


def main() -> list[str]:
    """Compile the loops into the checkout; returns the names of those that nothing here calls."""
    jit.load()
    files = {f"{number}.log": f"{line}\n".encode() * 40 for number, line in enumerate(_LINES)}
    with tarfile.open(ROOT / "samples" / "sigkill_rank5.tar.gz") as archive:
        for member in archive:
            if member.isfile() and (held := archive.extractfile(member)) is not None:
                files[member.name] = held.read()
    with tempfile.TemporaryDirectory() as folder:
        parsed = [
            parse(io.BytesIO(data), path, ParseHints(), Path(folder) / str(number))
            for number, (path, data) in enumerate(files.items())
        ]
        diagnose(parsed, read=lambda path, offset, length: files[path][offset : offset + length])
    for tags, value in ((otlp._TAGS, scanning.unwrap), (loki._TAGS, scanning.moments)):
        if (read := scanning.records(_RECORD, tags, Budget())) is not None:
            value(np.frombuffer(_RECORD, np.uint8), read[0][:, :2])
    own = (module for name, module in sys.modules.copy().items() if name.startswith(("diagnosis.", "ingest.")))
    every = [value for module in own for value in vars(module).values() if isinstance(value, jit._Loop)]
    called = {one for loop in every if loop.codes for one in machine_code.with_callees(loop._function)}
    return sorted(
        {f"{loop._function.__module__}.{loop._function.__name__}" for loop in every if loop._function not in called}
    )
