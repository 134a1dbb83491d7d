"""Writes training-like logs of any size: `python -m lab.measure generate OUT --lines 1000000 [--ranks 64] [--seed 1]`.

One merged file of many ranks, as torchrun's tee writes it: framework banners, iteration lines, NCCL initialisation,
data-loader notes, tracebacks and checkpoint messages, with the numbers, addresses, paths and host names that make real
logs hard to compress. Same seed and size, same bytes. With ``--hours 2`` only
the first two hours (1.2 M lines each) are made, and the later ones repeat them with their own times and iterations.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

_Maker = Callable[[random.Random, int, int], str]


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _iteration(rng: random.Random, n: int, rank: int) -> str:
    return (
        f" iteration {n // _ITERATION:8d}/  500000 | consumed samples: {n * 4:12d} | elapsed time per iteration "
        f"(ms): {rng.gauss(2150, 30):.1f} | "
        f"throughput per GPU (TFLOP/s/GPU): {rng.gauss(410, 4):.1f} | learning rate: "
        f"{rng.random() * 1e-4:.6E} | global batch size:  2048 | "
        f"lm loss: {rng.gauss(2.2, 0.05):.6E} | loss scale: 1.0 | grad norm: {rng.random():.3f} | number "
        f"of skipped iterations:   0 | "
        "number of nan iterations:   0 |"
    )


def _nccl(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"gpu-{rank // 8:04d}:{20000 + rank}:{21000 + rng.randrange(900)} [{rank % 8}] NCCL INFO Channel "
        f"{rng.randrange(32):02d}/0 : "
        f"{rank}[{rank % 8}] -> {(rank + 1) % 512}[{(rank + 1) % 8}] via P2P/CUMEM/read comm 0x{_hex(rng, 12)}"
    )


def _transport(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"gpu-{rank // 8:04d}:{20000 + rank}:{21000 + rng.randrange(900)} [{rank % 8}] NCCL INFO NET/IB : "
        f"Using [{rng.randrange(8)}]mlx5_{rng.randrange(8)}:1/RoCE "
        f"[RO]; OOB bond0:10.12.{rank // 8}.{1 + rng.randrange(250)}<0>"
    )


def _loader(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"dataloader: rank {rank} prefetch depth {rng.randrange(16)}, shard "
        f"/data/corpus/part-{rng.randrange(4096):05d}.bin offset {rng.getrandbits(30)}"
    )


def _memory(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"[Rank {rank}] (after {n // _ITERATION} iterations) memory (MB) | allocated: {rng.random() * 40000:.2f} "
        f"| max allocated: {rng.random() * 80000:.2f} | "
        f"reserved: {rng.randrange(80000)}.0 | max reserved: {rng.randrange(80000)}.0"
    )


def _checkpoint(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"[INFO] [torch_checkpoint_engine.py:{rng.choice((23, 33))}:save] [Torch] Saving "
        f"/ckpt/run-{_hex(rng, 8)}/global_step{n // _ITERATION}/"
        f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt..."
    )


def _telemetry(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"[WARNING] [telemetry.py:88] push to 10.0.{rng.randrange(255)}.{rng.randrange(255)}:9091 took "
        f"{rng.random() * 900:.0f} ms (id "
        f"{_hex(rng, 8)}-{_hex(rng, 4)}-{_hex(rng, 4)}-{_hex(rng, 4)}-{_hex(rng, 12)})"
    )


def _timers(rng: random.Random, n: int, rank: int) -> str:
    return "(min, max) time across ranks (ms): " + " | ".join(
        f"{name}: ({rng.random() * 900:.2f}, {rng.random() * 999:.2f})"
        for name in ("forward-backward", "params-all-gather", "optimizer")
    )


def _cache(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"[WARNING] [stage3.py:{rng.choice((2069, 2106))}:step] {rng.randrange(9)} pytorch allocator "
        f"cache flushes since last step. this happens when there is high memory pressure"
    )


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/opt/megatron/train.py", line {line}, in <module>',
    "    main(args)",
    '  File "/opt/megatron/training/loader.py", line {line}, in fetch',
    "    sample = self.index[offset]",
    "ValueError: sample {number} of shard {number} has {number} tokens, at most 4096 are allowed; skipped",
)

_MAKERS: tuple[tuple[float, _Maker], ...] = (
    (0.20, _iteration),
    (0.16, _nccl),
    (0.08, _transport),
    (0.20, _loader),
    (0.10, _memory),
    (0.06, _checkpoint),
    (0.06, _telemetry),
    (0.08, _timers),
    (0.05, _cache),
)
_START = datetime.datetime(2026, 3, 1, 8, 0, 0)
_LINE_MS = 3
_ITERATION = 640  # its lines
_ITERATIONS = 3_600_000 // _LINE_MS // _ITERATION  # of an hour
_NUMBERED = (b" iteration %8d/", b"(after %d iterations)", b"/global_step%d/")


def lines(count: int, ranks: int = 64, seed: int = 1) -> Iterator[str]:
    """Yields exactly ``count`` lines without their newline."""
    rng = random.Random(seed)
    weights, makers = zip(*_MAKERS, strict=True)
    made = 0
    while made < count:
        rank = rng.randrange(ranks)
        at = _START + datetime.timedelta(milliseconds=_LINE_MS * made)
        head = f"[default{rank % 8}]:[rank{rank}]: " if made % 3 else f"[rank{rank}]: "
        stamp = f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] "
        if rng.random() < 0.0005:
            for text in _TRACEBACK[: count - made]:
                yield head + text.format(line=rng.randrange(400), number=rng.randrange(100000))
                made += 1
            continue
        yield head + stamp + rng.choices(makers, weights)[0](rng, made, rank)
        made += 1


def write(path: Path, count: int, ranks: int = 64, seed: int = 1) -> None:
    """Writes ``count`` lines to ``path``, streaming."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as out:
        out.writelines(line + "\n" for line in lines(count, ranks, seed))


def write_long(path: Path, count: int, hours: int, ranks: int = 64, seed: int = 1) -> None:
    """Writes ``count`` lines to ``path``, of which the first ``hours`` are made and the others repeat them, an hour at
    a time, with their own times and iterations. Memory: the hours that are made.
    """
    made = (f"{line}\n".encode() for line in lines(hours * _ITERATIONS * _ITERATION, ranks, seed))
    blocks = [b"".join(itertools.islice(made, _ITERATION)) for _ in range(hours * _ITERATIONS)]
    with path.open("wb", buffering=1 << 20) as out:
        for number in range(-(-count // _ITERATION)):
            block = _moved(blocks[number % len(blocks)], number % len(blocks), number)
            left = count - number * _ITERATION
            out.write(block if left >= _ITERATION else b"".join(block.splitlines(keepends=True)[:left]))


def _moved(block: bytes, before: int, after: int) -> bytes:
    """The lines of iteration ``before`` as those of iteration ``after``, at the same time of another hour."""
    if before == after:
        return block
    block = block.replace(_hour(before // _ITERATIONS), _hour(after // _ITERATIONS))
    for said in _NUMBERED:
        block = block.replace(said % before, said % after)
    return block


def _hour(number: int) -> bytes:
    """How the stamps of an hour begin."""
    return f"[{_START + datetime.timedelta(hours=number):%Y-%m-%d %H}:".encode()


def main() -> None:
    """Write one log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=int, default=0, help="that are made; the others repeat them. Default: all")
    options = parser.parse_args()
    if options.hours:
        write_long(options.out, options.lines, options.hours, options.ranks, options.seed)
    else:
        write(options.out, options.lines, options.ranks, options.seed)
