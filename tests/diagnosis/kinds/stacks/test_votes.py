"""The votes of several rounds, made of rounds that are judged already."""

from __future__ import annotations

from diagnosis.kinds.stacks.blame.blame import Blame
from diagnosis.kinds.stacks.blame.voting import Round, decide, is_moving
from diagnosis.kinds.stacks.ranks.cluster import Group
from diagnosis.kinds.stacks.ranks.layout import Layout


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
