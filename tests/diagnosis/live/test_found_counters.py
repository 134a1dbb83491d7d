"""A running job may count without a word that anybody knows: its numbers tell, over many ranges."""

from __future__ import annotations

import pytest

from diagnosis.live import judge, learn, new_state
from diagnosis.live.found_counters import MAX_CANDIDATES
from diagnosis.live.job_state import JobState
from diagnosis.live.reading.observe import Range, observe

STYLES = {
    "house": ";;>>{n} of 90000;{x:.3f};tok 81204",
    "german": 'rang=0 text="Runde {n} fertig, Verlust {x:.4f}"',
    "tens": "| tick {t} | xent {x:.3f}",
}


def followed(lines: list[str], every_s: float = 4.0) -> JobState:
    """The state of a job after one range for each of these lines."""
    state = new_state(0.0)
    for place, line in enumerate(lines):
        at = every_s * place
        data = f"2026-03-01 08:{int(at) // 60:02d}:{at % 60:06.3f} {line}\n".encode()
        learn(state, "a", observe([Range("a/train.log", data, data)])[0], at)
    return state


def styled(style: str, count: int) -> list[str]:
    return [STYLES[style].format(n=n, t=10 * n, x=3 - n / 999) for n in range(1, count + 1)]


@pytest.mark.parametrize("style", STYLES)
def test_a_job_counts_under_any_name(style: str) -> None:
    state = followed(styled(style, 30))
    assert state.iteration == (300 if style == "tens" else 30)


def test_a_measure_that_is_whole_by_chance_hides_no_counter() -> None:
    lines = [f"wait {n % 3 * 0.5 + 49:.1f} ms, round {n}, loss {3 - n / 99:.3f}" for n in range(1, 31)]
    assert followed(lines).iteration == 30


def test_the_steps_of_an_epoch_count_under_any_name() -> None:
    assert followed([f"epoch 0 minibatch {n} loss {3 - n / 99:.3f}" for n in range(1, 31)]).iteration == 30


def test_epochs_count_where_nothing_counts_within_them() -> None:
    assert followed([f"epoch {n} done, loss {3 - n / 99:.3f}" for n in range(1, 31)]).iteration == 30


def test_a_job_that_stops_counting_so_hangs() -> None:
    state = followed(styled("house", 30))
    assert "hang" in [alarm.kind for alarm in judge(state, 30 * 4.0 + 900)]


def test_numbers_beside_no_measurement_count_nothing() -> None:
    assert followed([f"heard from peer, beat {n}, all well" for n in range(30)]).iteration is None


def test_a_clock_counts_nothing() -> None:
    assert followed([f"load {n % 7}.25 up for {4 * n} seconds" for n in range(30)]).iteration is None


def test_a_counter_with_a_known_word_leads_one_that_advances_as_often() -> None:
    both = [line for n in range(1, 30) for line in (f"step {n} loss 2.5", f"| shard {7 * n} | read {n}.5")]
    assert followed(both).iteration == 29


def test_a_monitor_that_counts_on_hides_no_hang() -> None:
    trained = [line for n in range(1, 30) for line in (f"step {n} loss 2.5", f"| probe {n} | util {n}.5")]
    state = followed([*trained, *(f"| probe {n} | util {n}.5" for n in range(30, 200))])
    assert "hang" in [alarm.kind for alarm in judge(state, 230 * 4.0)]


def test_training_without_a_word_follows_a_preparation_with_one() -> None:
    prepared = [f"reading batch {n}" for n in range(1, 20)]
    assert followed([*prepared, *styled("house", 60)]).iteration == 60


def test_a_job_keeps_a_bounded_number_of_messages() -> None:
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(2 * MAX_CANDIDATES)]
    assert len(followed([f"{name} has 3 at 0.5" for name in names]).candidates) <= MAX_CANDIDATES
