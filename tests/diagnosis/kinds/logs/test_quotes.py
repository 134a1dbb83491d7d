"""Quotations without headers, rhythms that are not odd, and slowdowns that passed."""

from __future__ import annotations

import pytest

from diagnosis.kinds.logs.decide.sentences import odd_iterations
from diagnosis.kinds.logs.pace.durations import Durations
from diagnosis.values.quotes import clause, clip, informative_clause, quote


@pytest.mark.parametrize(
    ("example", "template", "said"),
    [
        ("E1121 02:08:20.299000 28466 torch/x/api.py:1002] failed (exitcode: -9)", "failed (exitcode: -9)",
         "failed (exitcode: -9)"),
        ("2026-11-21T02:08:21.000000Z RuntimeError: gone", "<HOST>", "RuntimeError: gone"),
        ("plain words", "other", "plain words"),
    ],
)  # fmt: skip
def test_a_quotation_holds_the_message_alone(example: str, template: str, said: str) -> None:
    assert quote(example, template) == said


@pytest.mark.parametrize(
    ("line", "fault", "said"),
    [
        ("RuntimeError: [/__w/p/unbound_buffer.cc:129] Timed out waiting for recv", "[/__w/p/unbound_buffer.cc:129]",
         "RuntimeError: Timed out waiting for recv"),
        ("api.py:1002] failed (exitcode: -9) local_rank: 1", "failed (exitcode: -9)", ""),
        ("The size of tensor a (65) must match the size of tensor b (64)", "size of tensor a (65) must match",
         "The size of tensor a must match the size of tensor b"),
        ("NVRM: Xid (PCI:0000:9b:00): 79, pid=42, GPU has fallen off the bus.", "GPU has fallen off the bus",
         "GPU has fallen off the bus"),
        ("KeyError: 'input_ids'", "KeyError: 'input_ids'", "KeyError: 'input_ids'"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/__3_0.distcp'",
         "No space left on device: '/ckpt/__3_0.distcp'", "No space left on device"),
        ("NCCL error in: /opt/pytorch/csrc/NCCLUtils.cpp:77…", "NCCL error in: /opt/pytorch/csrc/NCCLUtils.cpp:77…",
         "NCCL error"),
        ("=====================", "=====================", ""),
    ],
)  # fmt: skip
def test_what_a_sentence_quotes_is_a_clause_of_its_own(line: str, fault: str, said: str) -> None:
    assert clause(line, fault) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("zorblax 0000:7a:00.0: flux valve stuck open, halting engine 3", "flux valve stuck open, halting engine 3"),
        ("E1 [/x/agent.cc:129] exited (code: -9) at 0x7f00: flux valve stuck open (pid: 2)", "flux valve stuck open"),
        ("RuntimeError: [/__w/p/buffer.cc:129] Timed out waiting. At: /x/y", "RuntimeError: Timed out waiting"),
        ("  ^^^^^^^^^", ""),
    ],
)
def test_a_reason_quotes_the_clause_that_says_most(line: str, said: str) -> None:
    """Before, reasons for a suspect quoted codes, paths and addresses of the line."""
    assert informative_clause(line) == said


def test_a_long_quotation_ends_between_words() -> None:
    assert quote("aaaa bbbb cccc dddd", width=12) == "aaaa bbbb…"


def test_iterations_that_recur_in_a_rhythm_are_not_odd() -> None:
    assert odd_iterations([(21, 1.0), (31, 1.0), (41, 1.0)]) == ()
    assert odd_iterations([(21, 1.0), (31, 1.0), (34, 2.0), (41, 1.0)])[0].endswith(": 34.")
    assert odd_iterations([(7, 1.0), (19, 1.0)])[0].endswith(": 7, 19.")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("completed step: 3, seconds: 9.7, loss", 9.7),
        ("step 3 of 20, 6.2 s/it", 6.2),
        ("train_step_timing in s: 5.1", 5.1),
        ("per_step_time: 6612ms, lr", 6.612),
        ("batches_per_sec: 0.5", 2.0),
        ("elapsed time per iteration (ms): 7400.1 |", 7.4001),
        ("iteration 7", None),
        ("epoch took 300 seconds", None),
    ],
)
def test_durations_are_read_in_many_wordings(line: str, value: float | None) -> None:
    assert Durations().seconds(0, line) == (None if value is None else pytest.approx(value))


def test_what_only_a_terminal_understands_is_not_quoted() -> None:
    coloured = "\x1b[1;31mloss is nan\x1b[0m\x07 at\tstep \x9b11\x7f \x1b]0;title\x07end"
    assert clip(coloured, 80) == "loss is nan at step 11 end"
