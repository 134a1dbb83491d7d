"""Iterations that print something else than the ten before them."""

from __future__ import annotations

from collections import Counter

from diagnosis.kinds.logs.compare import iterations

USUAL = (1, 2, 3, 4, 5)


def runs(**odd: tuple[int, ...]) -> list[tuple[int, Counter[int]]]:
    return [(n, Counter(odd.get(f"i{n}", USUAL))) for n in range(40)]


def test_iterations_that_are_all_similar_are_not_odd() -> None:
    assert iterations.score_iterations(runs()) == []


def test_a_new_message_makes_its_iteration_odd() -> None:
    assert [n for n, _ in iterations.score_iterations(runs(i30=(1, 2, 9, 8, 7, 3, 4, 5)))] == [30]


def test_a_storm_of_a_known_message_is_seen() -> None:
    assert [n for n, _ in iterations.score_iterations(runs(i25=(1, 2, *[3] * 200, 4, 5)))] == [25]


def test_another_order_of_the_same_messages_is_not_odd() -> None:
    assert iterations.score_iterations(runs(i25=USUAL[::-1])) == []


def test_a_missing_message_is_seen() -> None:
    assert [n for n, _ in iterations.score_iterations(runs(i33=(1, 5)))] == [33]


def test_the_first_ten_are_not_scored_and_one_odd_iteration_does_not_make_the_next_odd() -> None:
    assert iterations.score_iterations(runs(i4=(9, 9, 9))) == []
    assert [n for n, _ in iterations.score_iterations(runs(i20=(7, 8), i30=(7, 8)))] == [20, 30]


def test_many_odd_iterations_do_not_become_the_measure_of_later_ones() -> None:
    odd = {f"i{n}": (n, 100 + n, 200 + n) for n in range(20, 30)}
    assert 35 in dict(iterations.score_iterations(runs(**odd, i35=(7, 8))))


def test_an_iteration_without_lines_and_one_with_a_million_are_compared_in_bounded_time() -> None:
    assert [n for n, _ in iterations.score_iterations(runs(i22=(), i28=tuple(range(3000))))] == [22, 28]
