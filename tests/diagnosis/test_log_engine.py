"""The log engine on small made-up jobs: who, when, what, with and without words for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.history import History
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from diagnosis.values.plain import percent
from tests.diagnosis.synthetic import PROGRESS, T0, Job, accused, healthy_history, read_files, told


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return healthy_history(tmp_path_factory.mktemp("history"))


def fallen_gpu(framework: str = "megatron") -> Job:
    """GPU 1 of node 3 falls off the bus after the last iteration; the others notice at once."""
    job = Job(framework=framework)
    at = job.ends + 2
    job.say(at, 3, "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4243, name=python3, GPU has fallen off the bus.")
    job.all_say(
        at + 20,
        "[rank{rank}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error",
        (3,),
    )
    return job.torn_down(at + 25)


@pytest.mark.parametrize("framework", sorted(PROGRESS))
def test_the_iteration_is_found_whatever_the_framework_calls_it(framework: str, tmp_path: Path) -> None:
    logs = told(fallen_gpu(framework), tmp_path)["logs"]
    assert logs["iteration"] in (130, 131)
    assert (logs["stage"], logs["symptom"]) == ("training", "crash")


def test_the_node_with_the_cause_is_named_though_its_peers_are_louder(tmp_path: Path) -> None:
    report = told(fallen_gpu(), tmp_path)
    assert accused(report) == ["gpu-0003"]
    assert report["logs"]["subcategory"] == "gpu_off_bus"
    assert [(line["file"], "Xid" in report["logs"]["events"][0]["example"]) for line in report["logs"]["lines"]] == [
        ("logs/gpu-0003.log", True)
    ]
    assert "gpu-0003" in report["headline"] and "7 other nodes" in report["headline"]


def test_a_healthy_job_accuses_nobody_and_shows_no_failure(history: History, tmp_path: Path) -> None:
    job = (
        Job(iterations=25)
        .completes()
        .say(30, 5, "[rank10]: ERROR: metrics exporter: push failed with status 500, will retry")
    )
    logs = told(job, tmp_path, history)["logs"]
    assert (logs["is_failure"], logs["outcome"], logs["category"], logs["symptom"]) == (
        False,
        "succeeded",
        "none",
        "none",
    )
    assert logs["lines"] == [] and logs["nodes"] == []


def test_an_error_that_training_survived_is_not_the_cause(tmp_path: Path) -> None:
    job = fallen_gpu().say(
        80.0, 6, "kernel: NVRM: Xid (PCI:0000:1a:00): 94, pid=77, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
    )
    report = told(job, tmp_path)
    assert accused(report) == ["gpu-0003"]
    assert all("gpu-0006" not in line["file"] for line in report["logs"]["lines"])


def test_a_line_that_no_rule_knows_is_found_by_its_node_and_time(history: History, tmp_path: Path) -> None:
    job = Job()
    at = job.ends + 1
    job.say(at, 5, "kernel: zorblax 0000:7a:00.0: flux valve stuck open, halting engine 3")
    report = told(job.timed_out(at + 600, (5,)).torn_down(at + 605), tmp_path, history)
    assert accused(report) == ["gpu-0005"]
    assert "zorblax" in report["logs"]["events"][0]["example"]


def test_the_one_rank_that_does_not_report_the_time_out_is_suspected(history: History, tmp_path: Path) -> None:
    job = Job()
    report = told(job.timed_out(job.ends + 600, (2,)).torn_down(job.ends + 610), tmp_path, history)
    assert report["logs"]["nodes"][0]["node"] == "gpu-0002"
    assert report["logs"]["symptom"] == "hang"


def test_a_node_that_falls_silent_is_accused_of_being_lost(history: History, tmp_path: Path) -> None:
    job = Job(cut={4: Job().ends - 1})
    report = told(job.timed_out(job.ends + 600).torn_down(job.ends + 605), tmp_path, history)
    assert accused(report) == ["gpu-0004"]
    assert report["logs"]["subcategory"] == "node_lost"
    assert report["logs"]["symptom"] == "crash"


def test_a_node_without_any_log_is_accused_when_the_ranks_never_met(tmp_path: Path) -> None:
    job = Job(iterations=0, absent=frozenset({6}))
    job.say(
        700,
        0,
        "[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 14/16 "
        "clients joined.",
    )
    report = told(job.torn_down(705), tmp_path)
    assert accused(report) == ["gpu-0006"]
    assert report["logs"]["symptom"] == "launch_failure" and report["logs"]["iteration"] is None


def test_the_same_exception_everywhere_is_nobodys_node(tmp_path: Path) -> None:
    job = Job().all_say(Job().ends + 1, "[rank{rank}]: KeyError: 'attention_mask'")
    report = told(job.torn_down(job.ends + 5), tmp_path)
    assert accused(report) == []
    assert report["logs"]["category"] == "user" and "no faulty node" in report["logs"]["answer"]


def test_an_exception_of_one_rank_ranks_its_node_but_does_not_accuse_the_machine(tmp_path: Path) -> None:
    job = Job()
    job.say(job.ends + 1, 2, "[rank4]: ValueError: could not broadcast input array from shape (3,) into shape (4,)")
    job.all_say(job.ends + 2, "[rank{rank}]: RuntimeError: Connection closed by peer [10.0.0.9]:4242", (2,))
    report = told(job.torn_down(job.ends + 5), tmp_path)
    assert report["logs"]["nodes"][0]["node"] == "gpu-0002"
    assert accused(report) == []


def test_a_worker_that_dies_by_a_signal_without_a_word_is_found_in_its_launchers_log(tmp_path: Path) -> None:
    job = Job()
    job.say(
        job.ends + 1,
        7,
        "E1010 10:10:10 4242 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
        "local_rank: 1 (pid: 4243) of binary: /usr/bin/python3",
    )
    job.all_say(job.ends + 2, "[rank{rank}]: RuntimeError: Connection reset by peer", (7,))
    report = told(job.torn_down(job.ends + 5), tmp_path)
    assert accused(report) == ["gpu-0007"]
    assert report["logs"]["subcategory"] == "process_killed"
    # without a kernel's log, who sent the signal is open, but not whose machine it was
    first, second = report["logs"]["confidence"], report["logs"]["runner_up"]["confidence"]
    either = f"({percent(second)}); either way it belongs to Hardware, Host ({percent(first + second)})."
    assert f"It may also be Host out of memory {either}" in report["inferred"]


def test_a_slowdown_is_found_without_any_error_line(tmp_path: Path) -> None:
    job = Job(slow_from=118)
    job.say(job.ends + 3, None, "2025-10-09T09:20:00 job 77: cancelled by user request")
    logs = told(job.torn_down(job.ends + 4), tmp_path)["logs"]
    assert (logs["symptom"], logs["iteration"], logs["stage"]) == ("slow", 118, "training")


def test_a_hang_that_an_operator_ends_is_found_without_any_error_line(history: History, tmp_path: Path) -> None:
    job = Job()
    logs = told(job.torn_down(job.ends + 900), tmp_path, history)["logs"]
    assert (logs["symptom"], logs["iteration"]) == ("hang", 131)


def test_a_clock_that_is_an_hour_off_is_seen_and_does_not_shift_the_blame(tmp_path: Path) -> None:
    job = fallen_gpu()
    job.skew_s = {5: -3600.0}
    report = told(job, tmp_path)
    assert accused(report) == ["gpu-0003"]
    told_of = {c["node"] or c["file"]: c["skew_s"] for c in report["clocks"]}
    assert any(abs(s + 3600) < 5 for s in told_of.values()), told_of


def test_a_job_without_time_stamps_is_diagnosed_by_the_order_of_lines(tmp_path: Path) -> None:
    job = Job(is_stamped=False)
    job.say(
        job.ends + 2, 3, "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4243, name=python3, GPU has fallen off the bus."
    )
    job.all_say(
        job.ends + 20,
        "[rank{rank}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error",
        (3,),
    )
    report = told(job, tmp_path)
    assert accused(report) == ["gpu-0003"]
    assert report["logs"]["iteration"] in (130, 131)
    assert any("time stamp" in m for m in report["missing"])


def test_logs_of_one_node_only_are_diagnosed_and_the_lack_is_reported(tmp_path: Path) -> None:
    job = fallen_gpu()
    job.absent = frozenset(range(8)) - {3}
    report = told(job, tmp_path)
    assert report["logs"]["subcategory"] == "gpu_off_bus"
    assert any("7 of 8 nodes" in m for m in report["missing"])


def test_half_of_the_logs_missing_accuses_none_of_the_missing(tmp_path: Path) -> None:
    job = fallen_gpu()
    job.absent = frozenset({4, 5, 6, 7})
    assert accused(told(job, tmp_path)) == ["gpu-0003"]


def test_a_job_that_still_prints_progress_is_running(tmp_path: Path) -> None:
    job = Job()
    logs = told(job, tmp_path)["logs"]
    assert (logs["is_failure"], logs["outcome"]) == (False, "running")
    late = told(job, tmp_path / "later", as_of=1_760_000_000.0 + 20_000)["logs"]
    assert late["outcome"] == "unknown"


def test_the_same_input_gives_the_same_bytes_in_any_order(history: History, tmp_path: Path) -> None:
    from diagnosis import report
    from diagnosis.pipeline import diagnose
    from tests.diagnosis.synthetic import read_files

    parsed, read = read_files(fallen_gpu().files(), tmp_path)
    one = json.dumps(report.to_json(diagnose(parsed, history=history, read=read)))
    other = json.dumps(report.to_json(diagnose(parsed[::-1], history=history, read=read)))
    assert one == other


def test_an_unexplained_hang_is_recognised_by_what_is_known_of_it(tmp_path: Path) -> None:
    job = Job()
    report = told(job.torn_down(job.ends + 900), tmp_path)
    assert report["headline"].startswith("The job hung in training at iteration 131, cause unknown: no progress since")
    assert "iteration 130 at 08:59:20 UTC; the end came 15 minutes later." in report["headline"]


def test_a_root_line_without_a_stamp_is_dated_by_what_ended_with_it(tmp_path: Path) -> None:
    job = Job()
    job.all_say(job.ends + 4, "[rank{rank}]: RuntimeError: Connection closed by peer [10.0.0.9]:4242", (2,))
    files = job.torn_down(job.ends + 5).files()
    # rank 5 states a time at its start only, as the error stream of a worker does
    files["logs/gpu-0002/5/stderr.log"] = (
        b"2025-10-09T08:53:25Z [rank5]: socket.cpp: connected\n"
        b"[rank5]: Traceback (most recent call last):\n"
        b'[rank5]:   File "train.py", line 3, in <module>\n'
        b"[rank5]: ValueError: could not broadcast input array from shape (3,) into shape (4,)\n"
    )
    parsed, read = read_files(files, tmp_path / "job")
    logs = to_json(diagnose(parsed, job=job.hints(), read=read))["logs"]
    root = next(event for event in logs["events"] if event["role"] == "root")
    assert "broadcast" in root["template"]
    assert root["first_at"] == root["lines"][0]["time"] == T0 + job.ends
    lane = next(lane for lane in logs["timeline"]["lanes"] if lane["node"] == "gpu-0002")
    assert next(mark["t"] for mark in lane["marks"] if mark["role"] == "root") == T0 + job.ends


def test_a_meeting_that_misses_nodes_fails_at_the_rendezvous_though_all_have_just_been_launched(
    tmp_path: Path,
) -> None:
    files = {
        f"logs/gpu-{node:04d}.log": (
            f"2025-10-09T08:53:2{node}Z launching workers of gpu-{node:04d}\n"
            f"2025-10-09T08:58:2{node}Z [ERROR] agent: giving up, only 7 of 8 nodes registered\n"
        ).encode()
        for node in range(7)
    }
    parsed, read = read_files(files, tmp_path)
    logs = to_json(diagnose(parsed, job=Job().hints(), read=read))["logs"]
    assert (logs["id"], logs["symptom"], logs["stage"]) == ("framework.rendezvous", "launch_failure", "rendezvous")


def test_of_a_schedulers_words_about_one_cancelling_only_the_first_is_a_root(tmp_path: Path) -> None:
    job = Job()
    job.say(job.ends + 3, None, "slurmstepd: error: *** STEP 91.0 ON gpu-0000 CANCELLED AT 2025-10-09T08:59:23 ***")
    job.say(job.ends + 40, None, "slurmstepd: error: *** JOB 91 ON gpu-0000 CANCELLED AT 2025-10-09T09:00:00 ***")
    job.say(job.ends + 41, None, "slurmstepd: error: *** STEP 91.1 ON gpu-0000 CANCELLED AT 2025-10-09T09:00:01 ***")
    job.say(job.ends + 42, None, "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
    logs = told(job, tmp_path)["logs"]
    roots = [line["line"] for event in logs["events"] if event["role"] == "root" for line in event["lines"]]
    assert logs["subcategory"] == "cancelled" and roots == [1]
