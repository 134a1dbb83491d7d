"""Whom one round accuses, of groups that are made already."""

from __future__ import annotations

import pytest

from diagnosis.kinds.stacks.blame.blame import Blame, blame
from diagnosis.kinds.stacks.ranks.cluster import Group
from diagnosis.kinds.stacks.ranks.layout import Layout, build
from diagnosis.kinds.stacks.ranks.waits import COMM, COMPUTE, DEVICE, HOST, LOCAL, NOTHING, Activity

PAIRS = build({"tp": 2, "dp": 4}, world_size=8, order="tp-dp")
STAGES = build({"tp": 1, "pp": 4, "dp": 2}, world_size=8, order="tp-dp-pp")


def group(kind: str, ranks: str, *, what: str = "", dim: str = "", is_dominant: bool = True, to: str = "") -> Group:
    """Ranks as digits, which are in one place."""
    activity = Activity(kind, what or f"in {kind}", dim, to, f"{kind} (train.py)")
    return Group((what or kind, ranks), (), activity, [int(rank) for rank in ranks], is_dominant)


def told(*groups: Group, layout: Layout | None = None, **known: object) -> Blame:
    return blame(groups, layout or Layout(), **known)  # type: ignore[arg-type]


def rule_and_ranks(*groups: Group, **known: object) -> tuple[str, tuple[int, ...]]:
    found = told(*groups, **known)  # type: ignore[arg-type]
    return found.rule, found.ranks


def test_no_rank_or_one_rank_is_compared_with_nobody() -> None:
    assert told().reason == "No rank's stack could be read."
    assert told(group(COMM, "3")).reason.startswith("Rank 3 is in comm of train.py. It is the only rank")
    assert (told().rule, told(group(COMM, "3")).rule) == ("too_few", "too_few")
    assert rule_and_ranks(group(COMM, "3"), missing=[4]) == ("missing", (4,))


def test_ranks_that_are_all_in_different_places_are_no_hang() -> None:
    three = [group(HOST, rank, what=f"in {rank}", is_dominant=False) for rank in "012"]
    found = told(*three)
    assert (found.rule, found.ranks) == ("all_differ", ())
    assert found.reason.startswith("All 3 ranks are in different places")
    assert told(*three[:2]).rule == "busy", "two ranks always differ"


def test_missing_ranks_are_accused_unless_too_many_are() -> None:
    waiting = group(COMM, "0123456")
    found = told(waiting, missing=[9, 7, 8], expected=10)
    assert (found.rule, found.ranks, found.outliers) == ("missing", (7, 8, 9), (7, 8, 9))
    assert set(found.scores.values()) == {0.85}
    assert set(found.reasons.values()) == {"was not dumped although its peers were"}
    assert found.reason.endswith("; meanwhile ranks 0-6 in comm wait for their peers.")
    assert rule_and_ranks(waiting, missing=[3, 7, 8, 9], expected=10) == ("all_equal", ())
    assert rule_and_ranks(waiting, missing=[7, 8, 9]) == ("missing", (7, 8, 9)), "no number of ranks is known"


def test_a_busy_group_is_accused_though_it_is_large_if_enough_others_wait() -> None:
    idle = group(NOTHING, "67")
    assert rule_and_ranks(group(HOST, "0123"), group(COMM, "45"), idle) == ("busy", (0, 1, 2, 3))
    assert told(group(HOST, "0123"), group(COMM, "4"), group(NOTHING, "567")).rule == "no_outlier"
    assert told(group(HOST, "01234"), group(COMM, "567")).rule == "no_outlier", "more than half is no outlier"


def test_code_of_the_model_is_accused_only_if_half_of_a_larger_job_waits() -> None:
    assert rule_and_ranks(group(COMPUTE, "0123"), group(COMM, "4567")) == ("busy", (0, 1, 2, 3))
    assert told(group(COMPUTE, "0123"), group(COMM, "456"), group(NOTHING, "7")).rule == "no_outlier"
    assert rule_and_ranks(group(COMPUTE, "01"), group(COMM, "2"), group(NOTHING, "3")) == ("busy", (0, 1))
    assert told(group(COMPUTE, "01"), group(COMM, "23"), group(NOTHING, "4")).rule == "no_outlier", "five are not few"
    assert rule_and_ranks(group(HOST, "01"), group(COMM, "23"), group(NOTHING, "4")) == ("busy", (0, 1))


def test_who_waits_for_its_own_gpu_is_accused_if_nobody_else_is() -> None:
    device, waiting = group(DEVICE, "567"), group(COMM, "01234")
    found = told(waiting, device)
    assert (found.rule, found.ranks, found.scores[5]) == ("device", (5, 6, 7), 0.72)
    assert found.reasons[5] == "in device of train.py, while its peers have gone on"
    assert rule_and_ranks(group(COMM, "0123"), device, group(NOTHING, "4")) == ("device", (5, 6, 7))
    assert told(group(COMM, "012"), device, group(NOTHING, "34")).rule == "no_outlier", "fewer than half wait"
    assert told(waiting, group(DEVICE, "5678"), group(COMM, "9", what="in send")).rule == "device"
    assert told(group(COMM, "0123"), group(DEVICE, "4567")).rule == "no_outlier", "half of the ranks is no outlier"
    assert rule_and_ranks(waiting, device, missing=[8]) == ("missing", (8,))
    odd = group(HOST, "8", is_dominant=False)
    assert rule_and_ranks(waiting, device, odd) == ("busy", (8,))


def test_the_busy_are_named_before_the_missing_and_these_before_unknown_code() -> None:
    waiting = group(COMM, "01234")
    unknown = group(LOCAL, "5", is_dominant=False)
    busy = group(HOST, "6", is_dominant=False)
    assert rule_and_ranks(waiting, unknown, busy, missing=[7]) == ("busy", (6,))
    assert rule_and_ranks(waiting, unknown, missing=[7]) == ("missing", (7,))
    assert rule_and_ranks(waiting, unknown, group(DEVICE, "6", is_dominant=False)) == ("busy", (5,))


def test_the_most_certain_activity_is_named_first_then_the_smaller_group() -> None:
    found = told(
        group(COMM, "0123"),
        group(COMPUTE, "4", is_dominant=False),
        group(HOST, "56", what="waiting for storage", is_dominant=False),
        group(HOST, "7", is_dominant=False),
    )
    assert found.ranks == (7, 5, 6, 4)
    assert [found.scores[rank] for rank in found.ranks] == [0.92, 0.92, 0.92, 0.88]
    assert found.reasons[7] == "in host of train.py, where it waits for no peer"
    assert found.reason.startswith(
        "Rank 7 is in host, ranks 5-6 are waiting for storage, rank 4 is in compute; meanwhile"
    )


def test_a_sentence_names_three_waiting_groups_and_counts_the_others() -> None:
    waiting = [
        group(COMM, ranks, what=f"in {name}", dim=dim) for ranks, name, dim in (("012", "a", "tp"), ("34", "b", ""))
    ]
    more = [group(COMM, "5", what="in c"), group(COMM, "67", what="in d")]
    busy = group(HOST, "8", is_dominant=False)
    few = told(*waiting, busy).reason
    assert few == "Rank 8 is in host; meanwhile ranks 0-2 in a (tp group), ranks 3-4 in b wait for their peers."
    assert told(*waiting, *more, busy).reason.endswith("rank 5 in c, 2 elsewhere wait for their peers.")
    assert "elsewhere" not in told(*waiting, more[0], busy).reason


def test_of_unknown_code_only_who_blocks_its_tensor_group_is_accused() -> None:
    waiting = group(COMM, "1234567", dim="tp")
    unknown = group(LOCAL, "0", is_dominant=False)
    assert rule_and_ranks(waiting, unknown, layout=PAIRS) == ("busy", (0,))
    together = [group(COMM, "12367", dim="tp"), group(LOCAL, "045", is_dominant=False)]
    assert rule_and_ranks(*together, layout=PAIRS) == ("busy", (0,)), "4 and 5 are whole: they may wait for others"
    assert rule_and_ranks(*together) == ("busy", (0, 4, 5)), "without a layout nobody is known to be blocked"
    host = [group(COMM, "12367", dim="tp"), group(HOST, "045", is_dominant=False)]
    assert rule_and_ranks(*host, layout=PAIRS) == ("busy", (0, 4, 5)), "a known cause needs no proof"


def test_an_empty_dump_is_accused_if_all_others_are_alike_and_few_are_empty() -> None:
    found = told(group(COMM, "012345"), empty=[6, 7])
    assert (found.rule, found.ranks, found.scores[6]) == ("empty", (6, 7), 0.5)
    assert found.reasons[6] == "its dump is empty"
    assert told(group(COMM, "012"), empty=[3, 4]).rule == "all_equal"
    assert told(group(COMM, "012"), group(HOST, "3", is_dominant=False), empty=[4]).rule == "busy"


@pytest.mark.parametrize(("kind", "words"), [(COMM, "in the same collective"), (HOST, "at the same place")])
def test_ranks_that_are_all_alike_accuse_nobody(kind: str, words: str) -> None:
    found = told(group(kind, "0123"))
    assert (found.rule, found.ranks, found.outliers) == ("all_equal", (), ())
    assert found.reason.startswith(f"All 4 ranks are {words}")


def test_large_groups_without_an_outlier_are_listed() -> None:
    halves = told(group(COMM, "0123", what="in a"), group(COMM, "4567", what="in b"))
    assert (halves.rule, halves.ranks) == ("no_outlier", ())
    assert halves.reason == (
        "The ranks fall into 2 large groups and none is an outlier: ranks 0-3 in a; ranks 4-7 in b."
    )


def test_the_minority_in_another_call_is_a_mismatch() -> None:
    other = [
        group(COMM, "67", what="in gather", is_dominant=False),
        group(COMM, "5", what="in send", is_dominant=False),
    ]
    found = told(group(COMM, "01234", what="in reduce"), *other)
    assert (found.rule, found.ranks) == ("mismatch", (5, 6, 7))
    assert set(found.scores.values()) == {0.68}
    assert found.reasons[6] == "in gather, while most ranks are in reduce"
    assert found.reason == "Ranks 5-7 entered another call (in send) than the other ranks (in reduce)."


def test_the_chain_of_waits_ends_at_the_stage_that_waits_for_nobody() -> None:
    stages = [
        group(COMM, "0123", what="in recv", dim="pp", to="next"),
        group(COMM, "45", what="in send", dim="pp", to="next"),
        group(COMM, "67", what="in all_reduce", dim="dp", is_dominant=False),
    ]
    found = told(*stages, layout=STAGES)
    assert (found.rule, found.ranks) == ("sink", (6, 7))
    assert set(found.scores.values()) == {0.7}
    assert found.reasons[6].startswith("in all_reduce; it waits for no rank outside its own group")
    assert "the chain of waits ends at ranks 6-7" in found.reason


def test_a_dump_that_failed_at_the_end_of_the_chain_is_accused() -> None:
    stages = [
        group(COMM, "0123", what="in recv", dim="pp", to="next"),
        group(COMM, "45", what="in send", dim="pp", to="next"),
        group(COMM, "6", what="in all_reduce", dim="dp", is_dominant=False),
    ]
    found = told(*stages, layout=STAGES, failed=[7])
    assert (found.rule, found.ranks, found.scores[7]) == ("unread", (7,), 0.55)
    assert found.reason.endswith("ends at rank 7, whose dump failed.")
