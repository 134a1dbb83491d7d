"""Who reports from outside the job: what comes late by its nature, and what only answers the job's own end."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.decide import verdict
from tests.diagnosis.cases import case_of, case_of_files
from tests.diagnosis.synthetic import Job

PEER_GONE = "[rank{rank}]: NCCL WARN socketProgress: Connection closed by remote peer gpu-0003<41000>"


def _broken() -> Job:
    job = Job(nodes=8, iterations=12, cut={3: 170.0})
    return job.all_say(job.ends + 10, PEER_GONE, but=(3,))


def test_a_scheduler_reports_a_lost_machine_minutes_after_its_peers_and_is_believed(tmp_path: Path) -> None:
    job = _broken().say(_broken().ends + 320, None, "error: Nodes gpu-0003 not responding, setting DOWN")
    case = case_of(job, tmp_path)
    assert case.roots.weights[case.lead.event] == 1.0
    found = verdict.conclude(case)
    assert found.verdict.id == "hardware.host.lost"
    assert [n.node for n in found.nodes if n.is_suspect] == ["gpu-0003"]


def test_a_launchers_unknown_error_before_the_consequences_may_be_the_cause(tmp_path: Path) -> None:
    job = Job(nodes=8, iterations=12)
    job.timed_out(job.ends + 600).say(job.ends + 20, None, "[job service] ERROR - fabric partition 7 is gone")
    case = case_of(job, tmp_path)
    assert "fabric partition" in case.lead.example


def test_a_check_that_failed_on_one_machine_before_the_start_accuses_this_machine(tmp_path: Path) -> None:
    kernel = "Oct  3 09:46:30 {node} kernel: NVRM: GPU 0000:06:00.0: persistence mode is already enabled"
    nodes = [f"node-h{number}" for number in range(122, 130)]
    files = {f"syslog/{node}.messages": [kernel.format(node=node)] for node in nodes}
    files["slurm-7.err"] = [
        *["srun: error: Task launch for StepId=7.0 failed on node node-h126: Job credential revoked"] * 3,
        "srun: error: Application launch failed: Job credential revoked",
        "srun: Terminating StepId=7.0",
    ]
    found = verdict.conclude(case_of_files(tmp_path, files))
    assert found.verdict.id == "platform.scheduler.error"
    assert [n.node for n in found.nodes if n.is_suspect] == ["node-h126"]
