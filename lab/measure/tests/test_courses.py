"""Whole courses of events: the exam is the same for a seed, and the engine answers some of it with every log
collector.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from diagnosis import report
from diagnosis.history import History
from diagnosis.kinds.logs.decide import attempts
from diagnosis.model import Kind, Parsed
from diagnosis.pipeline import diagnose
from lab.exams.changes import LESS, SAME, Job
from lab.exams.courses.collectors import COLLECTORS, files
from lab.exams.courses.courses import COURSES
from lab.exams.courses.held_out import HELD
from lab.exams.courses.voices import VOICES
from lab.exams.courses.world import World
from lab.measure.evidence import parse_files
from lab.measure.stability import answer
from lab.measure.stability import report_of as report_of_files

VOICE = {v.name: v for v in VOICES}


def made(course: str, voice: str, collector: str, seed: str = "5") -> tuple[World, dict[str, bytes], dict[str, object]]:
    act, size = (COURSES | HELD)[course]
    world = World(seed, VOICE[voice], size)
    act(world)
    return world, *files(world, COLLECTORS[collector], is_described=False)


def logs_of(data: dict[str, bytes], work: Path) -> dict[str, object]:
    parsed, read = parse_files(data, work)
    found: dict[str, object] = report.to_json(diagnose(parsed, read=read))["logs"]
    return found


def accused(logs: dict[str, object]) -> list[str]:
    return [n["node"] for n in logs["nodes"] if n["suspect"]]  # type: ignore[index]


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others() -> None:
    one, again, other = (made("silent_node", "loguru", "by_node", seed)[1] for seed in ("1", "1", "2"))
    assert one == again != other


def test_the_truth_points_at_lines_that_it_quotes() -> None:
    for course in (*COURSES, *HELD):
        _, data, truth = made(course, "spdlog", "kubectl")
        if truth["healthy"]:
            continue
        texts = {p: d.decode().splitlines() for p, d in data.items()}
        roots = truth["lines"].get("root", {})  # type: ignore[attr-defined]
        quoted = {e for t in truth["templates"] if t["role"] == "root" for e in t["examples"]}  # type: ignore[attr-defined]
        at = {texts[p][low - 1] for p, ids in roots.items() for spans in ids.values() for low, _ in spans}
        assert quoted <= at, course


@pytest.mark.parametrize("collector", ["stern", "loki"])
def test_a_silent_machine_is_named_whatever_collected_the_logs(tmp_path: Path, collector: str) -> None:
    world, data, _ = made("silent_node", "structlog", collector)
    logs = logs_of(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    assert logs["id"] == "hardware.host.lost"


def test_the_node_whose_ranks_compute_longer_is_the_slow_one(tmp_path: Path) -> None:
    world, data, truth = made("slow_node", "paddle", "by_node")
    logs = logs_of(data, tmp_path)
    assert logs["symptom"] == "slow"
    assert accused(logs) == [world.nodes[world.victim]]
    assert abs(logs["iteration"] - truth["iteration"]["failed"]) <= 1  # type: ignore[index, operator]


def test_several_machines_that_the_launcher_names_as_lost_are_all_accused(tmp_path: Path) -> None:
    world, data, truth = made("rack_without_power", "spdlog", "srun")
    assert world.truth is not None
    assert sorted(accused(logs_of(data, tmp_path))) == sorted(truth["faulty_nodes"])  # type: ignore[arg-type]


def test_a_file_server_that_stops_answering_one_node_leads_where_nothing_else_does(tmp_path: Path) -> None:
    world, data, _ = made("writer_blocked", "spdlog", "pdsh")
    logs = logs_of(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    assert logs["id"] == "platform.storage.outage"


def test_checkpoints_tell_the_iteration_of_a_job_that_prints_no_other(tmp_path: Path) -> None:
    _, data, truth = made("preempted", "quiet", "stern")
    assert logs_of(data, tmp_path)["iteration"] == truth["iteration"]["last_logged"] + 1  # type: ignore[index]


def report_of(data: dict[str, bytes], work: Path) -> dict[str, object]:
    parsed, read = parse_files(data, work)
    return report.to_json(diagnose(parsed, read=read))


@pytest.mark.parametrize("way", ["descriptions", "numbers"])
def test_two_jobs_in_one_upload_are_diagnosed_apart_and_the_failed_one_is_reported(tmp_path: Path, way: str) -> None:
    one, other = World("8", VOICE["loguru"], 6), World("9", VOICE["paddle"], 6)
    COURSES["clock_an_hour_off"][0](one)
    COURSES["healthy"][0](other)
    is_described = way == "descriptions"
    names = ("a", "b") if is_described else ("slurm-71200", "slurm-71233")
    both: dict[str, bytes] = {}
    for world, name in zip((one, other), names, strict=True):
        data, _ = files(world, COLLECTORS["by_node"], is_described=is_described)
        both |= {f"{name}/{path}": held for path, held in data.items()}
    found = report_of(both, tmp_path)
    logs = found["logs"]
    assert accused(logs) == [one.nodes[one.victim]]  # type: ignore[arg-type]
    assert logs["id"] == "hardware.gpu.ecc"  # type: ignore[index]
    launches = [launch["outcome"] for launch in found["job"]["attempts"]]  # type: ignore[index]
    assert launches == ["failed"], "the other job is no launch of this one"
    assert any(s.startswith("These are the logs of 2 jobs") for s in found["missing"])  # type: ignore[attr-defined]


def test_dates_and_machines_in_paths_make_no_jobs_of_their_own() -> None:
    paths = ["job-20260401.log", "job-20260402.log", "logs/job-4653-worker-1.log", "logs/job-4653-worker-2.log"]
    logs = [Parsed(p, Kind.LOG) for p in paths]
    assert attempts.jobs_of_paths(logs, logs) == {}
    more = [Parsed("logs/job-4711-worker-1.log", Kind.LOG)]
    assert set(attempts.jobs_of_paths(logs[2:] + more, logs[2:] + more).values()) == {"4653", "4711"}


def test_the_skewed_clock_of_one_machine_is_put_right_within_a_file_of_all(tmp_path: Path) -> None:
    world = World("6", VOICE["structlog"], 8)
    world.skew[(world.victim + 1) % 8] = 95.0
    COURSES["silent_node"][0](world)
    data, _ = files(world, COLLECTORS["pdsh"], is_described=False)
    clocks = report_of(data, tmp_path)["clocks"]
    skews = [(c["node"], round(c["skew_s"])) for c in clocks if c["kind"] == "skew"]  # type: ignore[attr-defined]
    assert [node for node, _ in skews] == [world.nodes[(world.victim + 1) % 8]]
    assert abs(skews[0][1] - 95) <= 2


def test_the_answer_does_not_hang_on_names_order_place_or_company_of_files() -> None:
    world, data, _ = made("clock_an_hour_off", "loguru", "by_node")
    job = Job(data, tuple(world.nodes), frozenset({world.nodes[world.victim]}))
    base = answer(report_of_files(job, History(), ""), {})
    assert base["accused"] == [world.nodes[world.victim]]
    for change in ("permuted", "renamed", "of_windows"):
        other = SAME[change](job, Random(1))
        assert other is not None
        assert answer(report_of_files(other, History(), ""), {v: k for k, v in other.rename.items()}) == base, change


@pytest.mark.parametrize("change", ["halved", "undated"])
def test_lost_evidence_may_weaken_the_answer_but_accuses_nobody_else(tmp_path: Path, change: str) -> None:
    world, data, _ = made("clock_an_hour_off", "loguru", "by_node")
    job = Job(data, tuple(world.nodes), frozenset({world.nodes[world.victim]}))
    other = LESS[change](job, Random(1))
    assert other is not None
    assert set(answer(report_of_files(other, History(), ""), {})["accused"]) <= job.known


def test_an_error_before_the_workers_were_launched_again_is_no_cause(tmp_path: Path) -> None:
    world, data, _ = made("spare_steps_in", "quiet", "srun")
    logs = logs_of(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    assert logs["id"] == "hardware.host.oom"


def test_a_machine_that_prints_neither_consequences_nor_an_end_is_lost_though_nothing_is_dated(tmp_path: Path) -> None:
    world, data, _ = made("silent_node", "mindspeed", "by_rank")
    logs = logs_of(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    assert logs["id"] == "hardware.host.lost"


def test_a_hang_is_one_though_only_the_launcher_states_times(tmp_path: Path) -> None:
    _, data, _ = made("loader_stuck", "lightning", "srun")
    assert logs_of(data, tmp_path)["symptom"] == "hang"
