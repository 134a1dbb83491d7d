"""From a case to the answer."""

from __future__ import annotations

from pathlib import Path

from diagnosis.logs import explain, verdict
from tests.diagnosis.cases import case_of_lines

STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.{n}" for n in range(1, 9)]
OOM = "2026-03-01 10:08:30 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def test_the_root_line_its_category_and_the_outcome_agree(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS, OOM))
    assert (found.outcome, found.verdict.id) == ("failed", "user.memory.cuda_oom")
    assert [ref.line for ref in found.lines] == [9]


def test_a_job_that_continues_has_no_root_lines(tmp_path: Path) -> None:
    found = verdict.conclude(case_of_lines(tmp_path, *STEPS))
    assert not found.is_failure
    assert found.lines == ()


def test_each_clue_names_who_saw_it(tmp_path: Path) -> None:
    clues = verdict.conclude(case_of_lines(tmp_path, *STEPS, OOM)).clues
    assert {clue.detector for clue in clues if clue.about == "event"} == {"rule"}
    assert explain.MOST.listed >= len(clues)
