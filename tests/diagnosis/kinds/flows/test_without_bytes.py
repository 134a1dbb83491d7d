"""Records without byte counts: neighbours of a pipeline that exchange both ways are no replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.kinds.flows.helpers import layout, parsed
from tests.diagnosis.kinds.reports import flows_json

STEPS, REPLICAS, STEP_S = 12, 4, 2.0
HEADER = "start_time,end,src,dst,bytes"


def transfers(step: int, passes: int) -> list[tuple[float, float, str, str]]:
    """Each pair of neighbours exchanges at once ``passes`` times; then both stages go round their rings twice."""
    begin = 1_790_000_000 + step * STEP_S
    rows = []
    for turn in range(passes):
        at = begin + 0.09 * turn
        for replica in range(REPLICAS):
            ends = (f"10.0.0.{replica}", f"10.0.1.{replica}")
            rows += [(at, at + 0.004, *ends), (at, at + 0.004, *ends[::-1])]
    for turn in range(2):
        at = begin + 1.6 + 0.11 * turn
        hops = [(stage, replica, (replica + 1) % REPLICAS) for stage in (0, 1) for replica in range(REPLICAS)]
        rows += [(at, at + 0.1, f"10.0.{stage}.{a}", f"10.0.{stage}.{b}") for stage, a, b in hops]
    return rows


def job(work: Path, passes: int) -> dict[str, Any]:
    rows = [row for step in range(STEPS) for row in transfers(step, passes)]
    lines = [f"{start:.6f},{end:.6f},{src},{dst}," for start, end, src, dst in rows]
    (found,) = flows_json([parsed("\n".join([HEADER, *lines]).encode(), work)])["jobs"]
    return dict(found)


@pytest.mark.parametrize("passes", [8, 16])
def test_pairs_that_exchange_more_often_than_rings_pass_buckets_are_a_pipeline(tmp_path: Path, passes: int) -> None:
    assert layout(job(tmp_path, passes)) == (1, 2, REPLICAS)


def test_pairs_that_exchange_as_often_as_rings_pass_buckets_exchange_gradients(tmp_path: Path) -> None:
    assert {pair["type"] for pair in job(tmp_path, 2)["pairs"]} == {"DP"}
