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
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.lasting_slow import LastingSlowness, find_lasting_slowness
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.transfers import Transfers
from tests.diagnosis.kinds.flows.helpers import analysed, job_of
from tests.diagnosis.kinds.flows.simulate import Job, Slow, simulate

REPLICAS, STAGES, USUAL_S, STEP_S = 5, 4, 0.01, 0.5
#: The pairs of neighbours in each replica's pipeline; member = replica · stages + stage.
UNITS = [(r * STAGES + s, r * STAGES + s + 1) for r in range(REPLICAS) for s in range(STAGES - 1)]
PORT = 2 * STAGES + 1
EDGES = STEP_S * np.arange(31.0)
STEPS = Steps(EDGES[:-1], EDGES[1:], EDGES, np.ones(30), "DP", "gaps")
WAYS = {
    "unit": pl.Int32,
    "kind": pl.Enum(["DP", "PP", "EP"]),
    "src": pl.Int32,
    "dst": pl.Int32,
    "path": pl.Int32,
    "octave": pl.Int32,
    "seconds": pl.Float64,
    "fast": pl.Float64,
    "records": pl.UInt32,
}


def capture_of(places: dict[int, Place]) -> Capture:
    return Capture(cast("Any", None), [f"10.0.0.{m}" for m in range(REPLICAS * STAGES)], [], 0.0, places=places)


def judged(
    factors: dict[tuple[int, int], float],
    seconds: float = USUAL_S,
    unseen: Collection[tuple[int, int]] = (),
    kind: str = "PP",
    records: int = 60,
    leaves: int = STAGES,
) -> LastingSlowness:
    """What is found if what these senders send to these receivers takes so many times as long; each replica below a
    leaf of its own but for stage 0, which is below the leaf of the replica before. ``unseen``: directions without
    records.
    """
    rows = [
        (unit, kind, src, dst, -1, 26, seconds * factors.get((src, dst), 1.0), 1e8 / seconds, records)
        for unit, pair in enumerate(UNITS)
        for src, dst in itertools.permutations(pair)
        if (src, dst) not in unseen
    ]
    ways = pl.DataFrame(rows, WAYS, orient="row")
    slower = pl.Series([factors.get(way, 1.0) for way in ways.select("src", "dst").iter_rows()])
    cells = pl.DataFrame({"unit": range(len(UNITS)), "first": [0.0] * len(UNITS), "last": [99.0] * len(UNITS)})
    nowhere = [frozenset[str]()] * len(UNITS)
    ways = ways.with_columns(fast=pl.col("fast") / slower)
    transfers = Transfers(cells, pl.DataFrame(), ways, [frozenset(pair) for pair in UNITS], nowhere)
    places = {m: Place(f"n{m}", "", f"leaf{(m + STAGES - 1) // leaves}") for m in range(REPLICAS * STAGES)}
    layout = Layout(
        None, STAGES, REPLICAS, pp_groups=[np.arange(r * STAGES, (r + 1) * STAGES) for r in range(REPLICAS)]
    )
    return find_lasting_slowness(transfers, STEPS, layout, STEP_S, capture_of(places))


def found(*given: Any, **more: Any) -> list[tuple[bool, SlowReport]]:
    """The findings alone."""
    return judged(*given, **more).found


def late(*members: int) -> SlowReport:
    """Members that were late from the first step to the last."""
    nodes = [f"n{member}" for member in members]
    whole = SlowReport("slow_group", float(EDGES[0]), float(EDGES[-1]), "", nodes=nodes, culprits=[*members])
    whole.measure = "late"
    return whole


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


@pytest.mark.parametrize(("member", "is_explained"), [(PORT + 2, True), (PORT + 2 + STAGES, False), (PORT, False)])
def test_who_is_late_in_the_pipeline_of_a_slow_port_waits_for_it(member: int, is_explained: bool) -> None:
    slow = judged(both_ways(2.0, PORT))
    places = {m: Place(f"n{m}", "", "") for m in range(REPLICAS * STAGES)}
    assert slow.explains(late(member), STEPS, capture_of(places)) is is_explained


def test_two_machines_whose_transfers_to_each_other_alone_are_slow_have_a_slow_path() -> None:
    ((is_switch, slow),) = found({(1, 2): 3.0, (2, 1): 3.0}, seconds=0.02)
    assert (is_switch, slow.link, slow.nodes, slow.culprits) == (False, "n1-n2", [], [])
    assert "What they send to others did not" in slow.reason


def test_a_ring_of_which_all_hops_are_slow_alike_names_no_port() -> None:
    ring = both_ways(2.0, *range(STAGES))
    assert found(ring, kind="DP") == []


def test_members_that_wait_for_a_slow_port_are_not_late_themselves() -> None:
    lasting = judged(both_ways(2.0, PORT))
    whole = capture_of({m: Place(f"n{m}", "", "") for m in range(REPLICAS * STAGES)})
    assert lasting.explains(late(PORT + 1), STEPS, whole)
    assert not lasting.explains(late(PORT), STEPS, whole), "what is named is the same machine"
    assert not lasting.explains(late(0), STEPS, whole), "nothing of it is slow"


def test_who_alone_sends_far_is_not_late_by_its_own_work() -> None:
    lasting = judged({(1, 2): 3.0, (2, 1): 3.0}, records=10)
    whole = capture_of({m: Place(f"n{m}", "", "") for m in range(REPLICAS * STAGES)})
    assert lasting.found == [], "one pair that costs the job little accuses nothing"
    assert lasting.explains(late(1, 2), STEPS, whole)
    assert not lasting.explains(late(5), STEPS, whole)
    others_too = judged({**both_ways(3.0, 1), **both_ways(3.0, 13)})
    assert not others_too.explains(late(1), STEPS, whole), "another sends as far and is not late"


def test_the_order_of_rows_decides_nothing(tmp_path: Path) -> None:
    slow = Slow("nic", 0, 99, 4.0, dp=2, pp=1)
    capture = simulate(Job(tp=1, pp=3, dp=4, gpus=1, microbatches=6, steps=16, activation=80_000_000, slow=(slow,)))
    shuffled = [capture.records.sample(fraction=1.0, shuffle=True, seed=seed) for seed in (1, 2)]
    first, *others = (
        analysed([capture], tmp_path / str(number), rows) for number, rows in enumerate([capture.records, *shuffled])
    )
    for other in others:
        assert other["suspects"] == first["suspects"]
        assert other["diagnoses"] == first["diagnoses"]
        assert job_of(other, capture)["diagnoses"] == job_of(first, capture)["diagnoses"]
