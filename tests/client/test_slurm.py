"""What Slurm's commands say, in the shapes of all versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultline.slurm import Job, Slurm, exit_of, hosts_of, jobs_of, nodes_of

SHAPES: list[Any] = [
    {"set": True, "infinite": False, "number": 768},
    {"status": "ERROR", "return_code": 3},
    {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    },
    "3:0",
    768,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_of_an_exit_code_says_the_same(shape: Any) -> None:
    assert exit_of(shape) == (3, 0)


def test_signals_are_told() -> None:
    assert exit_of("0:9") == exit_of(9) == (0, 9)
    assert exit_of({"return_code": 0, "signal": {"signal_id": 15}}) == (0, 15)
    named = {"return_code": {"number": 0}, "signal": {"id": {"set": True, "number": 9}, "name": "KILL"}}
    assert exit_of(named) == (0, 9)
    for broken in (None, "", "x:y", [], {}, {"number": "²"}, -5, 10**30):
        assert exit_of(broken) == (0, 0)


def row(**more: Any) -> dict[str, Any]:
    return {"job_id": 4711, "name": "llama", "job_state": "FAILED", "exit_code": 768, "nodes": "c[1-2]", **more}


@pytest.mark.parametrize(
    "said",
    [
        row(submit_time=1000, start_time=2000, end_time=3000, restart_cnt=1, state_reason="NonZeroExitCode"),
        row(
            job_state=["FAILED"],
            exit_code=SHAPES[2],
            submit_time={"set": True, "infinite": False, "number": 1000},
            start_time={"set": True, "number": 2000},
            end_time={"set": True, "number": 3000},
            restart_cnt=1,
            state_reason="NonZeroExitCode",
        ),
        {
            "job_id": 4711,
            "name": "llama",
            "state": {"current": ["FAILED"], "reason": "NonZeroExitCode"},
            "exit_code": SHAPES[1],
            "nodes": "c[1-2]",
            "restart_cnt": 1,
            "time": {"submission": 1000, "start": 2000, "end": 3000},
        },
    ],
    ids=["22.05", "23.11", "sacct"],
)
def test_json_of_all_versions_is_one_job(said: dict[str, Any]) -> None:
    found = jobs_of(json.dumps({"jobs": [said]}))
    assert found == [Job("4711", "llama", "FAILED", "NonZeroExitCode", 3, 0, 1, "c[1-2]", "", 1000, 2000, 3000, "", "")]
    assert found[0].outcome == "failed"


def test_records_of_scontrol_and_tables_of_sacct_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "JobId=12 JobName=a run UserId=ada(1000) GroupId=ml(7) JobState=NODE_FAIL Reason=NodeDown Dependency=(null) "
        "Requeue=1 Restarts=2 ExitCode=0:1 SubmitTime=2026-11-22T18:46:43 StartTime=Unknown NodeList=c[1-2] "
        "FailedNode=c2 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,node=1\n"
    )
    (job,) = jobs_of(text)
    assert (job.name, job.state, job.restarts, job.failed_node, job.signal) == ("a run", "NODE_FAIL", 2, "c2", 1)
    assert (job.start, job.submit > 0, job.user) == (0, True, "ada")
    table = (
        "JobID|JobName|State|ExitCode|Submit|Start|End|NodeList|Restarts\n"
        "12|a|CANCELLED by 1000|0:15|2026-11-22T18:46:43|2026-11-22T18:46:44|Unknown|c1|0\n"
        "12.batch|batch|FAILED|1:0|||||\n13_[4-9]|b|PENDING|0:0|||||\n13_2|b|RUNNING|0:0|||||\n14+1|c|RUNNING|0:0|||||\n"
    )
    found = jobs_of(table)
    assert [(job.id, job.state, job.outcome) for job in found] == [
        ("12", "CANCELLED", "cancelled"),
        ("13_2", "RUNNING", None),
        ("14+1", "RUNNING", None),
    ]


def test_a_task_of_an_array_has_the_id_that_its_own_script_sees() -> None:
    said = {
        "jobs": [row(job_id=14, array_job_id={"set": True, "number": 13}, array_task_id={"set": True, "number": 2})]
    }
    table = "JobID|JobIDRaw|State\n13_2|14|RUNNING\n13_[4-9]|13|PENDING\n13_2.batch|14.batch|RUNNING\n"
    for text in (json.dumps(said), "JobId=14 ArrayJobId=13 ArrayTaskId=2 JobState=RUNNING\n", table):
        assert [Slurm().slug_of(job) for job in jobs_of(text)] == ["14"]


def test_nodes_that_cannot_work_are_told_with_their_reason() -> None:
    text = (
        "NodeName=c1 Arch=x86_64 State=IDLE ThreadsPerCore=1\n"
        "NodeName=c2 Arch=x86_64 State=DOWN*+DRAIN ThreadsPerCore=1 Reason=Not responding [slurm@2026-11-22T18:46:47]\n"
    )
    (node,) = nodes_of(text)
    assert (node.name, node.reason) == ("c2", "Not responding")
    assert "DOWN*" in node.state
    said = [{"name": "c3", "state": "down", "state_flags": ["NOT_RESPONDING"], "reason": "power"}, {"name": "c4"}]
    assert [node.name for node in nodes_of(json.dumps({"nodes": said}))] == ["c3"]


def test_host_lists_are_expanded_within_a_limit() -> None:
    assert hosts_of("c[08-10,12],d1,gpu[1-2]-ib") == ["c08", "c09", "c10", "c12", "d1", "gpu1-ib", "gpu2-ib"]
    assert len(hosts_of("c[1-999999999],d[1-999999999]")) == 20_000
    assert hosts_of("c[x-y]") == []


@pytest.mark.parametrize("said", ["", "{", "[1]", '{"jobs": 5}', '{"jobs": [5, {}]}', "x=y", "|\n|", "[" * 99_999])
def test_no_output_breaks_it(said: str) -> None:
    assert jobs_of(said) == []
    assert nodes_of(said) == []
