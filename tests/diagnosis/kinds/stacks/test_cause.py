"""What a hang's stacks say of its cause."""

from __future__ import annotations

from typing import Any

from diagnosis.evidence import StackFinding, StackGroup, Suspect
from diagnosis.evidence.stack_findings import ComparedCollectives
from diagnosis.kinds.stacks.blame.stack_cause import cause


def stacks(activity: str, what: str = "", **more: Any) -> StackFinding:
    groups = (StackGroup((0, 1, 2), "comm"), StackGroup((3,), activity, what))
    suspects = (Suspect("rank 3", "rank", 0.8),)
    return StackFinding(suspect_ranks=(3,), suspects=suspects, groups=groups, **more)


def test_words_of_what_the_accused_rank_does_name_the_cause() -> None:
    assert cause(stacks("host", "waiting for its data loader")) == ("framework.dataloader", 0.6)


def test_a_rank_stuck_on_its_device_or_host_is_no_unknown_hang() -> None:
    assert cause(stacks("device")) == ("hardware.gpu.kernel", 0.44)
    assert cause(stacks("compute")) == ("hardware.host.stuck", 0.44)


def test_a_rank_without_a_process_was_killed_and_one_that_called_something_else_is_out_of_step() -> None:
    assert cause(stacks("nothing", missing_ranks=(3,))) == ("hardware.host.killed", 0.44)
    assert cause(stacks("comm", rule="mismatch")) == ("framework.collective.mismatch", 0.44)


def test_a_rank_stopped_in_the_same_call_as_its_peers_is_reported_with_less_confidence() -> None:
    assert cause(stacks("comm")) == ("hardware.host.stuck", 0.22)


def test_of_a_rank_that_did_not_come_to_a_collective_only_the_time_out_is_known() -> None:
    collectives = ComparedCollectives(host_stuck=(3,))
    assert cause(stacks("", collectives=collectives)) == ("framework.collective.timeout", 0.44)


def test_a_job_that_moves_has_a_straggler_and_nobody_accused_means_nothing() -> None:
    assert cause(stacks("compute", is_moving=True)) == ("performance.straggler", 0.6)
    assert cause(StackFinding()) == ("", 0.0)


def test_of_processes_that_all_wait_and_of_a_silent_node_only_the_time_out_is_known() -> None:
    assert cause(StackFinding(common_wait="in barrier")) == ("framework.collective.timeout", 0.275)
    assert cause(StackFinding(suspect_nodes=("n3",), suspects=(Suspect("n3", score=0.8),)))[0] == (
        "framework.collective.timeout"
    )


def test_what_all_dumped_ranks_do_names_the_cause_where_there_is_nobody_to_compare_with() -> None:
    alone = StackGroup((0,), "host", "waiting for its data loader")
    other = StackGroup((1,), "host", "reading or writing a checkpoint")
    assert cause(StackFinding(groups=(alone,), rule="too_few")) == ("framework.dataloader", 0.375)
    assert cause(StackFinding(groups=(alone, other))) == ("", 0.0)
    assert cause(StackFinding(groups=(StackGroup((0,), "local", "in step"),))) == ("", 0.0)
