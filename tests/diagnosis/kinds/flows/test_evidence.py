"""What decides between readings of the same traffic: evenness, weight, frequency, who waits for whom."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows.capture.capture import Flows
from diagnosis.kinds.flows.layout.stars import split_stars
from diagnosis.kinds.flows.slow.slowness import gather_spans
from diagnosis.kinds.flows.steps.segment import Cut
from diagnosis.kinds.flows.steps.steps import _finest_cut
from tests.diagnosis.kinds.flows.helpers import analysed, job_of, wrong_pairs
from tests.diagnosis.kinds.flows.simulate import Job, noisy, simulate


def cut(parts: int, uneven: float) -> Cut:
    stops = np.arange(float(parts))
    return Cut(stops, stops + 0.1, uneven, 0.0, 0.0, 0.0, f"{parts}")


@pytest.mark.parametrize(
    ("cuts", "chosen"),
    [
        ([cut(68, 0.0425), cut(30, 0.0)], 30),  # bytes that agree to the last one leave nothing to chance
        ([cut(3, 0.099), cut(8, 0.013), cut(38, 0.030)], 38),  # five steps in one are more even than one
        ([cut(40, 0.02), cut(20, 0.014)], 40),
        ([cut(10, 0.0104), cut(26, 0.053)], 26),  # boundaries that slip by a burst
        ([cut(40, 0.003), cut(20, 0.0)], 40),
        ([cut(48, 0.0196), cut(35, 0.0049)], 35),  # four parts in three steps: they divide no step
    ],
    ids=["exact", "scatter of one step", "half as many", "slips", "both exact", "no parts"],
)
def test_the_finest_of_the_even_cuts_is_taken(cuts: list[Cut], chosen: int) -> None:
    assert len(_finest_cut(cuts).stop) == chosen


@pytest.mark.parametrize("loss", [0.0, 0.1], ids=["clean", "lossy"])
def test_experts_of_uneven_load_are_distinguished_from_gradients(loss: float, tmp_path: Path) -> None:
    capture = simulate(Job(tp=1, dp=32, ep=16, steps=20))
    rng = np.random.default_rng(8)
    blurred = pl.Series(rng.lognormal(0, 0.5, capture.records.height))
    uneven = pl.col("bytes") == 4_194_304
    records = capture.records.with_columns(
        bytes=pl.when(uneven).then((pl.col("bytes") * blurred).cast(pl.Int64)).otherwise("bytes")
    )
    found = job_of(analysed([capture], tmp_path, noisy(records, loss=loss)), capture)
    rings = {
        p for p in capture.pairs if capture.pairs[p] == "EP" and p[0].rpartition(".")[0] == p[1].rpartition(".")[0]
    }
    wrong = [pair for pair, _, _ in wrong_pairs(found, capture) if pair not in rings]  # these carry gradients as well
    assert len(wrong) <= 0.02 * len(capture.pairs)
    assert {p["type"] for p in found["pairs"] if (p["a"], p["b"]) in rings} == {"DP"}


def test_stages_that_share_a_point_where_gradients_are_added_up_are_dealt_apart() -> None:
    rng = np.random.default_rng(2)
    sends = [(1.0 * t + 0.3 * (m // 4) + rng.uniform(0, 0.001), m, 8) for t in range(60) for m in range(8)]
    start, src, dst = (np.array(column) for column in zip(*sorted(sends), strict=True))
    none = np.zeros(len(sends), dtype=np.int32)
    flows = Flows(
        start,
        start + 0.1,
        src.astype(np.int32),
        dst.astype(np.int32),
        np.ones(len(sends)),
        none,
        none,
        none == 1,
        none == 1,
    )
    star, chains = np.arange(9), [np.array([m, m + 4]) for m in range(4)]
    groups = split_stars([star], np.arange(8), chains, flows)
    assert [g.tolist() for g in groups] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert split_stars([star[:8]], np.arange(8), chains, flows)[0].tolist() == list(range(8))  # a ring is no star
    assert len(split_stars([star], np.arange(8), [], flows)) == 1  # no pipeline: one group


def test_late_stages_of_one_pipeline_are_one_finding() -> None:
    spans = [(14, 22, 0), (14, 18, 1), (19, 22, 1), (15, 17, 2), (30, 35, 1), (15, 18, 5)]
    replica = [0, 0, 0, 1, 1, -1]
    assert gather_spans(spans, replica) == [(14, 22, [0, 1, 2]), (30, 35, [1]), (15, 18, [5])]
