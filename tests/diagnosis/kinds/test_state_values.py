"""State reports of schedulers, of lists of events and of debuggers, judged by their values."""

from __future__ import annotations

import json

from diagnosis.evidence import Result, number_of
from diagnosis.evidence.check_results import MIN_FAULT_RATIO
from diagnosis.kinds import states
from diagnosis.kinds.kind_table import kind_of
from diagnosis.kinds.states import judgement
from diagnosis.model import Kind


def results(text: str, path: str = "gpu-19/report.txt") -> list[Result]:
    return judgement.analyse([states.parse(text.encode(), path)])


def test_a_list_in_yaml_belongs_to_its_key_and_a_node_is_its_own_place() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata:\n  labels:\n    a: b\n  name: gpu-node-8\nstatus:\n  conditions:\n"
    text += "  - type: Ready\n    status: Unknown\n    reason: NodeStatusUnknown\n"
    (found,) = results(text, "node.yaml")
    assert (found.target, found.words) == ("gpu-node-8", "status.conditions.reason: NodeStatusUnknown")


def test_a_job_that_ran_out_of_memory_with_exit_code_0_did_not_complete() -> None:
    text = "Job ID: 7\nCluster: hpc\nState: OUT_OF_MEMORY (exit code 0)\nMemory Efficiency: 100.00% of 2.00 TB\n"
    (found,) = results(text)
    assert found.outcome.adds == "hardware.host.oom"


def test_a_counter_with_commas_is_one_number() -> None:
    assert number_of("81,231") == 81_231.0
    assert number_of("1,2") == 1.0


def test_a_lost_node_of_a_job_is_named_by_the_scheduler() -> None:
    job = {"job_id": 7, "job_state": ["NODE_FAIL"], "nodes": "gpu-[11-14]", "failed_node": "gpu-14"}
    text = json.dumps({"meta": {"plugin": {"type": "openapi/slurmctld"}}, "jobs": [job]})
    (found,) = results(text, "job.json")
    assert (found.target, found.outcome.adds) == ("gpu-14", "hardware.host.lost")


def test_a_long_list_of_events_of_a_machine_is_a_report_although_each_has_a_time() -> None:
    line = "{} | 03/03/2026 | 02:13:44 | {} | Asserted\n"
    quiet = "".join(line.format(number, "OS Boot #0x23 | boot completed") for number in range(1, 9))
    text = quiet + line.format(9, "Memory #0x87 | Uncorrectable ECC (UnCorrectable ECC |  DIMMC2)")
    assert kind_of(text.encode(), "sel.txt") is Kind.STATE
    (found,) = results(text)
    assert found.outcome.adds == "hardware.host.memory"


def test_a_machine_that_was_switched_off_or_lost_its_cable_once_is_sound() -> None:
    line = "1 | 03/03/2026 | 02:13:44 | Power Unit #0x01 | {} | Asserted\n"
    for event in ("Power off/down", "Power Supply AC lost", "S5/G2: soft-off", "Presence detected"):
        assert results(line.format(event)) == []
    assert [found.outcome.id for found in results(line.format("Failure detected"))] == ["event-of-power"]


def test_an_exception_of_the_gpu_in_a_debugger_is_a_crash_of_the_program() -> None:
    text = 'Thread 1 "python3" received signal CUDA_EXCEPTION_14, Warp Illegal Address.\n(cuda-gdb) bt\n'
    text += "#0  0x00007f1288123f90 in rope_kernel<<<(128,1,1),(256,1,1)>>> () at rope.cu:88\n"
    assert kind_of(text.encode(), "bt.txt") is Kind.STATE
    (found,) = results(text)
    assert found.outcome.adds == "user.code.native_crash"
    assert kind_of(text.replace("CUDA_EXCEPTION_14", "SIGINT").encode(), "bt.txt") is not Kind.STATE


def test_the_time_limits_and_running_times_of_a_scheduler_make_no_log_of_its_table() -> None:
    table = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
    table += "".join(f"h100 up 7-00:00:00      1  alloc gpu-4{number}\n" for number in range(8))
    assert kind_of(table.encode(), "sinfo.txt") is Kind.STATE
    queue = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"
    queue += "".join(f"8124{number} h100 llm alice R 1-04:12:01 32 gpu-0{number}\n" for number in range(8))
    assert kind_of(queue.encode(), "squeue.txt") is Kind.STATE


def test_a_workload_that_gave_way_once_and_runs_again_does_not_fail_by_that_alone() -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nstatus:\n  conditions:\n"
    text += '  - reason: Preempted\n    status: "False"\n    type: Evicted\n'
    (found,) = results(text)
    assert found.outcome.ratio < MIN_FAULT_RATIO


def test_a_job_of_the_accounts_is_a_report_and_no_list_of_machines() -> None:
    job = {"account": "a", "association": {"id": 3}, "job_id": 7, "nodes": "n[1-4]"}
    job |= {"state": {"current": ["TIMEOUT"]}}
    text = json.dumps({"jobs": [job]}, indent=2)
    assert kind_of(text.encode(), "accounts.json") is Kind.STATE
    (found,) = results(text, "accounts.json")
    assert found.outcome.adds == "platform.scheduler.time_limit"
    described = json.dumps({"jobs": [{"job_id": 7, "nodes": ["n1", "n2"]}]}, indent=2)
    assert kind_of(described.encode(), "jobs.json") is Kind.INVENTORY


def test_a_header_that_a_paste_moved_does_not_cut_the_cells() -> None:
    text = "NAME      STATUS     ROLES    AGE   VERSION\nbox-a   Ready      none     9d   v1.30.1\n"
    text += "box-b   NotReady   none     9d   v1.30.1\n"
    (found,) = results(text, "nodes.txt")
    assert (found.target, found.words) == ("box-b", "STATUS: NotReady")


def test_a_container_that_waits_for_its_image_is_told_in_json_too() -> None:
    why = {"reason": "ErrImagePull", "message": "no space left on device"}
    waiting = {"name": "t", "state": {"waiting": why}}
    pod = {"kind": "Pod", "metadata": {"name": "w-2"}, "spec": {"nodeName": "box-b"}}
    pod |= {"status": {"containerStatuses": [waiting]}}
    found = results(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}), "pods.json")
    assert {one.outcome.adds for one in found} == {"platform.container.image", "hardware.disk.full"}
    assert {one.target for one in found} == {"box-b"}


def test_a_list_of_gpus_is_a_report_only_where_nothing_follows_it() -> None:
    text = "GPU 0: NVIDIA L4 (UUID: GPU-1f2e)\nGPU 1: NVIDIA L4 (UUID: GPU-3d4c)\n"
    assert kind_of(text.encode(), "gpus.txt") is Kind.STATE
    assert kind_of(f"{text}step 1 loss 2.5\nstep 2 loss 2.4\n".encode(), "train.log") is Kind.LOG


def test_a_daemon_of_ray_that_died_is_lost_and_a_cluster_without_failures_is_sound() -> None:
    text = "======== Autoscaler status: 2026-05-02 09:00:00 ========\nHealthy:\n 4 big\n"
    text += "Recent failures:\n{}\nResources\n 3.0/16.0 CPU\n"
    assert results(text.format(" (no failures)"), "status.txt") == []
    (found,) = results(text.format(" big: RayletUnexpectedlyDied (ip: 10.0.0.9)"), "status.txt")
    assert (found.target, found.outcome.adds) == ("10.0.0.9", "hardware.host.lost")
