"""The layout that a job's own words state, against the one that its flows show."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.evidence.flow_findings import Contradiction
from diagnosis.kinds.flows.capture.capture import Flows
from diagnosis.kinds.flows.layout.parallelism import _tensor_ranks
from diagnosis.kinds.flows.layout.stated import (
    StatedLayout,
    differing_sizes,
    machines_of,
    may_be_stated,
    statement_of,
)
from diagnosis.kinds.flows.tell.contradictions import compare_stated, contradiction
from diagnosis.kinds.flows.tell.report_rows import FlowJobRow, FlowReport

EIGHT = {"tp": 1, "pp": 2, "dp": 4, "ranks": 8}


def test_equal_sizes_and_unknown_ones_are_no_disagreement() -> None:
    assert differing_sizes({"pp": 2, "tp": 8}, {"tp": None, "pp": 2, "dp": 4}) == []
    assert differing_sizes({}, {"tp": 8, "pp": 2, "dp": 4}) == []
    assert differing_sizes(EIGHT, {"tp": 1, "pp": 2, "dp": 4}, 8) == []


def test_every_size_that_differs_is_named() -> None:
    assert differing_sizes(EIGHT, {"tp": 1, "pp": 4, "dp": 2}, 8) == ["pp", "dp"]


@pytest.mark.parametrize(("seen", "members"), [({"tp": 1, "pp": 1, "dp": 4}, 4), ({"tp": 1, "pp": 1, "dp": 2}, 2)])
def test_ranks_behind_one_address_make_groups_smaller_and_no_disagreement(seen: dict[str, int], members: int) -> None:
    assert differing_sizes({"tp": 1, "dp": 8, "pp": 1, "ranks": 8}, seen, members) == []
    assert differing_sizes({"tp": 2, "dp": 4, "pp": 1, "ranks": 8}, {"tp": 1, "pp": 1, "dp": 4}, 4) == []


def test_a_capture_of_some_machines_says_nothing_about_the_size_of_the_gradients_groups() -> None:
    assert differing_sizes({"dp": 4, "ranks": 8}, {"tp": None, "pp": 1, "dp": 3}, 3) == []
    assert differing_sizes({"dp": 4}, {"tp": None, "pp": 1, "dp": 3}, 3) == []


def test_gradients_may_be_summed_over_data_and_context_ranks_together() -> None:
    assert may_be_stated({"dp": 2, "cp": 4}, "dp", 8, 8)
    assert not may_be_stated({"dp": 2}, "dp", 8, 8)


def _job(members: list[str], nodes: list[str], **sizes: int) -> FlowJobRow:
    parallelism: dict[str, int | None] = {"tp": 1, "pp": 1, "dp": 1, **sizes}
    return FlowJobRow("flows-1", members, {}, nodes, parallelism, {}, [], [], [], {}, [])


def test_a_contradiction_is_a_sentence_with_both_sides() -> None:
    report = FlowReport(jobs=[_job(["a", "b"], [], pp=4)])
    compare_stated(report, [StatedLayout({"pp": 2, "tp": 1})], {})
    assert report.jobs[0].apart == Contradiction("pp 2", "pp 4")
    assert report.limits == ["The job states pp 2; its flows show pp 4. One of them is not of this job."]


def test_each_of_several_jobs_is_compared_with_its_own_description() -> None:
    small, large = _job(["10.0.0.1", "10.0.0.2"], ["a", "b"], pp=2), _job(["10.0.0.3"] * 4, ["c", "d"], dp=4)
    report = FlowReport(jobs=[large, small])
    places = frozenset({"a", "b", "10.0.0.1"}), frozenset({"c", "d"})
    compare_stated(report, [StatedLayout({"pp": 4}, places=places[0]), StatedLayout({"pp": 1}, places=places[1])], {})
    assert (small.stated, large.stated) == ({"pp": 4}, {"pp": 1})
    assert len(report.limits) == 1


def test_a_statement_without_machines_is_about_the_largest_job_alone() -> None:
    one = StatedLayout({"pp": 2})
    assert statement_of([one], ["a"], is_largest=True) is one
    assert statement_of([one], ["a"], is_largest=False) is None


def test_groups_of_the_stated_size_with_other_members_are_a_contradiction() -> None:
    home = dict(enumerate("abcd"))
    job = _job(["1", "2", "3", "4"], list("abcd"), pp=2, dp=2)
    job.groups = {"pp": [["1", "2"], ["3", "4"]]}
    node_of = dict(zip("1234", "abcd", strict=True))
    stated = StatedLayout({"pp": 2, "dp": 2, "tp": 1}, 4, {"pp": machines_of([(0, 2), (1, 3)], home)})
    assert contradiction(stated, job, node_of) == Contradiction("the pp groups (a c), (b d)", "(a b), (c d)")
    same = StatedLayout({"pp": 2}, 4, {"pp": machines_of([(0, 1), (2, 3)], home)})
    assert contradiction(same, job, node_of) is None


def test_groups_inside_a_machine_or_on_unknown_machines_are_not_compared() -> None:
    assert machines_of([(0, 1), (2, 3)], {0: "a", 1: "a", 2: "b", 3: "b"}) == []
    assert machines_of([(0, 1)], {0: "a"}) == []


@pytest.mark.parametrize(("size", "groups"), [(0, 1), (4, 2), (8, 1)])
def test_a_stated_size_decides_whether_rings_on_the_same_machines_are_one_group(size: int, groups: int) -> None:
    none = np.zeros(0)
    small, places, no = none.astype(np.int32), none.astype(np.int64), none.astype(bool)
    flows = Flows(none, none, small, small, none, small, small, no, no)
    how: list[str] = []
    found = _tensor_ranks(
        [[0, 1]], [4, 4], [places, places], flows, ring_of=places, fine=False, how=how, agrees=lambda n: n == size
    )
    assert found == groups
    assert ("the job states groups of this size" in how[0]) == bool(size)
