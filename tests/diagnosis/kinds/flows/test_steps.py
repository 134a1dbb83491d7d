"""Boundaries of steps that pauses alone do not show."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.kinds.flows.capture.capture import Capture, Flows
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.jobs.pairs import Pairs
from diagnosis.kinds.flows.layout.clock_offsets import correct_clocks
from diagnosis.kinds.flows.steps.chain import cut_by_bytes
from diagnosis.kinds.flows.steps.segment import CERTAIN_UNEVEN, Cut, _cut_by_gaps, bursts_of, cut_by_gaps, judge
from diagnosis.kinds.flows.steps.steps import _best_cut, _cut_at_layers, find_steps

STEPS = 12


def test_if_all_records_divide_the_bytes_much_more_evenly_the_longest_ones_are_transfers_that_waited() -> None:
    """Of every third step, one transfer of a size of its own waits."""
    steps = 80
    start = (np.arange(steps)[:, None] * 1.5 + np.arange(9) * 0.05).ravel()
    end, size = start + 0.04, np.full(len(start), 1e6)
    own = np.arange(8, len(start), 9)
    size[own] = 1e5 + np.arange(steps)
    end[own[::3]] += 0.4
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    flows = Flows(start, end, ids, ids + 1, size, ids, ids, no, no)
    plain, cut = _cut_by_gaps(bursts_of(flows, True)), cut_by_gaps(flows, True)
    assert plain is not None and cut is not None
    assert plain.uneven_bytes > CERTAIN_UNEVEN > 100 * cut.uneven_bytes
    assert cut.begin == pytest.approx(1.5 * np.arange(1, steps))
    assert cut.stop[2] == pytest.approx(start[own[2]] + 0.04) and cut.stop[3] == pytest.approx(start[own[3]] + 0.44)


def layers(steps: int, *, merged: float) -> Flows:
    """Steps of ten bursts of three sizes; the pauses between bursts, and between steps, are alike and vary. Of the
    pauses, this share is missing: the bursts around it overlap.
    """
    dice = np.random.default_rng(5)
    sizes = np.tile([9.0, 3.5, 3.5, 3.5, 3.5, 7.0, 7.0, 7.0, 7.0, 20.0], steps) * 1e5
    start = np.cumsum(np.exp(dice.normal(-4.0, 0.4, len(sizes))) + 0.01)
    end = start + 0.01
    late = dice.random(len(start)) < merged
    end[:-1] = np.where(late[:-1], start[1:] + 0.001, end[:-1])
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    return Flows(start, end, ids, ids + 1, sizes, ids, ids, no, no)


@pytest.mark.parametrize(("merged", "found"), [(0.0, 59), (0.15, 50)])
def test_steps_whose_pauses_are_all_alike_are_found_where_the_places_of_the_pauses_repeat(
    merged: float, found: int
) -> None:
    cut = cut_by_bytes(layers(60, merged=merged), True)
    assert cut is not None
    assert found <= len(cut.stop) <= 61
    assert cut.odd_share < 0.1


def test_pauses_at_places_that_never_repeat_make_no_steps() -> None:
    flows = layers(60, merged=0.0)
    flows.size[:] = np.random.default_rng(6).lognormal(13.0, 1.0, len(flows))
    assert cut_by_bytes(flows, True) is None


def sharded(*, uneven: int = 0) -> tuple[Flows, Cut]:
    """Twelve steps of five layers with long pauses between them. A step ends in a sixth part, at a pause that is
    shorter. The cut has all long pauses. ``uneven``: records of one step are larger.
    """
    one = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.53])  # the last two: the end of a step, and what begins the next
    start = (np.arange(STEPS)[:, None] * 0.6 + one).ravel()
    size = np.where(np.arange(len(start)) % 7 > 4, 0.8e6, 1e6)
    size[7 * 6 : 7 * 6 + uneven] *= 1.5
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    flows = Flows(start, start + 0.01, ids, ids + 1, size, ids, ids, no, no)
    used = bursts_of(flows, True)
    stops, begins = used.gaps
    long = begins - stops > 0.03
    return flows, judge(used, stops[long], begins[long], "bytes")


def layered(flows: Flows, cut: Cut) -> Cut | None:
    capture = Capture(flows, ["a", "b"], [], 0.0, resolution_s=1e-6, has_bytes=True, notes=[])
    return _cut_at_layers(flows, cut, capture)


def test_parts_that_are_layers_are_joined_to_steps_that_end_in_the_part_that_differs() -> None:
    flows, cut = sharded()
    assert len(cut.stop) == 6 * STEPS - 1
    whole = layered(flows, cut)
    assert whole is not None
    assert whole.begin == pytest.approx(np.arange(1, STEPS) * 0.6 - 0.07)
    assert whole.stop == pytest.approx(np.arange(1, STEPS) * 0.6 - 0.09)


def test_parts_that_differ_at_other_distances_are_no_layers() -> None:
    flows, cut = sharded(uneven=3)
    assert layered(flows, cut) is None


def turns(*sizes: float) -> Flows:
    """Three exchanges of these sizes in each of 20 steps, with equal pauses around the last one."""
    start = (np.arange(20)[:, None] * 0.5 + np.array([0.0, 0.05, 0.275])).ravel()
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    return Flows(start, start + 0.02, ids, ids + 1, np.tile(sizes, 20), ids, ids, no, no)


def test_parts_that_take_turns_are_half_a_step_each() -> None:
    cut = cut_by_gaps(turns(30e6, 31e6, 56e6), has_bytes=True)
    assert cut is not None
    assert len(cut.stop) in (19, 20)
    assert np.allclose(np.diff(cut.begin), 0.5)


def test_parts_of_equal_bytes_do_not_take_turns() -> None:
    cut = cut_by_gaps(turns(28e6, 28e6, 56e6), has_bytes=True)
    assert cut is not None
    assert len(cut.stop) > 19


def test_pauses_after_groups_of_steps_hide_no_steps_whose_records_are_partly_lost() -> None:
    starts = [step * 0.3 + step // 8 * 1.2 for step in range(30)]
    start = np.concatenate([at + np.array([0.0, 0.05, 0.1]) for at in starts])
    size = np.tile([90e6, 91e6, 92e6], 30)
    size[np.random.default_rng(1).random(90) < 0.1] -= 9e6
    size[50] -= 30e6  # of several records that begin together, one is lost
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    flows = Flows(start, start + 0.03, ids, ids + 1, size, ids, ids, no, no)
    cut = _best_cut(flows, Capture(flows, ["a", "b"], [], 0.0))
    assert cut is not None
    assert len(cut.stop) >= 28


def test_pairs_that_carry_only_what_experts_exchange_have_no_steps_and_no_offsets() -> None:
    flows = turns(56e6, 56e6, 56e6)
    row, zero = np.zeros(1, dtype=np.int64), np.zeros(1)
    pairs = Pairs(row, row + 1, ["DP"], row, zero, row + 60, zero, np.array([56e6]))
    job, capture = JobFlows(np.array([0, 1]), flows), Capture(flows, ["a", "b"], [("leaf",)], 0.0)
    assert find_steps(job, pairs, capture) is None
    assert correct_clocks(job, pairs, capture) == (job, [])
