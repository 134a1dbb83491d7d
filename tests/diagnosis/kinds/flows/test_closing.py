"""Where a step ends: with its small closing messages, not with its gradients."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.diagnosis.kinds.flows.helpers import parsed
from tests.diagnosis.kinds.reports import flows_json

MEMBERS = [f"10.1.0.{n}" for n in range(1, 5)]
BUCKETS = (147_768, 443_304, 886_608, 1_034_376)
T0 = 1_790_000_000.0


@dataclass
class Ring:
    """Records of a ring of four machines; ``ends``: when each step ended for the program."""

    rows: list[tuple[float, float, int, int, int, int, int, int]] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def send(self, t: float, src: int, size: int, packets: int, *, seconds: float = 0.0, back: bool = False) -> None:
        dst = (src + 1) % 4
        a, b, p, q = (dst, src, 40_000 + src, 50_000 + src) if back else (src, dst, 50_000 + src, 40_000 + src)
        self.rows.append((T0 + t, seconds, a, b, p, q, size, packets))

    def report(self, work: Path) -> dict[str, Any]:
        names = ("start_time", "duration", "src", "dst", "src_port", "dst_port", "bytes", "packets")
        table = pl.DataFrame(self.rows, schema=list(names), orient="row").with_columns(
            pl.col("src", "dst").replace_strict(dict(enumerate(MEMBERS)), return_dtype=pl.String)
        )
        buffer = io.BytesIO()
        table.sort("start_time").write_parquet(buffer)
        rows = [{"ip": ip, "node": f"node-{n}", "switch": "leaf0"} for n, ip in enumerate(MEMBERS)]
        return flows_json([parsed(buffer.getvalue(), work)], inventory=rows)


def trained(optimizer: list[float], late: dict[int, float]) -> Ring:
    """A job with an ``optimizer`` of so many seconds in each step; in ``late`` steps member 2 sends so much later, and
    the others announce what they expect of it.
    """
    ring, dice, now = Ring(), np.random.default_rng(3), 1.0
    for t in np.arange(0.0, 0.4 * len(optimizer), 0.05):  # the store of the launcher, on the connections' machines
        ring.rows.append((T0 + t, 0.0, 0, 1, 29_500, 60_000, 800, 1))
    for k, seconds in enumerate(optimizer):
        begun = now + 0.12 + dice.uniform(-0.004, 0.004)
        for src in range(4):
            ring.send(begun - 0.004, src, 200, 2, back=True)
        begun += late.get(k, 0.0)
        for size in BUCKETS:
            for src in range(4):
                ring.send(begun, src, size, size // 1448 + 1, seconds=0.006)
                ring.send(begun, src, 52 * 40, 40, seconds=0.006, back=True)
            begun += 0.012
        now = begun + seconds
        for src in range(4):
            ring.send(now - 0.002, src, 100, 1)
            ring.send(now - 0.001, src, 204, 2, back=True)
        ring.ends.append(T0 + now)
    return ring


def ends(report: dict[str, Any]) -> np.ndarray:
    (job,) = report["jobs"]
    assert job["parallelism"] == {"tp": 1, "pp": 1, "dp": 4}
    return np.array([s["end"] for s in job["steps"]])


def test_a_step_ends_with_the_messages_after_its_optimizer(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    ring = trained([0.08, *dice.uniform(0.02, 0.04, 24)], {})
    assert np.abs(ends(ring.report(tmp_path)) - ring.ends).max() < 0.003


def test_what_is_announced_to_a_late_member_does_not_end_the_step_before(tmp_path: Path) -> None:
    dice = np.random.default_rng(2)
    ring = trained(list(dice.uniform(0.02, 0.03, 30)), {14: 0.5, 20: 0.4})
    assert np.abs(ends(ring.report(tmp_path)) - ring.ends).max() < 0.003


def test_a_loss_that_other_connections_average_ends_the_step_though_the_next_one_fetches_weights_at_once(
    tmp_path: Path,
) -> None:
    dice, ring, now = np.random.default_rng(4), Ring(), 1.0
    for k in range(30):
        for size in (*BUCKETS, *BUCKETS[::-1]):  # weights for both passes, then gradients, all along the step
            for src in range(4):
                ring.send(now, src, size, size // 1448 + 1, seconds=0.006)
                ring.send(now, src, 52 * 40, 40, seconds=0.006, back=True)
            now += 0.012 + dice.uniform(0.0, 0.004)
        now += 0.9 if k == 0 else 0.03  # the first step of the optimizer
        for src in range(4):
            ring.rows.append((T0 + now - 0.002, 0.0, src, (src + 1) % 4, 52_000 + src, 42_000 + src, 204, 2))
        ring.ends.append(T0 + now)
        now += 0.002
    assert np.abs(ends(ring.report(tmp_path)) - ring.ends).max() < 0.004


def test_a_wait_inside_a_step_that_is_longer_than_the_pause_between_steps_moves_no_boundary(tmp_path: Path) -> None:
    ring = trained([0.02] * 30, {})
    # Member 0 sends its first bucket long before the others are ready.
    first = [n for n, row in enumerate(ring.rows) if row[2] == 0 and row[6] == BUCKETS[0]]
    for n in first[10:20]:
        ring.rows[n] = (ring.rows[n][0] - 0.08, *ring.rows[n][1:])
    assert np.abs(ends(ring.report(tmp_path)) - ring.ends).max() < 0.03  # not the 0.05 s between these buckets
