"""The wait-for graph: who waits for whom, and where the chains end."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.kinds.stacks.ranks.cluster import Group
from diagnosis.kinds.stacks.ranks.layout import Layout, build
from diagnosis.kinds.stacks.ranks.waitgraph import ChainEnds, blocking_ranks, components, find_chain_ends
from diagnosis.kinds.stacks.ranks.waits import COMM, HOST, LOCAL, Activity


def test_a_circle_is_one_component_and_who_waits_for_it_is_no_end():
    label, is_end = components([(0, 1), (1, 0), (2, 0), (2, 0)], 4)
    assert label[0] == label[1]
    assert len(set(label)) == 3
    assert [is_end[label[vertex]] for vertex in range(4)] == [True, True, False, True]


def test_a_path_of_fifty_thousand_ranks_needs_no_recursion():
    label, is_end = components([(i, i + 1) for i in range(49_999)], 50_000)
    assert is_end[label[49_999]]
    assert sum(is_end) == 1


PAIRS = build({"tp": 2, "dp": 4}, world_size=8, order="tp-dp")
STAGES = build({"tp": 1, "pp": 4, "dp": 2}, world_size=8, order="tp-dp-pp")  # stages (0, 2, 4, 6) and (1, 3, 5, 7)


def group(ranks: str, call: str, dim: str = "", to: str = "", kind: str = COMM, *, is_dominant: bool = False) -> Group:
    """Ranks as digits, which wait in one call."""
    return Group((call,), (), Activity(kind, call, dim, to), [int(rank) for rank in ranks], is_dominant)


def ends(*groups: Group, layout: Layout = STAGES, failed: Sequence[int] = ()) -> ChainEnds:
    """With all ranks as outliers."""
    ranks = [rank for one in groups for rank in one.ranks]
    return find_chain_ends(groups, layout, ranks, failed)


def test_a_pipeline_waits_for_the_stage_that_its_calls_name() -> None:
    last = group("67", "all_reduce", "dp")
    assert ends(group("012345", "recv", "pp", "next"), last).ranks == [6, 7]
    first = group("01", "all_reduce", "dp")
    assert ends(first, group("234567", "recv", "pp", "prev")).ranks == [0, 1]


def test_two_stages_that_wait_for_each_other_are_an_end_together() -> None:
    groups = [group("0123", "recv", "pp", "next"), group("45", "send", "pp", "prev"), group("67", "load", kind=HOST)]
    assert find_chain_ends(groups, STAGES, [2, 3, 4, 5], []).ranks == [2, 3, 4, 5]


def test_a_call_to_an_unknown_neighbour_waits_for_both() -> None:
    assert ends(group("0123", "send", "pp"), group("45", "all_reduce", "dp"), group("67", "send", "pp")).ranks == [4, 5]
    assert ends(group("01", "all_reduce", "dp"), group("234567", "send", "pp")).ranks == [0, 1]


def test_stages_wrap_around_and_a_single_stage_has_no_neighbour() -> None:
    assert ends(group("01", "all_reduce", "dp"), group("234567", "recv", "pp", "next")).ranks == [0, 1]
    alone = build({"tp": 2, "pp": 1, "dp": 4}, world_size=8, order="tp-dp-pp")
    assert ends(group("0123", "recv", "pp", "next"), layout=alone) == ChainEnds()
    assert ends(group("9", "recv", "pp", "next"), group("0", "all_reduce", "dp")) == ends(
        group("0", "all_reduce", "dp")
    )


def test_a_collective_waits_for_the_members_of_its_group_that_are_elsewhere() -> None:
    waiting = group("0", "all_reduce", "tp")
    assert ends(waiting, group("1", "gather", "dp"), layout=PAIRS).ranks == [1]
    rest = group("234567", "barrier", "tp")
    groups = [waiting, group("1", "load", kind=HOST), rest]
    assert find_chain_ends(groups, PAIRS, [0, 1], []).ranks == [1]


def test_ranks_that_are_all_in_one_call_wait_for_nobody() -> None:
    assert ends(group("01234567", "all_reduce", "tp"), layout=PAIRS) == ChainEnds()
    assert ends(group("01", "compute", kind=HOST), group("2", "load", kind=HOST), layout=PAIRS) == ChainEnds()


def test_a_call_of_unknown_dimension_that_whole_tensor_groups_reached_waits_for_nobody() -> None:
    whole = group("01", "all_reduce")
    part = group("0", "all_reduce")
    others = group("234567", "gather", "tp")
    assert ends(whole, others, layout=PAIRS) == ChainEnds()
    assert find_chain_ends([whole, others], PAIRS, [2], []) == ChainEnds()
    assert find_chain_ends([part, group("1", "load", kind=HOST), others], PAIRS, [0, 1], []).ranks == [1]
    halves = [group("0123", "a"), group("4567", "b")]
    assert ends(*halves, layout=build({"tp": 1, "dp": 8}, world_size=8, order="tp-dp")).ranks == []


def test_without_a_layout_a_call_waits_for_everybody_elsewhere() -> None:
    few = group("7", "load", kind=HOST)
    assert ends(group("0123456", "all_reduce", "tp"), few, layout=Layout()).ranks == [7]


def test_a_group_in_more_than_64_places_is_no_collective_with_a_missing_rank() -> None:
    def places(count: int) -> ChainEnds:
        waiting = [Group((f"call {rank}",), (), Activity(COMM, ""), [rank]) for rank in range(count - 1)]
        busy = Group(("load",), (), Activity(HOST, ""), [count - 1])
        return find_chain_ends([*waiting, busy], Layout(), range(count), [])

    assert places(64).ranks == [63]
    assert places(65) == ChainEnds()


def test_an_end_of_half_of_the_ranks_is_accused_and_a_larger_one_is_not() -> None:
    assert ends(group("0123", "recv", "pp", "next"), group("4567", "all_reduce", "dp")).ranks == [4, 5, 6, 7]
    assert ends(group("01", "recv", "pp", "next"), group("234567", "all_reduce", "dp")).ranks == []


def test_only_outliers_at_the_end_are_accused() -> None:
    groups = [group("012345", "recv", "pp", "next"), group("67", "all_reduce", "dp")]
    assert find_chain_ends(groups, STAGES, [7], []).ranks == [7]
    assert find_chain_ends(groups, STAGES, [], []).ranks == []


def test_a_minority_within_a_circle_of_waits_is_told_apart() -> None:
    layout = build({"tp": 8}, world_size=8, order="tp")
    many, few = group("012345", "reduce", "tp", is_dominant=True), group("67", "gather", "tp")
    assert ends(many, few, layout=layout).separate == [few]
    stage = group("67", "send", "pp")
    assert ends(many, stage, layout=layout).separate == []


def test_failed_dumps_in_the_group_of_an_end_are_named_instead_of_it() -> None:
    groups = [group("012345", "recv", "pp", "next"), group("6", "all_reduce", "dp")]
    assert ends(*groups, failed=[7]) == ChainEnds(unread=[7])
    even = [group("024", "recv", "pp", "next"), group("6", "all_reduce", "dp")]
    assert ends(*even, failed=[3]) == ChainEnds(ranks=[6]), "another group"
    pair = [group("0", "all_reduce", "tp"), group("2", "gather", "dp"), group("3", "load", kind=HOST)]
    assert ends(*pair, layout=PAIRS, failed=[1]).unread == []
    assert ends(group("0123456", "all_reduce"), group("7", "load", kind=HOST), layout=Layout(), failed=[8]).ranks == [7]


def test_who_blocks_a_tensor_group_is_who_is_not_in_its_collective() -> None:
    waiting, elsewhere = group("1", "all_reduce", "tp"), group("05", "load", kind=LOCAL)
    assert blocking_ranks([waiting, elsewhere], PAIRS, [0, 5]) == {0}
    assert blocking_ranks([group("14", "all_reduce"), elsewhere], PAIRS, [0, 5]) == {0, 5}
    assert blocking_ranks([group("14", "all_reduce", "dp"), elsewhere], PAIRS, [0, 5]) == set()
    assert blocking_ranks([group("14", "compute", kind=HOST), elsewhere], PAIRS, [0, 5]) == set()
    assert blocking_ranks([waiting, elsewhere], PAIRS, [5]) == set()
    assert blocking_ranks([waiting, elsewhere], Layout(), [0, 5]) == set()
