"""Training that came to its planned end, though no line says so; and what only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.cases import case_of_lines


def outcome(tmp_path: Path, *lines: str) -> str:
    return case_of_lines(tmp_path, *lines).ending.outcome


def steps(*numbers: int, of: int = 500) -> list[str]:
    return [f"step {n}/{of} loss 2.{n}" for n in numbers]


def epochs(count: int, *batches: int) -> list[str]:
    """Epochs that announce themselves; of the last one these batches of 400."""
    told = ["reading shards"]
    for epoch in range(1, count + 1):
        shown = batches if epoch == count else (100, 200, 300, 400)
        told += [f"starting epoch {epoch}/{count}", *(f"seen {n}/400 loss 1.{epoch}" for n in shown)]
    return told


def test_the_last_planned_step_was_reached(tmp_path: Path) -> None:
    assert outcome(tmp_path, *steps(100, 200, 300, 400, 500)) == "succeeded"


def test_the_last_step_that_is_printed_may_be_less_than_an_interval_away_if_other_lines_follow(tmp_path: Path) -> None:
    shown = steps(*range(0, 500, 20))
    assert outcome(tmp_path / "a", *shown, "weights are in out/") == "succeeded"
    assert outcome(tmp_path / "b", *shown) != "succeeded"
    assert outcome(tmp_path / "c", *shown[:-1], "weights are in out/") != "succeeded"


def test_a_total_that_each_epoch_reaches_is_not_the_jobs(tmp_path: Path) -> None:
    assert outcome(tmp_path / "a", *steps(250, 500), *steps(250, 500), *steps(250, 500)) != "succeeded"
    both = [f"epoch {epoch}/3 step {n}/500 loss 2" for epoch in (1, 2, 3) for n in (250, 500)]
    assert outcome(tmp_path / "b", *both) == "succeeded"


def test_the_time_that_is_left_shows_the_end_where_no_total_is_stated(tmp_path: Path) -> None:
    lines = [
        f"2026-03-01 10:{10 * epoch + n:02d}:00 epoch {epoch} [{n}/5] loss 2 eta: 0:{29 - 10 * epoch - n:02d}:40"
        for epoch in range(3)
        for n in range(10)
    ]
    assert outcome(tmp_path / "a", *lines, "average precision 0.31") == "succeeded"
    assert outcome(tmp_path / "b", *lines[:20], "average precision 0.31") != "succeeded"
    of_each = [line[: line.index("eta")] + f"eta: 0:0{9 - n % 10}:40" for n, line in enumerate(lines)]
    assert outcome(tmp_path / "c", *of_each, "average precision 0.31") != "succeeded"


@pytest.mark.parametrize("said", ["Training time 1:22:04", "no gain for 5 epochs, early stopping", "final score 0.61"])
def test_a_message_of_an_end_counts_after_the_last_step_only(tmp_path: Path, said: str) -> None:
    shown = steps(*range(1, 20), of=9000)
    assert outcome(tmp_path / "a", *shown, said) == "succeeded"
    assert outcome(tmp_path / "b", said, *shown, said) != "succeeded"
    assert outcome(tmp_path / "c", *shown[:-1], said, shown[-1]) != "succeeded"


def test_an_error_after_the_last_step_is_a_failure(tmp_path: Path) -> None:
    error = "RuntimeError: shape '[640, 24]' is invalid for input of size 8847360"
    assert outcome(tmp_path, *steps(100, 200, 300, 400, 500), "final score 0.61", error) == "failed"


@pytest.mark.parametrize(
    ("plan", "is_end"),
    [
        ("  num_epochs: 6", True),
        ("{'max_steps': 60, 'warmup_steps': 20}", True),
        ("OPTIMIZATION: EPOCHS: 6, Num Iters: 10", True),
        ("  num_epochs: 8", False),
        ("{'max_steps': 90, 'warmup_steps': 60}", False),
        ("  save_steps: 60", False),
    ],
)
def test_the_configuration_may_state_the_planned_steps(tmp_path: Path, plan: str, is_end: bool) -> None:
    shown = {
        "EPOCHS: 6, Num": [f"Epoch: [{e}], step: [{n}], loss: 2.1" for e in range(1, 7) for n in range(1, 11)],
        "epochs": [f"epoch {e} loss 2.{e}" for e in range(1, 7)],
        "steps": [f"step {n} loss 2.{n}" for n in range(10, 61, 10)],
    }
    lines = next(lines for words, lines in shown.items() if words in plan)
    assert (outcome(tmp_path, "reading shards", plan, *lines) == "succeeded") is is_end


def test_a_counter_that_begins_at_zero_ends_one_below_its_total(tmp_path: Path) -> None:
    shown = [f"epoch {n} loss 2.{n}" for n in range(6)]
    assert outcome(tmp_path / "a", "batches of 8, training epoch: 6.", *shown) == "succeeded"
    assert outcome(tmp_path / "b", "batches of 8, training epoch: 7.", *shown) != "succeeded"
    assert outcome(tmp_path / "c", "batches of 8, training epoch: 6.", *shown[1:]) != "succeeded"


def test_a_total_in_thousands_is_not_reached_by_hundreds(tmp_path: Path) -> None:
    shown = [f"step {n}it/4.00kit rate: 1.1it/s loss 2.1" for n in range(500, 600, 10)]
    assert outcome(tmp_path, *shown) == "running"


def test_a_share_is_no_counter(tmp_path: Path) -> None:
    bars = [f"Steps: {n // 5:3}%|##| {n}/500 [00:10<00:20, 1.0s/it, loss=0.1]" for n in range(0, 501, 5)]
    assert outcome(tmp_path / "a", *bars) == "succeeded"
    assert outcome(tmp_path / "b", *bars[:60]) == "running"


def test_two_counters_beside_each_other_are_no_total(tmp_path: Path) -> None:
    shown = [f"1|{n}|Loss: 1.2: {n}%|##| {n}/100 [00:10<00:20, 1.0s/it]" for n in range(1, 101)]
    assert outcome(tmp_path / "a", *shown) == "succeeded"
    assert outcome(tmp_path / "b", *shown[:50]) == "running"


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("19/19 steps went through, wrote the weights to out/model.pt", "succeeded"),
        ("Ran out of patience. Stopping training.", "succeeded"),
        ("trainer: leaving", "succeeded"),
        ("exit 0", "succeeded"),
        ("guard | exit status 9", "failed"),
        ("step 2 failed (exit 1), nothing is copied", "failed"),
        ("make: *** [Makefile:9: train] Error 124", "failed"),
    ],
)
def test_the_last_line_tells_how_the_program_ended(tmp_path: Path, said: str, ended: str) -> None:
    shown = [f"step {n} loss 2.{n}" for n in range(1, 20)]
    assert outcome(tmp_path, *shown, said) == ended


def test_an_exception_of_a_thread_fails_no_job_that_reported_its_end(tmp_path: Path) -> None:
    shown = [*(f"2026-03-01 08:00:{n:02d} INFO step {n} loss 2.{n}" for n in range(1, 20)), "training finished"]
    raised = ["Traceback (most recent call last):", '  File "/x/c.py", line 9, in _loop', "    s.connect(a)"]
    refused = [*raised, "ConnectionRefusedError: [Errno 111] Connection refused"]
    assert outcome(tmp_path / "a", *shown, "Exception in thread Thread-1 (_loop):", *refused) == "succeeded"
    assert outcome(tmp_path / "b", *shown, *refused) == "failed"


def test_an_error_that_no_rule_knows_fails_no_training_that_came_to_its_end(tmp_path: Path) -> None:
    shown = [f"2026-03-01 08:00:{n:02d} INFO [main] step {n}/19 loss 2.{n}" for n in range(1, 20)]
    aside = "2026-03-01 08:00:30 ERROR [monitor] could not sample: not supported"
    assert outcome(tmp_path / "a", *shown, aside) == "succeeded"
    assert outcome(tmp_path / "b", *shown[:-4], aside) == "failed"


def test_a_program_that_closes_far_below_its_total_was_told_to(tmp_path: Path) -> None:
    assert outcome(tmp_path / "a", *steps(*range(0, 240, 20)), "bye") != "succeeded"
    assert outcome(tmp_path / "b", *steps(*range(0, 500, 20)), "bye") == "succeeded"
    rounds = [*steps(250, 500), *steps(250, 500), *steps(250, 500)]
    assert outcome(tmp_path / "d", *rounds, "bye") == "succeeded"
    stopped_early = "no gain for 10 epochs, early stopping"
    assert outcome(tmp_path / "c", *steps(*range(0, 240, 20)), stopped_early, "bye") == "succeeded"


def test_a_fatal_line_ends_its_process_whatever_is_printed_after_it(tmp_path: Path) -> None:
    counted = [f"2026-03-01 10:{n:02d}:00 step {n}/500 loss 2.1" for n in range(1, 30)]
    after = ["Message is:", "inner trouble, see the log", "the tracker found 91 things to remove"]
    fatal = "2026-03-01 10:29:05.224348: F adapter/kernels/op_npu.cc:76] asynchronous run has ended badly"
    assert outcome(tmp_path / "a", *counted, fatal, *after) == "failed"
    warned = fatal.replace(": F ", ": W ")
    assert outcome(tmp_path / "b", *counted, warned, *after) != "failed"
    assert outcome(tmp_path / "c", *counted[:20], fatal.replace("10:29", "10:20"), *after, *counted[20:]) != "failed"


def test_a_line_that_ends_each_epoch_tells_by_its_total_that_the_last_one_ended(tmp_path: Path) -> None:
    ends = [f"epoch {epoch}/3 mean loss 1.{epoch}" for epoch in (1, 2, 3)]
    shown = [[f"step {n} loss 2.{n}" for n in range(10 * epoch, 10 * epoch + 10)] for epoch in range(3)]
    lines = [line for steps_of, end in zip(shown, ends, strict=True) for line in (*steps_of, end)]
    begun = [line for steps_of, end in zip(shown, ends, strict=True) for line in (end, *steps_of)]
    assert outcome(tmp_path / "a", *lines) == "succeeded"
    assert outcome(tmp_path / "b", *lines[:-1]) != "succeeded"
    assert outcome(tmp_path / "c", *begun[:-10]) != "succeeded"


def test_the_total_of_a_counter_counts_where_its_last_line_states_none(tmp_path: Path) -> None:
    shown = [[f"Step {10 * part + n}/31 | loss 2.{n}" for n in range(10)] for part in range(3)]
    parts = [[*lines, f"Step {10 * part + 10} | test loss 1.1"] for part, lines in enumerate(shown)]
    assert outcome(tmp_path / "a", *parts[0], *parts[1], *parts[2], "weights are in out/") == "succeeded"
    assert outcome(tmp_path / "b", *parts[0], *parts[1], "weights are in out/") != "succeeded"
