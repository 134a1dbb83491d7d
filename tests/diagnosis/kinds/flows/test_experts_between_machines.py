"""Experts on several machines: all-to-alls of uneven sizes, a ring of gradients across them, and experts that two
machines share.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.jobs.pairs import EP, PP, _within_all_to_alls
from diagnosis.model import ParseHints
from tests.diagnosis.kinds.reports import flows_json

MEMBERS, GROUP, STEPS = 8, 4, 30
BEGIN_S = 1_790_000_000.0
#: The ring crosses the groups twice.
RING = (0, 1, 2, 3, 4, 5, 6, 7)


def records(late: Mapping[int, tuple[float, float]] | None = None) -> pl.DataFrame:
    """Each step: eight all-to-alls in both groups, then two buckets of a ring, then what two machines exchange.
    ``late``: seconds that a member computes longer before an exchange of even, and of odd number.
    """
    rng = np.random.default_rng(5)
    rows: list[tuple[float, float, int, int, int]] = []
    now = 0.0
    for _ in range(STEPS):
        for number in range(8):
            starts = now + 0.05 + rng.uniform(0, 0.002, MEMBERS)
            for member, longer in (late or {}).items():
                starts[member] += longer[number % 2]
            end = starts.max() + 0.02
            rows += [
                (starts[a], end + rng.uniform(0, 0.001) - starts[a], a, b, int(rng.lognormal(0, 0.3) * 3e7))
                for a in range(MEMBERS)
                for b in range(MEMBERS)
                if a != b and a // GROUP == b // GROUP
            ]
            now = end + 0.001
        now += 0.03
        for size in (40_000_000, 60_000_000):
            rows += [(now, 0.04, a, RING[(a + 1) % MEMBERS], size) for a in RING]
            now += 0.05
        rows += [(now, 0.03, a, (a + GROUP) % MEMBERS, 25_000_000) for a in range(MEMBERS)]
        now += 0.08
    start, lasting, src, dst, size = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "start_time": BEGIN_S + np.array(start),
            "duration": lasting,
            "src": [f"10.0.0.{1 + a}" for a in src],
            "dst": [f"10.0.0.{1 + b}" for b in dst],
            "bytes": size,
        }
    ).sort("start_time")


def report_of(table: pl.DataFrame, work: Path) -> dict[str, Any]:
    path = work / "flows.csv"
    table.write_csv(path)
    with path.open("rb") as stream:
        part = parse_flow(stream, "flows.csv", ParseHints(time_zone="UTC"), work / "work")
    return flows_json([part], inventory=[])


def test_what_two_machines_exchange_of_their_experts_is_no_pipeline(tmp_path: Path) -> None:
    (job,) = report_of(records(), tmp_path)["jobs"]
    between = [pair["type"] for pair in job["pairs"] if _groups_differ(pair["a"], pair["b"])]
    assert Counter(between) == {"DP": 6}  # two hops of the ring, four pairs that share experts
    assert job["parallelism"]["pp"] == 1


@pytest.mark.parametrize(
    ("late", "named"),
    [
        ({}, []),
        ({2: (0.02, 0.02)}, ["10.0.0.3"]),
        ({2: (0.02, 0.02), 5: (0.02, 0.02)}, ["10.0.0.3", "10.0.0.6"]),
        ({2: (0.0, 0.04)}, []),  # its experts got more tokens: that is uneven work
    ],
)
def test_a_member_that_computes_longer_before_each_exchange_is_named(
    late: dict[int, tuple[float, float]], named: list[str], tmp_path: Path
) -> None:
    (job,) = report_of(records(late), tmp_path)["jobs"]
    accused = [row for row in job["diagnoses"] if "experts" in row["reason"]]
    assert sorted(name for row in accused for name in row["culprits"]) == named
    assert all("in every step" in row["reason"] for row in accused)


def _groups_differ(one: str, other: str) -> bool:
    first, second = ((int(name.rsplit(".", 1)[1]) - 1) // GROUP for name in (one, other))
    return first != second


def test_what_two_members_of_an_all_to_all_exchange_is_no_pipeline() -> None:
    pairs = list(itertools.combinations(range(4), 2))
    a, b = (np.array(side) for side in zip(*pairs, (3, 4), strict=True))
    shown = [EP, EP, EP, EP, EP, PP, PP]
    assert _within_all_to_alls(a, b, shown, 5) == [EP] * 6 + [PP]
