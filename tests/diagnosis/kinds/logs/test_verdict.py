"""From a case to the answer."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.decide import explain, verdict
from tests.diagnosis.cases import case_of, case_of_lines
from tests.diagnosis.synthetic import Job
from tests.diagnosis.test_log_engine import fallen_gpu

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
    assert explain.LIMITS.listed >= len(clues)


def test_a_clue_about_a_node_is_listed_once_though_two_lines_give_it(tmp_path: Path) -> None:
    job = fallen_gpu()
    job.say(job.ends + 3, 3, "RuntimeError: CUDA error: GPU 1 has fallen off the bus")
    job.say(job.ends + 4, 3, "trainer: stopped, because GPU 1 has fallen off the bus")
    clues = verdict.conclude(case_of(job, tmp_path)).clues
    assert sum(clue.about == "event" for clue in clues) == 3
    assert len(set(clues)) == len(clues)


def test_of_two_causes_on_one_machine_the_first_is_more_probable(tmp_path: Path) -> None:
    job = Job()
    xid = "kernel: NVRM: Xid (PCI:0000:9b:00): {}, pid=4243, name=python3, {}"
    job.say(job.ends + 2, 3, xid.format(95, "Uncontained ECC error"))
    job.say(job.ends + 3, 3, xid.format(64, "Row remapping failure"))
    found = verdict.conclude(case_of(job.torn_down(job.ends + 25), tmp_path)).verdict
    assert found.id == "hardware.gpu.ecc"
    assert found.runner_up is not None
    assert found.runner_up[0] == "hardware.gpu.row_remap"
    assert found.confidence > 0.7


def test_consequences_are_listed_in_their_order(tmp_path: Path) -> None:
    wait = "[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=BROADCAST) ran for 300013 s"
    echo = "terminate called after throwing an instance of 'c10::DistBackendError'"
    found = verdict.conclude(case_of_lines(tmp_path, "step 1 loss 2", "step 2 loss 2", wait, echo, echo, echo))
    assert [event.lines[0].line for event in found.events if event.role == "cascade"] == [3, 4]
