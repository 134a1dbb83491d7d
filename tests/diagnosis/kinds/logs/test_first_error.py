"""Which of several errors came first: who raised it, and who only waited for it or repeats it."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.causes.root_events.fallbacks import line_to_read
from tests.diagnosis.cases import case_of_files, case_of_lines

STEPS = [f"[rank{rank}] 2026-03-01 06:00:{step:02} step {step} loss 4.1" for step in range(5, 30) for rank in (1, 3)]
RAISED = [
    "[rank3] 2026-03-01 06:00:31 Traceback (most recent call last):",
    '[rank3]   File "/job/pack.py", line 55, in pack',
    "[rank3]     following = documents[k + 1]",
    "[rank3] IndexError: list index out of range",
]
WAITED = (
    "[rank1] 2026-03-01 06:00:{second} RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId"
    " from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer"
)


def test_whoever_waited_in_vain_explains_no_error_that_was_raised_before(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *STEPS, *RAISED, WAITED.format(second=34))
    assert case.lead.example.endswith("IndexError: list index out of range")


def test_an_error_that_was_raised_after_somebody_waited_in_vain_explains_nothing(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *STEPS, WAITED.format(second=30), *RAISED)
    assert "store->get" in case.lead.example


def test_without_times_an_error_that_a_rule_knows_well_explains_who_waited_elsewhere(tmp_path: Path) -> None:
    waited = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."
    raised = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 3',
        "ModuleNotFoundError: No module named 'x'",
    ]
    case = case_of_files(tmp_path, {"a1.log": ["begin", waited], "a2.log": ["begin", *raised]})
    assert case.lead.category == "user.environment.import"


def test_of_the_lines_by_which_a_file_tells_one_cause_the_first_leads(tmp_path: Path) -> None:
    asserted = "/aten/Indexing.cu:1369: indexSelect: block: [2,0,0], thread: [0,0,0] Assertion `src < size` failed."
    raised = ["Traceback (most recent call last):", '  File "/job/a.py", line 3', "    h = embed(ids)"]
    error = "RuntimeError: CUDA error: device-side assert triggered"
    case = case_of_lines(tmp_path, "step 1 loss 2.0", "step 2 loss 1.9", asserted, *raised, error)
    assert "Assertion" in case.lead.example


def test_the_form_of_an_exception_says_less_than_the_message_below_it(tmp_path: Path) -> None:
    raised = ["Traceback (most recent call last):", '  File "/job/fit.py", line 61', "    model.fit(data)"]
    form = "framework.errors_impl.GraphError: Graph execution error:"
    message = "OOM when allocating tensor with shape[64,2048] and type float by allocator GPU_0_bfc"
    case = case_of_lines(tmp_path, "begin", *raised, form, message)
    assert case.lead.category == "user.memory.cuda_oom"


def test_of_the_consequences_by_which_a_file_tells_one_loss_the_first_is_to_be_read(
    tmp_path: Path,
) -> None:
    lost = [
        "E0501 10:40:01.118 3312 coordination_service.cc:1040] The following tasks are unhealthy"
        " (stopped sending heartbeats):",
        "/job:jax_worker/replica:0/task:6",
        "F0501 10:40:02.118 3312 client.h:80] Terminating process because the JAX distributed"
        " service detected fatal errors.",
    ]
    case = case_of_lines(tmp_path, *(f"completed step: {n}, loss: 2.{n}" for n in range(30)), *lost)
    read = line_to_read(case, case.roots.scores)
    assert read is not None
    assert "unhealthy" in case.event(read).example


def test_a_clear_cause_in_the_message_of_an_exception_leads_and_is_not_its_form(tmp_path: Path) -> None:
    raised = ["Traceback (most recent call last):", '  File "/job/fit.py", line 61', "    model.fit(data)"]
    form = "framework.errors_impl.NotFoundError: 2 root error(s) found."
    message = "  (0) Not found:  images/7.jpg; No such file or directory"
    assert case_of_lines(tmp_path, "begin", *raised, form, message).lead.category == "user.data.missing"
