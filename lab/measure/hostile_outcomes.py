"""The good log beside a hostile file, the limits, and what one file cost (:mod:`lab.measure.hostile`)."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_S, MAX_BYTES, GIVE_UP_S = 10.0, 1 << 30, 60.0
GOOD_NAME = "good-neighbour.log"
GOOD = "".join(f"2026-03-01 08:00:{n:02d} iteration {n} loss 2.{n}\n" for n in range(40)) + (
    "2026-03-01 08:01:00 RuntimeError: CUDA error: an illegal memory access was encountered\n"
)


@dataclass
class Outcome:
    """What one file cost, and what was wrong."""

    name: str
    cpu_s: float = 0.0
    peak_bytes: int = 0
    wrong: list[str] = field(default_factory=list)
