"""How long the next pause may take, from the pauses before."""

from __future__ import annotations

from diagnosis.live.watches.pause_history import PauseRow
from diagnosis.live.watches.rhythm import limit_s, max_pause_s


def pause(after: int, seconds: float) -> PauseRow:
    return PauseRow(after, seconds, seconds)


SAVES = [pause(n, 200.0 if n % 500 == 0 else 30.0) for n in range(100, 1600, 100)]


def test_a_save_that_an_evaluation_follows_is_long_at_its_counts_alone() -> None:
    assert limit_s(SAVES, 2_000, 1) > 200
    assert limit_s(SAVES, 1_900, 1) < 60


def test_counts_that_begin_at_zero_or_are_printed_every_tenth_have_the_same_rhythm() -> None:
    from_zero = [pause(one.after - 1, one.seconds) for one in SAVES]
    assert limit_s(from_zero, 1_999, 1) > 200 > 60 > limit_s(from_zero, 1_899, 1)
    assert limit_s(SAVES, 2_000, 10) > 200 > 60 > limit_s(SAVES, 1_900, 10)


def test_long_pauses_without_a_rhythm_may_come_again_at_any_time() -> None:
    for long in ([700], [700, 1_200], [200, 300, 900, 1_000]):
        pauses = [pause(one.after, 200.0 if one.after in long else 30.0) for one in SAVES]
        assert limit_s(pauses, 1_900, 1) > 200, long


def test_two_long_pauses_show_a_rhythm_if_they_come_at_multiples_of_their_distance() -> None:
    assert limit_s(SAVES[:10], 1_900, 1) < 60
    moved = [pause(one.after + 130, one.seconds) for one in SAVES]
    assert limit_s(moved[:10], 2_030, 1) > 200, "130 more: two could come so by chance"
    assert limit_s(moved, 2_030, 1) < 60, "three could not"


def test_without_a_count_any_former_pause_may_come_again() -> None:
    assert limit_s(SAVES, None, 1) > 200


def test_the_more_pauses_are_known_the_less_may_the_next_one_take() -> None:
    limits = [max_pause_s([100.0] * count) for count in (1, 2, 4, 8, 16, 32)]
    assert limits == sorted(limits, reverse=True)
    assert 200 < limits[0] < 260
    assert 125 < limits[-1] < 140


def test_pauses_that_differ_much_may_differ_again() -> None:
    assert max_pause_s([40.0, 80.0, 160.0, 320.0]) > 600
    assert max_pause_s([100.0, 110.0, 95.0, 105.0]) < 180


def test_the_limit_is_three_spreads_of_the_next_pause_above_the_mean() -> None:
    assert [round(max_pause_s([100.0] * count)) for count in (1, 2, 8)] == [228, 191, 148]
    assert round(max_pause_s([90.0, 110.0])) == 198


def test_two_pauses_after_99_and_199_have_a_rhythm_too() -> None:
    from_zero = [pause(one.after - 1, one.seconds) for one in SAVES[:10]]
    assert limit_s(from_zero, 1_899, 1) < 60 < 200 < limit_s(from_zero, 1_999, 1)


def test_every_second_count_may_be_long() -> None:
    pauses = [pause(n, 200.0 if n % 20 == 0 else 30.0) for n in range(10, 160, 10)]
    assert limit_s(pauses, 170, 10) < 60 < 200 < limit_s(pauses, 180, 10)


def test_pauses_that_differ_by_less_than_half_are_of_one_kind() -> None:
    pauses = [pause(one.after, 130.0 if one.seconds > 100 else 100.0) for one in SAVES]
    assert limit_s(pauses, 1_900, 1) == limit_s(pauses, 2_000, 1)
