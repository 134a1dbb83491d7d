"""Dual-phase replay: the two failing groups meet in one machine."""

from __future__ import annotations

import pytest

from triage.domain.replay import Plan, plan, verdict

MACHINES = [f"m{i}" for i in range(24)]


def test_the_papers_example_finds_machine_13():
    it = plan(MACHINES, pp=4, dp=6)
    assert (it.m, it.n, it.is_unique) == (4, 6, True)
    assert it.horizontal[3] == ["m12", "m13", "m14", "m15"]
    assert it.vertical[1] == ["m1", "m7", "m13", "m19"]
    assert verdict(it, [3], [1]) == (["m13"], "m13 is the only machine in both failing groups.")


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (3, 7), (4, 6), (5, 5), (8, 12)])
def test_every_machine_is_found_alone_as_long_as_m_is_at_most_n(m, n):
    it = Plan(tuple(map(str, range(m * n))), m, n)
    for x in range(m * n):
        h = next(i for i, g in enumerate(it.horizontal) if str(x) in g)
        v = next(i for i, g in enumerate(it.vertical) if str(x) in g)
        assert it.meet([h], [v]) == [str(x)]


def test_more_rows_than_residues_are_ambiguous_and_a_better_k_is_proposed():
    it = plan(MACHINES, pp=2, dp=12, k=6)
    assert not it.is_unique
    assert "k = 2 gives a unique answer" in it.notes[0]
    assert plan(MACHINES, pp=2, dp=12, k=2).is_unique


def test_each_phase_parts_all_machines():
    it = plan(MACHINES, pp=4)
    for groups in (it.horizontal, it.vertical):
        assert sorted(x for g in groups for x in g) == sorted(MACHINES)


def test_several_failing_groups_leave_the_product_set_and_none_says_what_that_means():
    it = plan(MACHINES, pp=4)
    found, told = verdict(it, [3, 0], [1])
    assert found == ["m1", "m13"]
    assert "is not unique" in told
    assert verdict(it, [], [1])[0] == []
    assert "did not show itself" in verdict(it, [], [1])[1]


def test_machines_that_do_not_fill_the_groups_are_reported():
    it = plan(MACHINES[:22], pp=4)
    assert "24 machines are planned for, 22 are listed" in it.notes[0]


@pytest.mark.parametrize(
    ("machines", "sizes", "why"),
    [
        (["a", "a"], {}, "twice"),
        ([], {}, "at least 1"),
        (MACHINES, {"pp": 0}, "at least 1"),
        (MACHINES, {"pp": 4, "dp": 6, "k": 4}, "divisor of 6"),
    ],
)
def test_plans_that_cannot_be_are_refused_with_the_numbers(machines, sizes, why):
    with pytest.raises(ValueError, match=why):
        plan(machines, **sizes)


def test_a_group_that_the_plan_does_not_have_is_refused():
    with pytest.raises(ValueError, match="no vertical group 9"):
        plan(MACHINES, pp=4).meet([0], [9])


def test_as_many_machines_a_group_as_residues_still_meet_in_one():
    it = plan(list("abcd"), pp=2, dp=2)
    assert (it.m, it.n, it.is_unique, it.notes) == (2, 2, True, ())
    assert {tuple(it.meet([h], [v])) for h in (0, 1) for v in (0, 1)} == {("a",), ("b",), ("c",), ("d",)}
