"""Whole courses of events: the exam is the same for a seed, and the engine answers some of it whatever collected the
logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.unseen_courses.__main__ import evidence
from bench.unseen_courses.collected import COLLECTORS, files
from bench.unseen_courses.courses import COURSES
from bench.unseen_courses.held import HELD
from bench.unseen_courses.voices import VOICES
from bench.unseen_courses.world import World
from diagnosis import report
from diagnosis.pipeline import diagnose

VOICE = {v.name: v for v in VOICES}


def made(course: str, voice: str, collector: str, seed: str = "5") -> tuple[World, dict[str, bytes], dict[str, object]]:
    act, size = (COURSES | HELD)[course]
    world = World(seed, VOICE[voice], size)
    act(world)
    return world, *files(world, COLLECTORS[collector], is_described=False)


def told(data: dict[str, bytes], work: Path) -> dict[str, object]:
    parsed, read = evidence(data, work)
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


@pytest.mark.parametrize("collector", ["stern", "loki", "journal_short", "docker", "pdsh"])
def test_a_silent_machine_is_named_whatever_collected_the_logs(tmp_path: Path, collector: str) -> None:
    world, data, _ = made("silent_node", "structlog", collector)
    logs = told(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    # where the collector dates no line, the words of the watchdogs are all there is
    assert logs["id"] == ("framework.collective.timeout" if collector in ("stern", "pdsh") else "hardware.host.lost")


def test_the_node_whose_ranks_compute_longer_is_the_slow_one(tmp_path: Path) -> None:
    world, data, truth = made("slow_node", "paddle", "by_node")
    logs = told(data, tmp_path)
    assert logs["symptom"] == "slow"
    assert accused(logs) == [world.nodes[world.victim]]
    assert abs(logs["iteration"] - truth["iteration"]["failed"]) <= 1  # type: ignore[index, operator]


def test_several_machines_that_the_launcher_names_as_lost_are_all_accused(tmp_path: Path) -> None:
    world, data, truth = made("rack_without_power", "spdlog", "srun")
    assert world.truth is not None
    assert sorted(accused(told(data, tmp_path))) == sorted(truth["faulty_nodes"])  # type: ignore[arg-type]


def test_a_file_server_that_stops_answering_one_node_leads_where_nothing_else_does(tmp_path: Path) -> None:
    world, data, _ = made("writer_blocked", "spdlog", "pdsh")
    logs = told(data, tmp_path)
    assert accused(logs) == [world.nodes[world.victim]]
    assert logs["id"] == "platform.storage.outage"


def test_checkpoints_tell_the_iteration_of_a_job_that_prints_no_other(tmp_path: Path) -> None:
    _, data, truth = made("preempted", "quiet", "stern")
    assert told(data, tmp_path)["iteration"] == truth["iteration"]["last_logged"] + 1  # type: ignore[index]
