"""The exam is the same for a seed, and its truth names existing lines and machines. The engine is not used here: the
author of the exam had not seen it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab.exams.clusters import exam as clusters
from lab.exams.clusters.voices import NVIDIA, PATIENT, PYTHON, TORCH, VOICES
from lab.exams.clusters.world import WAYS
from lab.exams.courses import voices as known_voices
from lab.exams.job import Job

pytestmark = pytest.mark.xdist_group("fresh exam")
SHARED = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[3].parent / "shared"))

CATEGORIES = {
    "hardware": "gpu_off_bus gpu_ecc nvlink_error gpu_gsp_hang gpu_kernel npu_error nic_link_flap pcie_aer host_oom "
    "kernel_panic node_lost process_killed disk_io disk_full mce_memory thermal_slowdown silent_data_corruption",
    "network": "rdma_congestion switch_rdma_timeout link_down packet_loss",
    "framework": "nccl_internal rendezvous_timeout ckpt_corrupt collective_mismatch dataloader_hang elastic_restart",
    "user": "cuda_oom host_memory_leak shape_mismatch bad_config bad_argument import_error dataset_missing "
    "nan_divergence bad_data_assert user_code_exception native_crash",
    "platform": "preemption time_limit cancelled image_pull device_alloc storage_quota storage_outage scheduler",
    "performance": "straggler slow_dataloader slow_network slow_step",
    "unknown": "unknown",
}
STAGES = {
    *("launch", "rendezvous", "model_build", "checkpoint_load"),
    *("training", "evaluation", "checkpoint_save", "shutdown"),
}


@cache
def exam() -> tuple[Job, ...]:
    return tuple(clusters.jobs(3))


def failures() -> list[Job]:
    return [job for job in exam() if not job[3]["healthy"]]


def digest(job: Job) -> str:
    name, _, data, truth = job
    rows = [hashlib.sha256(held).hexdigest() + path for path, held in sorted(data.items())]
    return hashlib.sha256((name + "".join(rows) + json.dumps(truth, sort_keys=True)).encode()).hexdigest()


def lines_of(truth: dict[str, Any], role: str) -> list[tuple[str, str, int]]:
    """Path, template and line of every line that the truth gives a role."""
    return [
        (path, tid, line)
        for path, by_template in truth["lines"].get(role, {}).items()
        for tid, ranges in by_template.items()
        for first, last in ranges
        for line in range(first, last + 1)
    ]


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others() -> None:
    again = clusters.jobs(3)
    for job, _ in zip(exam(), range(2), strict=False):
        assert digest(next(again)) == digest(job)
    assert digest(next(clusters.jobs(4))) != digest(exam()[0])


def test_every_line_that_a_truth_names_is_there_and_says_what_its_template_says() -> None:
    for name, _, data, truth in failures():
        rows = {path: held.decode().split("\n") for path, held in data.items()}
        examples = {(t["role"], t["id"]): t["examples"] for t in truth["templates"]}
        for role in ("root", "secondary", "context"):
            for path, tid, line in lines_of(truth, role):
                text = rows[path][line - 1]
                if (role, tid) in examples and len(examples[role, tid]) == 1:
                    assert examples[role, tid][0] in text or json.dumps(examples[role, tid][0])[1:-1] in text, name
        roots = [rows[path][line - 1] for path, _, line in lines_of(truth, "root")]
        assert all(re.search(r"\w{3}", text) for text in roots), name


def test_a_progress_bar_that_is_drawn_again_and_again_is_one_line() -> None:
    assert any(b"\r" in held for _, _, data, _ in exam() for held in data.values())
    assert not any(b"\r\n" in held for _, _, data, _ in exam() for held in data.values())


def test_no_line_has_two_roles() -> None:
    for name, _, _, truth in failures():
        roles = Counter((path, line) for role in truth["lines"] for path, _, line in lines_of(truth, role))
        assert max(roles.values(), default=1) == 1, name


def test_every_machine_that_a_truth_names_is_found_in_the_files() -> None:
    for name, _, data, truth in failures():
        everything = "\n".join(data) + b"\n".join(data.values()).decode()
        for node in (*truth["faulty_nodes"], *truth["affected_nodes"], *truth["origin_nodes"]):
            assert node in everything, name


def test_truths_use_the_words_of_the_report() -> None:
    leaves = {leaf: category for category, names in CATEGORIES.items() for leaf in names.split()}
    for name, _, _, truth in failures():
        assert leaves[truth["subcategory"]] == truth["category"], name
        assert set(truth["category_accept"]) <= set(CATEGORIES), name
        assert set(truth["subcategory_accept"]) <= {*leaves, "storage_io"}, name
        assert truth["symptom"] in ("launch_failure", "crash", "hang", "slow"), name
        assert set(truth["stage_accept"]) <= STAGES, name


def test_an_iteration_that_a_truth_names_is_recognised_by_the_logs_and_is_the_last_before_a_failure() -> None:
    for name, _, data, truth in failures():
        iteration = truth["iteration"]
        if not iteration["applicable"]:
            continue
        logs = b"\n".join(held for path, held in data.items() if path != "job.json").decode()
        assert re.search(rf"(?<![\d.]){iteration['last_logged']}(?![\d.])", logs), name
        assert iteration["failed"] - iteration["last_logged"] in (0, 1), name


def test_jobs_are_large_where_it_matters_and_small_enough_to_be_read() -> None:
    lines = {name: sum(held.count(b"\n") for held in data.values()) for name, _, data, _ in exam()}
    assert max(lines.values()) <= 60_000
    assert {16, 64, 256, 512} <= {truth["n_nodes"] for _, _, _, truth in failures()}


def test_there_are_healthy_jobs_whose_logs_name_no_failure() -> None:
    healthy = [job for job in exam() if job[3]["healthy"]]
    assert len(healthy) >= 3
    assert all("lines" not in truth for _, _, _, truth in healthy)


def test_every_kind_of_course_is_among_them() -> None:
    truths = [truth for _, _, _, truth in failures()]
    slow = [t for t in truths if t["symptom"] == "slow" and not t["lines"].get("root")]
    hang = [t for t in truths if t["symptom"] == "hang" and not t["lines"].get("root")]
    assert slow and hang
    assert any(len(t["faulty_nodes"]) == 2 for t in truths)
    assert any(t["switch"] for t in truths)
    assert any(t["subcategory"] == "unknown" for t in truths)
    assert {"evaluation", "checkpoint_save", "checkpoint_load", "rendezvous", "launch"} <= {t["stage"] for t in truths}
    only_events = [data for _, _, data, _ in failures() if set(data) <= {"events.txt", "job.json"}]
    assert only_events


def test_every_voice_is_new_and_used() -> None:
    assert not {v.name for v in VOICES} & {v.name for v in known_voices.VOICES}
    named = {voice for _, _, voices in clusters.COURSES.values() for voice in voices}
    assert named == {v.name for v in VOICES}
    assert {*NVIDIA, *TORCH, *PATIENT, *PYTHON} <= named
    assert len({v.vendor for v in VOICES}) >= 5


def test_who_is_asked_to_wait_can_give_up() -> None:
    assert all(v.timeout for v in VOICES if v.name in PATIENT)


def test_a_history_holds_three_successes_of_every_voice_kept_in_known_ways() -> None:
    held = list(clusters.successes(3))
    assert Counter(voice for _, voice, _, _ in held) == {v.name: 3 for v in VOICES}
    assert all(truth["healthy"] for _, _, _, truth in held)
    assert {way for ways in clusters.KEPT.values() for way in ways} <= set(WAYS)


@pytest.mark.shared
def test_at_least_fifteen_causes_are_not_in_the_practice_set() -> None:
    folder = SHARED / "data" / "practice" / "truth" / "logs"
    if not folder.is_dir():
        pytest.skip(f"no reference evidence at {SHARED}")
    practised = {json.loads(path.read_text()).get("subcategory") for path in folder.glob("*.json")}
    assert len({truth["subcategory"] for _, _, _, truth in failures()} - practised) >= 15
