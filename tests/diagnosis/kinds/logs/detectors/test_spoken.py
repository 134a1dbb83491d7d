"""Who writes a line need not be who is meant: reports of another machine, and lines of a scheduler's daemon."""

import io
from pathlib import Path
from typing import Any

import pytest

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs.compare.detectors import spoken
from diagnosis.kinds.logs.decide import verdict
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job

NODES = ["r3-n01", "r3-n02", "r3-n03", "r3-n04"]


def at(second: float) -> str:
    return f"2026-03-01 08:{int(second) // 60:02d}:{second % 60:06.3f}"


def headed(second: float, node: str, text: str, level: str = "INFO") -> str:
    """A line of a house whose own header names its writer where no library would look for it."""
    return f'zeit={at(second)} stufe={level} rechner={node} rang={8 * NODES.index(node)} text="{text}"'


def logs_of(report: list[str]) -> dict[str, bytes]:
    """Four machines that train for a while; the first one ends with ``report``."""
    lines = {
        node: [headed(8 * n + k, node, f"Schritt {n} fertig, Verlust {3 - n / 99:.4f}") for n in range(30)]
        for k, node in enumerate(NODES)
    }
    lines[NODES[0]] += [headed(250 + n, NODES[0], text, "FEHLER") for n, text in enumerate(report)]
    return {f"logs/{node}.log": "\n".join([*told, ""]).encode() for node, told in lines.items()}


def told(logs: dict[str, bytes], work: Path) -> dict[str, Any]:
    parsed = [parse(io.BytesIO(data), path, ParseHints(), work / path) for path, data in logs.items()]
    found: dict[str, Any] = to_json(diagnose(parsed, read=lambda path, low, size: logs[path][low : low + size]))
    return found["logs"]  # type: ignore[no-any-return]


def accused(logs: dict[str, Any]) -> list[str]:
    return [node["node"] for node in logs["nodes"] if node["suspect"]]


def test_a_report_of_several_lines_accuses_the_machine_that_its_last_one_names(tmp_path: Path) -> None:
    report = [
        "replica check failed after step 29: 31 of 32 ranks agree on checksum 0x8f, one has 0x11",
        "same batch computed again, one has 0x12",
        "stopping, the device on r3-n03 computes wrong results",
    ]
    logs = told(logs_of(report), tmp_path)
    assert accused(logs) == ["r3-n03"]


def test_a_report_that_names_one_rank_and_its_machine_is_no_list_of_the_jobs_machines(tmp_path: Path) -> None:
    report = ["replica check failed after step 29", "stopping, rank 16 on r3-n03 computes wrong results"]
    assert accused(told(logs_of(report), tmp_path)) == ["r3-n03"]


@pytest.mark.parametrize("awaited", ["missing [16]", "still waiting for rank 16"])
def test_the_machine_of_the_one_rank_that_is_waited_for_is_accused_not_the_one_that_waits(
    awaited: str, tmp_path: Path
) -> None:
    logs = logs_of(["replica check failed after step 29", f"stopping, 31 of 32 ranks are here, {awaited}"])
    for number, node in enumerate(NODES):
        start = f"{node}:812:990 [0] NCCL INFO comm 0x55d0 rank {8 * number} nranks 32 cudaDev 0 nvmlDev 0 busId 9b000"
        logs[f"logs/{node}.log"] = f"{start}\n".encode() + logs[f"logs/{node}.log"]
    assert accused(told(logs, tmp_path)) == ["r3-n03"]


def test_several_awaited_ranks_accuse_no_machine(tmp_path: Path) -> None:
    report = ["replica check failed after step 29", "stopping, 30 of 32 ranks are here, missing [8, 16]"]
    assert accused(told(logs_of(report), tmp_path)) in ([], ["r3-n01"])


def test_a_machine_that_reports_of_itself_is_accused_itself(tmp_path: Path) -> None:
    report = [
        "replica check failed on r3-n01, r3-n03 agrees with the others",
        "stopping, r3-n01 computes wrong results",
    ]
    assert accused(told(logs_of(report), tmp_path)) in ([], ["r3-n01"])


def test_headers_are_not_looked_for_before_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken.THRESHOLDS, "few", 0)
    report = ["replica check failed after step 29", "stopping, the device on r3-n03 computes wrong results"]
    assert accused(told(logs_of(report), tmp_path)) != ["r3-n03"]


def test_the_machine_that_a_scheduler_lost_is_accused_not_the_one_that_says_so(tmp_path: Path) -> None:
    logs = logs_of([])
    stamp = "2026-03-01T08:04:10"
    logs["slurm.out"] = "\n".join(
        [
            "srun: error: Node failure on r3-n02",
            f"slurmstepd: error: *** JOB 91 ON r3-n01 CANCELLED AT {stamp} DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
            f"slurmstepd: error: *** STEP 91.0 ON r3-n01 CANCELLED AT {stamp} DUE TO NODE FAILURE ***",
            "srun: error: r3-n01: tasks 0-7: Terminated",
            "",
        ]
    ).encode()
    found = told(logs, tmp_path)
    assert accused(found) == ["r3-n02"]
    assert found["subcategory"] == "node_lost"


def test_the_machine_that_one_other_cannot_reach_is_accused_where_it_is_named(tmp_path: Path) -> None:
    lost = [f"keepalive to r3-n03: {40 + 12 * n}% of probes lost in the last 30 s" for n in range(4)]
    logs = logs_of([*lost, "OSError: [Errno 113] No route to host: r3-n03:29400"])
    assert accused(told(logs, tmp_path)) == ["r3-n03"]


def test_what_a_program_says_before_it_raises_names_the_machine_of_its_report(tmp_path: Path) -> None:
    logs = logs_of(["replay audit: digest on r3-n03 is 5a06, that batch gave 0a2d on all others"])
    raised = ["Traceback (most recent call last):", '  File "audit.py", line 9, in check', "    raise AuditError(text)"]
    raised += ["AuditError: results are not reproducible, training stops", ""]
    logs["logs/r3-n01.log"] += "\n".join(raised).encode()
    assert accused(told(logs, tmp_path)) == ["r3-n03"]


def test_the_machine_of_the_slowest_rank_is_named_also_if_it_says_so_itself(tmp_path: Path) -> None:
    job = Job(nodes=4, iterations=40, slow_from=120)
    for after in (10, 60, 110):
        job.say(
            job.ends - after, 0, "[rank0]: WARNING slowest of 8 ranks: 1 on gpu-0000, compute 20.3 s, median 10.1 s"
        )
    (clue,) = spoken.look(case_of(job, tmp_path))
    assert clue.node == "gpu-0000"


def test_an_audit_names_the_rank_whose_digest_differs_and_not_its_own_machine(tmp_path: Path) -> None:
    report = [
        "replay audit at 29: digest of rank 16 on r3-n03 is 5a02d077, that batch gave 0003d3a8 on all 31 others",
        "AuditError: results are not reproducible, training is halted",
    ]
    assert accused(told(logs_of(report), tmp_path)) == ["r3-n03"]


WAITING = "roll call: 3/4 after 60 s, missing gpu-0003"


def test_the_machine_that_those_who_wait_say_is_missing_is_accused_though_all_of_them_fail(tmp_path: Path) -> None:
    job = Job(nodes=4, iterations=0)
    job.say(60, 0, WAITING).all_say(300, "TimeoutError: roll call not complete after 300 s, 3 present", but=(3,))
    found = verdict.conclude(case_of(job, tmp_path))
    assert [node.node for node in found.nodes if node.is_suspect] == ["gpu-0003"]


def test_the_one_machine_that_does_not_reach_a_peer_is_accused_and_not_the_peer(tmp_path: Path) -> None:
    job = Job(nodes=4, iterations=0)
    job.all_say(300, "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients.", but=(2,))
    missed = "failed to connect to any network address of (gpu-0000, 29500)."
    job.say(300, 2, f"torch.distributed.DistNetworkError: The client socket has {missed}")
    found = verdict.conclude(case_of(job, tmp_path))
    assert [node.node for node in found.nodes if node.is_suspect] == ["gpu-0002"]
