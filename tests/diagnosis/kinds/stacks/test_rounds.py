"""Several rounds of dumps: hang or slow, dumps counted once, and who lags most often."""

from __future__ import annotations

import random

from diagnosis.kinds.stacks.blame.blame import Blame
from diagnosis.kinds.stacks.blame.voting import Round, decide
from diagnosis.kinds.stacks.ranks.layout import Layout
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import (
    CULPRITS,
    FRAMES,
    SCHEDULE,
    dumps,
    hang,
    layout_file,
    parse,
    pyspy_json,
    pyspy_text,
)

SIZES = {"tp": 2, "pp": 4, "dp": 4}


def slow_job(rounds=5, culprit=13, seed=1, share=1.0):
    """A job that moves: each round most ranks wait in another place for the culprit's group, a few are caught
    computing."""
    rng = random.Random(seed)
    artifacts = []
    for at in range(rounds):
        case = hang(SIZES, "tp-dp-pp", {culprit} if rng.random() < share else {rng.randrange(32)}, "kernel")
        wait = rng.choice(["tp", "dp"])
        for r in case.stacks:
            if r not in case.culprits:
                case.stacks[r] = FRAMES["megatron"][rng.choice(["dp", wait])]
        artifacts += dumps(case, round_at=at, layout=False)
    return [*artifacts, layout_file(case)]


def test_a_job_that_does_not_move_over_the_rounds_is_hung_and_its_culprit_voted():
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    got = stacks_json(
        [*dumps(case, round_at=1, layout=False), *dumps(case, round_at=2, layout=False), layout_file(case)]
    )
    assert (got["rounds"], got["is_moving"]) == (2, False)
    assert got["suspect_ranks"] == [10]
    assert "does not move" in got["reason"]


def test_a_job_that_moves_is_slow_and_the_group_flagged_most_often_is_evicted():
    got = stacks_json(slow_job())
    assert got["is_moving"] is True
    assert got["suspect_ranks"][0] == 13
    assert 13 in got["evict_ranks"]
    assert got["votes"][0]["rounds"] >= 3
    assert "slow, not hung" in got["reason"]


def test_laggards_that_change_every_round_are_nobodys_fault():
    got = stacks_json(slow_job(rounds=5, share=0.0, seed=4))
    assert got["is_moving"] is True
    assert got["suspect_ranks"] == []
    assert "no degrader is named" in got["reason"]


def test_a_rank_caught_once_in_two_rounds_of_a_hang_does_not_join_the_culprit():
    first, second = (hang(SIZES, "tp-dp-pp", {10}, "loader") for _ in range(2))
    second.stacks[2] = [*CULPRITS["user loop"], *SCHEDULE]
    third = hang(SIZES, "tp-dp-pp", {10}, "loader")
    files = [x for i, c in enumerate((first, second, third)) for x in dumps(c, round_at=i, layout=False)]
    assert stacks_json([*files, layout_file(first)])["suspect_ranks"] == [10]


def test_text_and_json_of_the_same_process_count_once():
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    files = []
    for r, stack in case.stacks.items():
        files += [
            parse(pyspy_text(stack, 100 + r), f"stacks/d/{case.nodes[r]}_rank{r:03d}.txt"),
            parse(pyspy_json(stack, 100 + r), f"stacks/d/{case.nodes[r]}_rank{r:03d}.json"),
        ]
    got = stacks_json(files)
    assert got["rounds"] == 1
    assert len(got["ranks"]) == 32
    assert got["suspect_ranks"] == [10]
    assert got["suspect_nodes"] == ["node-001"]


def test_the_same_ranks_twice_in_one_file_are_two_rounds():
    case = hang({"dp": 8}, "dp", {3}, "loader", per_node=8)
    once = "".join(pyspy_text(case.stacks[r], 100 + r) + "\n" for r in range(8))
    text = "".join(f"### rank: {r} ###\n{pyspy_text(case.stacks[r], 100 + r)}" for r in range(8))
    got = stacks_json([parse(text + text, "stacks/all.txt")])
    assert (got["rounds"], got["suspect_ranks"]) == (2, [3])
    assert once


def test_directories_named_by_time_are_rounds_in_their_order():
    case = hang({"dp": 8}, "dp", {3}, "loader")
    files = []
    for stamp in ("20260102-030405", "20260102-030415"):
        files += [parse(pyspy_text(case.stacks[r], 100 + r), f"dumps/{stamp}/rank{r}.txt") for r in range(8)]
    assert stacks_json(files)["rounds"] == 2


def test_who_is_accused_in_half_of_the_telling_rounds_stays_accused():
    def one(*ranks):
        return Round([], [], [], [], Blame(ranks, dict.fromkeys(ranks, 0.9), {}, ranks, "Stuck.", "busy"))

    assert decide([one(1, 2), one(1, 2), one(1)], Layout()).verdict.ranks == (1, 2)
    assert decide([one(1, 2), one(1), one(1)], Layout()).verdict.ranks == (1,)
