"""Which of the findings about slow stretches are reported, and with what names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.slow.stragglers import THRESHOLDS as THRESHOLDS_OF_ANSWERS
from diagnosis.kinds.flows.slow.stragglers import (
    StragglerResult,
    Stretch,
    _smallest_set,
    is_judged,
    join_findings,
    join_stretches,
    stretches,
)
from diagnosis.kinds.flows.steps.steps import Steps


def paced(*seconds: float) -> Steps:
    edges = np.concatenate([[0.0], np.cumsum(seconds)])
    return Steps(edges[:-1], edges[1:], edges, np.ones(len(seconds)), "dp", "gaps")


def test_an_occasional_slow_step_is_judged_only_if_the_job_stood_still() -> None:
    steps = paced(1.0, 1.5, 1.5, 1.5, 1.0, 6.0, 1.0)
    assert is_judged(Stretch((1, 2, 3)), steps, 1.0)
    assert not is_judged(Stretch((1, 2)), steps, 1.0)
    assert is_judged(Stretch((5,)), steps, 1.0)
    assert is_judged(Stretch((5,)), steps, 1.5)
    assert not is_judged(Stretch((5,)), steps, 1.51)


def test_lasting_steps_that_touch_a_stretch_at_its_first_or_last_step_overlap_it() -> None:
    slow = Stretch((4, 5, 6))
    for lasting in ((6, 7, 8), (2, 3, 4), (5,), (2, 3, 4, 5)):
        assert join_stretches([slow], [lasting]) == [slow], lasting
    assert join_stretches([slow], [(4, 5, 6)]) == [slow]
    assert join_stretches([slow], [(7, 8)]) == [slow, Stretch((7, 8))]
    assert join_stretches([slow], [(2, 3)]) == [Stretch((2, 3)), slow]
    assert join_stretches([], [(4, 5), (5, 6), (6, 7)]) == [Stretch((4, 5)), Stretch((6, 7))]


def group(t0: float, t1: float, *nodes: str, **more: object) -> SlowReport:
    return SlowReport("slow_group", t0, t1, "", culprits=[1, 2], nodes=list(nodes), **more)  # type: ignore[arg-type]


def joined(known: list[SlowReport], *found: SlowReport) -> list[SlowReport]:
    return join_findings(known, StragglerResult(list(found), shows_turns=False))


def test_a_finding_that_names_the_same_stays_and_another_of_its_time_goes() -> None:
    same, other, later = group(2.0, 9.0, "a"), group(2.0, 9.0, "b", "c"), group(20.0, 29.0, "b", "c")
    assert joined([same, other, later], group(2.0, 9.0, "a", confidence=0.99)) == [same, later]
    linked = group(2.0, 9.0, "a", link="leaf0-leaf1")
    assert joined([linked], group(2.0, 9.0, "a", confidence=0.99))[0].link == ""


def test_of_equal_confidence_the_finding_that_names_fewer_stays() -> None:
    one, two, three = (group(2.0, 9.0, *names, confidence=0.8) for names in ("a", "bc", "def"))
    assert joined([two], one) == [one]
    assert joined([one], two) == [one]
    assert joined([two], replace(three, confidence=0.81)) == [replace(three, confidence=0.81)]
    assert joined([one], replace(one, nodes=["b"])) == [one]
    assert joined([one], SlowReport("slow_group", 2.0, 9.0, "", confidence=0.8)) == [one]


def test_a_slow_step_of_the_same_time_is_no_other_answer() -> None:
    step, found = SlowReport("slow_step", 2.0, 9.0, "", confidence=0.99), group(2.0, 9.0, "a", confidence=0.7)
    assert joined([step], found) == [step, found]


def test_findings_are_of_one_stretch_if_they_share_most_of_its_time_and_are_not_much_longer() -> None:
    found = group(100.0, 110.0, "a", confidence=0.99)
    shared = THRESHOLDS_OF_ANSWERS.common * 10.0
    longest = THRESHOLDS_OF_ANSWERS.longest * 10.0
    for known, is_replaced in (
        (group(100.0, 100.0 + shared + 0.1, "b"), True),
        (group(100.0, 100.0 + shared, "b"), False),
        (group(110.0 - shared - 0.1, 115.0, "b"), True),
        (group(100.0, 100.0 + longest, "b"), True),
        (group(100.0, 100.1 + longest, "b"), False),
    ):
        assert joined([known], found) == ([found] if is_replaced else [known, found])


def test_a_group_is_vague_only_without_a_measure_and_with_another_number_of_names_than_one() -> None:
    turns = StragglerResult([], shows_turns=True)
    kept = [
        group(2.0, 9.0, "a"),
        group(2.0, 9.0, "a", "b", measure="transfers"),
        SlowReport("slow_switch", 2.0, 9.0, "", candidates=["leaf0", "leaf1"]),
        SlowReport("slow_group", 2.0, 9.0, "", culprits=[3]),
    ]
    vague = [group(2.0, 9.0, "a", "b"), SlowReport("slow_group", 2.0, 9.0, "", culprits=[3, 4]), group(2.0, 9.0)]
    assert join_findings([*kept, *vague], turns) == kept


def test_nobody_is_reported_if_nobody_is_the_most_likely_or_the_set_is_large() -> None:
    limit = THRESHOLDS_OF_ANSWERS.nobody_p
    assert _smallest_set(np.array([1.0 - limit, 0.0, limit]), np.ones(2)) == []
    assert _smallest_set(np.array([0.9 - limit, 0.0, limit - 0.1 + 0.2]), np.ones(2)) == []
    assert [at for at, _ in _smallest_set(np.array([0.0, 0.9, 0.0, 0.1]), np.ones(3))] == [1]
    most = int(THRESHOLDS_OF_ANSWERS.set_size)
    even = np.append(np.full(most, 1.0 / most), np.zeros(20))
    assert len(_smallest_set(np.append(even, 0.0), np.ones(most + 20))) == most
    more = np.append(np.full(2 * most, 0.5 / most), np.zeros(20))
    assert _smallest_set(np.append(more, 0.0), np.ones(2 * most + 20)) == []


def test_a_candidate_of_several_names_counts_for_each_of_them() -> None:
    found = _smallest_set(np.array([0.5, 0.4, 0.0, 0.0, 0.1]), np.array([2.0, 1.0, 1.0, 1.0]))
    assert [at for at, _ in found] == [1, 0]


def test_a_stretch_with_a_usual_step_at_its_end_ends_before_it() -> None:
    slow = np.array([False, True, True, True, False, False, False, False])
    assert [one.steps for one in stretches(slow)] == [(1, 2, 3)]
    assert stretches(np.zeros(4, bool)) == []
    assert [one.steps for one in stretches(np.array([True, True]))] == [(0, 1)]
