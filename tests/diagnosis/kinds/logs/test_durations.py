"""Durations of steps: the same whether a line is read by itself or after others of its message."""

from diagnosis.kinds.logs.pace.durations import Durations

TIMED = (
    "iteration {n}/100 | elapsed time per iteration (ms): {n}.25 | lm loss: 2.{n}",
    "epoch 0, global_step: {n} | train_step_timing in s: 4.{n} | consumed_samples: {n}",
    "step {n} took {n}.5 ms, 3.{n} s left",
    " 12%|##  | {n}/100 [00:0{n}<00:40,  {n}.5it/s]",
    "step {n}: 1.{n}s/it",
    "step {n} loss 2.{n}",
)


def test_a_line_after_others_of_its_message_says_what_it_says_alone() -> None:
    durations = Durations()
    for message, shape in enumerate(TIMED):
        lines = [shape.format(n=n) for n in (1, 2, 7, 31, 4)]
        alone = [Durations().seconds(0, line) for line in lines]
        assert [durations.seconds(message, line) for line in lines] == alone, shape


def test_other_words_of_the_same_message_are_read_afresh() -> None:
    durations = Durations()
    assert durations.seconds(1, "step 3 took 250 ms") == 0.25
    assert durations.seconds(1, "step 3 took 250 s") == 250.0
    assert durations.seconds(1, "step 3 done") is None


def test_a_rate_of_nothing_is_no_duration() -> None:
    durations = Durations()
    assert durations.seconds(1, "step 3, speed 2.0 it/s") == 0.5
    assert durations.seconds(1, "step 4, speed 0.0 it/s") == Durations().seconds(0, "step 4, speed 0.0 it/s")
