"""What is slow in the whole capture is found by its peers, and not by what waits."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.capture import Capture, Place
from diagnosis.kinds.flows.jobs.parallelism import Layout
from diagnosis.kinds.flows.slow.lasting_slow import find_lasting_slowness
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from tests.diagnosis.kinds.flows.helpers import analysed, job_of
from tests.diagnosis.kinds.flows.simulate import Job, Slow, simulate

REPLICAS, STAGES, USUAL_S, STEP_S = 5, 4, 0.01, 0.5
#: The pairs of neighbours in each replica's pipeline; member = replica · stages + stage.
UNITS = [(r * STAGES + s, r * STAGES + s + 1) for r in range(REPLICAS) for s in range(STAGES - 1)]
PORT = 2 * STAGES + 1


def found(
    factors: dict[tuple[int, int], float],
    seconds: float = USUAL_S,
    unseen: Collection[tuple[int, int]] = (),
) -> list[tuple[bool, SlowReport]]:
    """The findings if what these senders send to these receivers takes so many times as long; each replica below a leaf
    of its own but for stage 0, which is below the leaf of the replica before. ``unseen``: directions without records.
    """
    edges = STEP_S * np.arange(31.0)
    steps = Steps(edges[:-1], edges[1:], edges, np.ones(30), "DP", "gaps")
    rows = [
        (unit, src, 1e8, seconds * factors.get((src, dst), 1.0), 60)
        for unit, pair in enumerate(UNITS)
        for src, dst in itertools.permutations(pair)
        if (src, dst) not in unseen
    ]
    schema = {"unit": pl.Int64, "src": pl.Int32, "size": pl.Float64, "seconds": pl.Float64, "records": pl.UInt32}
    cells = pl.DataFrame({"unit": range(len(UNITS)), "first": [0.0] * len(UNITS), "last": [99.0] * len(UNITS)})
    usual = pl.DataFrame(rows, schema, orient="row")
    nowhere = [frozenset[str]()] * len(UNITS)
    transfers = Transfers(cells, pl.DataFrame(), usual, [frozenset(pair) for pair in UNITS], nowhere)
    places = {m: Place(f"n{m}", "", f"leaf{(m + STAGES - 1) // STAGES}") for m in range(REPLICAS * STAGES)}
    names = [f"10.0.0.{m}" for m in range(REPLICAS * STAGES)]
    capture = Capture(cast("Any", None), names, [], 0.0, places=places)
    return find_lasting_slowness(transfers, steps, Layout(None, STAGES, REPLICAS), STEP_S, capture)


def both_ways(factor: float, *members: int) -> dict[tuple[int, int], float]:
    pairs = [pair for pair in UNITS if set(pair) & set(members)]
    return {way: factor for pair in pairs for way in itertools.permutations(pair)}


def test_a_port_that_is_slow_from_the_first_step_to_the_last_is_named() -> None:
    ((is_switch, slow),) = found(both_ways(2.0, PORT))
    assert (is_switch, slow.culprits, slow.nodes) == (False, [PORT], [f"n{PORT}"])
    assert "2.00 times as long as others of its kind in the whole capture" in slow.reason


def test_the_uplinks_of_a_leaf_that_are_slow_from_the_first_step_to_the_last_are_named() -> None:
    of_leaf_2 = {(4, 5): 3.0, (5, 4): 3.0, (8, 9): 3.0, (9, 8): 3.0}
    ((is_switch, slow),) = found(of_leaf_2)
    assert (is_switch, slow.candidates) == (True, ["leaf2"])


@pytest.mark.parametrize(
    "factors",
    [
        {(PORT - 1, PORT): 3.0, (PORT + 1, PORT): 3.0},  # what is sent to a busy stage waits
        both_ways(1.2, PORT),  # pairs differ a little
        both_ways(3.0, *range(0, REPLICAS * STAGES, 2)),  # most are slow: then they are the usual
        {(0, 1): 3.0, (1, 0): 3.0},  # one pair has two ends
    ],
)
def test_nobody_is_named_for_waiting_or_where_no_place_is_the_common_one(
    factors: dict[tuple[int, int], float],
) -> None:
    assert found(factors) == []


def test_nobody_is_named_by_pairs_of_which_only_one_direction_is_seen() -> None:
    """What is sent to a busy stage waits: what that stage sends would tell."""
    unseen = [(PORT, PORT - 1), (PORT, PORT + 1)]
    assert found(both_ways(3.0, PORT), unseen=unseen) == []


def test_nobody_is_named_for_what_costs_a_step_nothing_or_is_finer_than_the_stamps() -> None:
    assert found(both_ways(2.0, PORT), seconds=0.0001) == []


def test_a_port_that_is_slow_all_the_time_is_named_from_its_records(tmp_path: Path) -> None:
    slow = Slow("nic", 0, 99, 4.0, dp=2, pp=1)
    given = Job(tp=1, pp=3, dp=4, gpus=1, microbatches=6, steps=16, activation=80_000_000, slow=(slow,))
    capture = simulate(given)
    found = job_of(analysed([capture], tmp_path), capture)["diagnoses"]
    named = [row["culprits"] for row in found if "others of its kind" in row["reason"]]
    assert [names[0] for names in named] == [given.address(given.rank(0, 2, 1))]
