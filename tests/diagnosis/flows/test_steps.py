"""Boundaries of steps that pauses alone do not show."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.flows.capture import Capture, Flows
from diagnosis.flows.segment import Cut
from diagnosis.flows.steps import _filled, _moved

STEPS = 12


def traffic(late: int) -> Flows:
    """Ten records a step, a pause of .5 s after each; of step ``late``, three begin after its pause."""
    start = np.concatenate([k + np.arange(10) * 0.05 for k in range(STEPS)])
    start[late * 10 + 7 : late * 10 + 10] = late + 1 + np.array([0.001, 0.002, 0.003])
    start = np.sort(start)
    ids, no = np.zeros(len(start), dtype=np.int32), np.zeros(len(start), dtype=bool)
    return Flows(start, start + 0.04, ids, ids + 1, np.full(len(start), 1e6), ids, ids, no, no)


def cut_without(*missing: int) -> Cut:
    at = np.array([k for k in range(1, STEPS) if k not in missing], dtype=float)
    return Cut(stop=at - 0.51, begin=at, uneven_bytes=0.001, uneven_time=0.1, odd=0.08, outside=0.0, how="bytes")


def filled(flows: Flows, cut: Cut) -> Cut:
    capture = Capture(flows, ["a", "b"], [], 0.0, resolution_s=1e-6, has_bytes=True, notes=[])
    return _filled(flows, cut, _moved(flows, cut, capture), capture)


@pytest.mark.parametrize("missing", [(5,), (5, 6), ()])
def test_boundaries_missing_among_whole_steps_are_found_though_records_are_late(missing: tuple[int, ...]) -> None:
    assert filled(traffic(late=4), cut_without(*missing)).begin == pytest.approx(np.arange(1.0, STEPS))


def test_a_part_that_is_no_whole_number_of_steps_is_left_as_it_is() -> None:
    flows = traffic(late=4)
    flows.size[55:60] = 3e6
    cut = cut_without(6)
    assert filled(flows, cut) is cut


def test_uneven_parts_are_left_as_they_are() -> None:
    cut = cut_without(6)
    cut = Cut(cut.stop, cut.begin, 0.2, cut.uneven_time, cut.odd, cut.outside, cut.how)
    assert filled(traffic(late=4), cut) is cut
