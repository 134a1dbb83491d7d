"""One number of a line tells which process wrote it, if it takes turns in no fixed order."""

from __future__ import annotations

import random

from diagnosis.kinds.logs.pace.writer_numbers import writers_of


def _turns(many: int, steps: int) -> list[tuple[int, int]]:
    order = random.Random(4)
    return [(step, who) for step in range(steps) for who in order.sample(range(many), many)]


def test_the_number_that_takes_turns_is_the_process_of_a_line() -> None:
    turns = _turns(6, 20)
    lines = [f"(node abc, proc {who}) Batch {step} of 400 done. Busy 0.3 s" for step, who in turns]
    assert writers_of(lines) == [who for _, who in turns]


def test_a_loop_within_one_process_is_no_process() -> None:
    lines = [f"micro batch {part} of step {step}: 0.3 s" for step in range(20) for part in range(4)]
    assert writers_of(lines) is None


def test_a_step_or_an_epoch_is_no_process() -> None:
    assert writers_of([f"epoch {step // 20} step {step} loss {1 / (step + 1):.3f}" for step in range(80)]) is None


def test_a_process_that_lacks_its_last_line_is_still_one() -> None:
    turns = _turns(4, 10)[:-1]
    assert writers_of([f"gpu: {who}, tick: {step}" for step, who in turns]) == [who for _, who in turns]
