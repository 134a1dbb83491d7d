"""Stated sizes decide the types of pairs where these form the stated grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diagnosis.kinds.flows.capture.capture import Flows
from diagnosis.kinds.flows.jobs.pairs import DP, OTHER, PP, Pairs
from diagnosis.kinds.flows.layout.grid import type_as_stated

#: Two stages of four replicas: rings 0-3 and 4-7, and the pipelines 0-4, 1-5, 2-6, 3-7.
RINGS = [(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (6, 7), (4, 7)]
PIPES = [(0, 4), (1, 5), (2, 6), (3, 7)]
STATED = {"tp": 1, "pp": 2, "dp": 4, "ranks": 8}


def job(types: dict[tuple[int, int], str], *, pipes: int = 40, ring_bytes: float = 5e6) -> tuple[Pairs, Flows]:
    """The pairs with the types that sizes and times gave them, and their transfers: ``pipes`` small ones on each pair
    of a pipeline, twenty of ``ring_bytes`` on each of a ring."""
    every = sorted(RINGS + PIPES)
    a, b = np.array(every, dtype=np.int64).T
    often = np.array([pipes if pair in PIPES else 20 for pair in every])
    size = np.repeat(np.where([pair in PIPES for pair in every], 5e4, ring_bytes), often)
    none, start = np.zeros(len(every)), np.arange(often.sum(), dtype=float)
    flags, small = np.zeros(len(start), dtype=bool), np.zeros(len(start), dtype=np.int32)
    src, dst = (np.repeat(end, often).astype(np.int32) for end in (a, b))
    kinds = [types.get(pair, PP if pair in PIPES else DP) for pair in every]
    pairs = Pairs(a, b, kinds, none.astype(np.int64), none, often, none, none)
    return pairs, Flows(start, start + 0.1, src, dst, size, small, small, flags, flags)


def told(pairs: Pairs, flows: Flows, **stated: int) -> dict[tuple[int, int], str]:
    types = type_as_stated(pairs, flows, 8, {**STATED, **stated}).type
    return dict(zip(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True), types, strict=True))


WANTED = dict.fromkeys(RINGS, DP) | dict.fromkeys(PIPES, PP)


@pytest.mark.parametrize("wrong", [{(0, 4): DP}, {(0, 4): DP, (4, 5): PP}, dict.fromkeys(PIPES, DP)])
def test_pairs_of_the_wrong_type_follow_the_stated_sizes_if_they_form_the_grid(
    wrong: dict[tuple[int, int], str],
) -> None:
    assert told(*job(wrong)) == WANTED


def test_bytes_decide_where_all_pairs_exchange_about_as_often() -> None:
    assert told(*job({(0, 4): DP}, pipes=20)) == WANTED


def test_types_that_form_the_stated_grid_stay() -> None:
    pairs, flows = job({})
    assert type_as_stated(pairs, flows, 8, STATED).type == pairs.type


@pytest.mark.parametrize("sizes", [{"pp": 4, "dp": 2}, {"pp": 2, "dp": 2, "ranks": 4}, {"pp": 8, "dp": 1}])
def test_sizes_that_no_grid_of_the_pairs_has_change_nothing(sizes: dict[str, int]) -> None:
    pairs, flows = job({(0, 4): DP})
    assert type_as_stated(pairs, flows, 8, {**STATED, **sizes}).type == pairs.type


def test_pairs_that_differ_neither_in_number_nor_in_bytes_stay() -> None:
    pairs, flows = job({(0, 4): DP}, pipes=20, ring_bytes=5e4)
    assert type_as_stated(pairs, flows, 8, STATED).type == pairs.type


def test_tensor_ranks_are_the_pairs_that_exchange_often() -> None:
    pairs, flows = job(dict.fromkeys(PIPES, DP))
    assert told(pairs, flows, pp=1, tp=2) == WANTED | dict.fromkeys(PIPES, OTHER)


def test_experts_and_other_traffic_keep_their_types() -> None:
    pairs, flows = job({(0, 4): DP})
    types = ["EP" if (a, b) == (3, 7) else t for a, b, t in zip(pairs.a, pairs.b, pairs.type, strict=True)]
    assert told(replace(pairs, type=types), flows)[3, 7] == "EP"
