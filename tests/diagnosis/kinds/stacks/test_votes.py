"""The votes of several rounds, made of rounds that are judged already."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from diagnosis.kinds.stacks.blame.blame import Blame
from diagnosis.kinds.stacks.blame.voting import MAX_LISTED, Round, decide, is_moving, judge_round
from diagnosis.kinds.stacks.ranks.cluster import Group
from diagnosis.kinds.stacks.ranks.dumped_processes import Process
from diagnosis.kinds.stacks.ranks.layout import Layout, build
from diagnosis.kinds.stacks.read.stack_frames import EMPTY, FAILED, OK, Dump, Frame, Thread


def stuck(*ranks: int) -> Round:
    """A round in which these ranks are accused, and nothing else is known."""
    return Round([], [], [], [], Blame(ranks, dict.fromkeys(ranks, 0.9), {}, ranks, "Stuck.", "busy"))


def placed(places: str, *accused: int) -> Round:
    """A round in which rank 0 is in the first of these places, and so on."""
    groups = [Group((p,), (), None, [r for r, q in enumerate(places) if q == p]) for p in sorted(set(places))]  # type: ignore[arg-type]
    return Round(groups, [], [], [], stuck(*accused).blame)


def test_a_job_moves_if_more_than_a_tenth_of_its_ranks_change_their_place() -> None:
    still = "a" * 10
    assert not is_moving([placed(still)])
    assert not is_moving([placed(still), placed(still)])
    assert not is_moving([placed(still), placed("a" * 9 + "b")])
    assert is_moving([placed(still), placed("a" * 8 + "bb")])
    assert is_moving([placed(still), placed(still), placed("a" * 8 + "bb")])
    assert not is_moving([placed(""), placed("")])


def test_a_rank_that_is_not_in_all_rounds_does_not_move_the_job() -> None:
    assert not is_moving([placed("aaaab"), placed("aaaa")])


def test_of_one_round_the_verdict_is_that_of_the_round() -> None:
    found = decide([stuck(3)], Layout())
    assert (found.verdict.ranks, found.verdict.reason, found.is_moving) == ((3,), "Stuck.", False)
    assert decide([stuck()], Layout()).candidates == []


def test_who_is_accused_in_half_of_the_telling_rounds_stays_and_silent_rounds_do_not_count() -> None:
    assert decide([stuck(1, 2), stuck(1), stuck(2), stuck()], Layout()).verdict.ranks == (1, 2)
    assert decide([stuck(1), stuck(2), stuck(3)], Layout()).verdict.ranks == (1,)
    found = decide([stuck(1), stuck(1), stuck()], Layout()).verdict
    assert (found.ranks, "The same in 2 of 3 rounds" in found.reason) == ((1,), True)


def test_the_round_with_the_most_lasting_accused_and_the_fewest_others_is_shown() -> None:
    rounds = [stuck(1, 9), stuck(1, 2), stuck(1, 2, 8), stuck(1)]
    assert decide(rounds, Layout()).shown is rounds[1]


def test_without_accused_nobody_is_named() -> None:
    found = decide([stuck(), stuck()], Layout())
    assert (found.verdict.ranks, found.verdict.reason, found.candidates) == ((), "Stuck.", [])


def moving(*accused: int) -> list[Round]:
    """Rounds of a job that moves, each with one accused rank; -1 is nobody."""
    return [placed("ab" if k % 2 else "ba", *([rank] if rank >= 0 else [])) for k, rank in enumerate(accused)]


def test_of_a_job_that_moves_who_lags_in_six_of_ten_rounds_is_named() -> None:
    found = decide(moving(1, 1, 1, 0, -1), Layout())
    assert (found.is_moving, found.verdict.rule, found.verdict.ranks) == (True, "slow", (1,))
    assert found.verdict.scores == {1: 0.7}
    assert found.verdict.reasons == {1: "lagged in 3 of 5 rounds while the job moved on"}
    assert found.verdict.outliers == (1,)
    assert decide(moving(1, 1, 1, 1, 1), Layout()).verdict.scores == {1: 0.9}
    assert decide(moving(1, 1, 0, 0, -1), Layout()).verdict.ranks == ()


def test_one_round_of_two_is_no_lag() -> None:
    found = decide(moving(1, -1), Layout())
    assert (found.is_moving, found.verdict.ranks, found.votes, found.candidates) == (True, (), [], [])
    assert "no degrader is named" in found.verdict.reason
    assert decide(moving(1, 1), Layout()).verdict.ranks == (1,)


def test_who_lags_more_often_comes_first() -> None:
    rounds = [placed("ab" if k % 2 else "ba", *ranks) for k, ranks in enumerate([(0, 1), (0, 1), (1,), (0, 1), (1,)])]
    assert decide(rounds, Layout()).verdict.ranks == (1, 0)


def test_scores_of_votes_have_three_digits() -> None:
    assert decide(moving(1, 1, 1, 1, 1, -1, -1), Layout()).verdict.scores == {1: 0.757}


PAIRS = build({"tp": 2, "dp": 4}, world_size=8, order="tp-dp")


PLACES = count()


def outlying(*outliers: int) -> Round:
    """A round of a job that moves, with these outliers, of whom none is accused."""
    groups = [Group((f"place {next(PLACES)}",), (), None, list(range(8)))]  # type: ignore[arg-type]
    return Round(groups, [], [], [], Blame((), {}, {}, outliers, "", "busy"))


def test_the_group_with_the_most_outliers_of_most_rounds_is_the_slow_one() -> None:
    found = decide([outlying(2), outlying(3), outlying(2), outlying(6)], PAIRS)
    assert (found.is_moving, found.verdict.rule, found.verdict.ranks) == (True, "slow", (2, 3))
    assert [(vote.candidate.groups, vote.rounds) for vote in found.votes] == [(((2, 3),), 3), (((6, 7),), 1)]
    assert [candidate.groups for candidate in found.candidates] == [((2, 3),)]
    assert found.verdict.reasons[2] == "belongs to the group that lagged most often"
    assert found.verdict.scores == {2: 0.4, 3: 0.4}
    assert found.verdict.reason.endswith("; its tp group 2-3 was flagged in 3.")


def test_a_group_is_named_from_half_of_the_rounds_on_and_two_at_least() -> None:
    assert decide([outlying(2), outlying(3), outlying(6), outlying()], PAIRS).verdict.ranks == (2, 3)
    assert decide([outlying(2), outlying(3), outlying(6), outlying(), outlying()], PAIRS).verdict.ranks == ()
    assert decide([outlying(2), outlying()], PAIRS).verdict.ranks == ()


def test_of_two_groups_with_as_many_votes_none_is_named() -> None:
    found = decide([outlying(2), outlying(3), outlying(6), outlying(7)], PAIRS)
    assert (found.verdict.ranks, found.candidates, [vote.rounds for vote in found.votes]) == ((), [], [2, 2])
    assert found.verdict.reason.endswith("no degrader is named.")


def test_ranks_that_lag_are_named_before_their_group_which_is_replaced() -> None:
    rounds = [replace(outlying(2), blame=stuck(2).blame) for _ in range(3)]
    found = decide(rounds, PAIRS)
    assert (found.verdict.ranks, found.verdict.outliers) == ((2,), (2, 3))
    assert found.verdict.reasons == {2: "lagged in 3 of 3 rounds while the job moved on"}
    assert found.verdict.scores == {2: 0.9}
    assert [candidate.groups for candidate in found.candidates] == [((2, 3),)]


def test_lagging_ranks_without_a_slow_group_are_explained_by_groups_of_their_own() -> None:
    rounds = [replace(outlying(2, 4), blame=stuck(2, 4).blame) for _ in range(2)]
    found = decide([*rounds, outlying()], build({"tp": 1, "dp": 8}, world_size=8, order="tp-dp"))
    assert found.verdict.ranks == (2, 4)
    assert found.verdict.reason == (
        "The job moves, so it is slow, not hung: ranks 2/4 lagged in most of 3 rounds; "
        "its dp group 0-7 was flagged in 2."
    )
    no_layout = decide([*rounds, outlying()], Layout())
    assert (no_layout.verdict.ranks, no_layout.votes) == ((2, 4), [])
    assert no_layout.verdict.reason.endswith("ranks 2/4 lagged in most of 3 rounds.")


def waiting(rank: int, status: str = OK) -> Process:
    frames = (Frame("all_reduce", "torch/distributed/distributed_c10d.py"), Frame("<module>", "train.py"))
    threads = [Thread("MainThread", "1", "", frames)] if status == OK else []
    return Process(Dump(status=status, threads=threads), f"rank-{rank}.txt", rank=rank)


def test_a_round_names_missing_ranks_up_to_a_third_of_the_job() -> None:
    plan = build({"dp": 9}, world_size=9)
    few = judge_round([waiting(rank) for rank in range(6)], plan)
    assert (few.missing, few.absent, few.blame.rule, few.blame.ranks) == ([6, 7, 8], 3, "missing", (6, 7, 8))
    many = judge_round([waiting(rank) for rank in range(5)], plan)
    assert (many.missing, many.absent, many.blame.rule) == ([5, 6, 7, 8], 4, "all_equal")


def test_a_round_counts_the_ranks_of_a_size_that_no_job_has_without_listing_them() -> None:
    found = judge_round([waiting(0), waiting(1)], Layout(world_size=10**12))
    assert (len(found.missing), found.absent) == (MAX_LISTED, 10**12 - 2)


def test_ranks_beyond_the_size_of_the_job_fill_no_gap() -> None:
    found = judge_round([waiting(0), waiting(1), waiting(5)], build({"dp": 3}, world_size=3))
    assert (found.missing, found.absent) == ([2], 1)


def test_a_round_with_failed_or_empty_dumps_alone_is_still_one() -> None:
    plan = Layout(world_size=2)
    for status in (FAILED, EMPTY):
        found = judge_round([waiting(0, status)], plan)
        assert (found.has_dumps, found.rank_count) == (True, 0)
    assert not judge_round([], plan).has_dumps
    assert judge_round([waiting(0), waiting(1)], plan).rank_count == 2
