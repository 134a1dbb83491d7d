"""Writes training-like logs of any size: `python -m measure generate OUT --lines 1000000 [--ranks 64] [--seed 1]`.

One merged file of many ranks, as torchrun's tee writes it: framework banners, iteration lines, NCCL initialisation,
data-loader notes, tracebacks and checkpoint messages, with the numbers, addresses, paths and host names that make real
logs hard to compress. Same seed and size, same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import random
from collections.abc import Callable, Iterator
from pathlib import Path

_Maker = Callable[[random.Random, int, int], str]


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _iteration(rng: random.Random, n: int, rank: int) -> str:
    return (
        f" iteration {n // 640:8d}/  500000 | consumed samples: {n * 4:12d} | elapsed time per iteration "
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
        f"[Rank {rank}] (after {n // 640} iterations) memory (MB) | allocated: {rng.random() * 40000:.2f} "
        f"| max allocated: {rng.random() * 80000:.2f} | "
        f"reserved: {rng.randrange(80000)}.0 | max reserved: {rng.randrange(80000)}.0"
    )


def _checkpoint(rng: random.Random, n: int, rank: int) -> str:
    return (
        f"[INFO] [torch_checkpoint_engine.py:{rng.choice((23, 33))}:save] [Torch] Saving "
        f"/ckpt/run-{_hex(rng, 8)}/global_step{n // 640}/"
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


def lines(count: int, ranks: int = 64, seed: int = 1) -> Iterator[str]:
    """Yields exactly ``count`` lines without their newline."""
    rng = random.Random(seed)
    weights, makers = zip(*_MAKERS, strict=True)
    start = datetime.datetime(2026, 3, 1, 8, 0, 0)
    made = 0
    while made < count:
        rank = rng.randrange(ranks)
        at = start + datetime.timedelta(milliseconds=3 * made)
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


def main() -> None:
    """Write one log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.out, options.lines, options.ranks, options.seed)
