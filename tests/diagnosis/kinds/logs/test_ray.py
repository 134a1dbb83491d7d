"""Lines that Ray's driver collects from its workers: "(Actor pid=7, ip=10.0.0.2) …"."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide import verdict
from tests.diagnosis.cases import case_of_lines

STEPS = [
    f"(PolicyActor pid=4411) INFO 11-10 01:{n:02d}:43 [ppo.py:259] global_step {n}: loss 2.{n} elapsed 60.1"
    for n in range(1, 30)
]
HOSTS = [
    f"(PolicyActor pid={pid}{ip}) {host}:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0:{address}<0>"
    for pid, ip, host, address in (
        (4411, "", "head-1", "10.25.3.71"),
        (812, ", ip=10.25.3.72", "worker-2", "10.25.3.72"),
        (813, ", ip=10.25.3.73", "worker-3", "10.25.3.73"),
    )
]


def test_the_prefix_is_no_part_of_the_message(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *HOSTS, *STEPS, "(PolicyActor pid=812, ip=10.25.3.72) KeyError: 'boxed'")
    assert "KeyError: 'boxed'" in case.catalogue.events["template"].to_list()


def test_the_address_in_the_prefix_is_the_machine_that_states_it(tmp_path: Path) -> None:
    error = (
        "(PolicyActor pid=812, ip=10.25.3.72) torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
    )
    case = case_of_lines(tmp_path, *HOSTS, *STEPS, error)
    assert set(case.catalogue.nodes) == {"head-1", "worker-2", "worker-3"}
    assert [n.node for n in verdict.conclude(case).nodes if n.is_suspect] == ["worker-2"]


def test_colours_that_have_lost_their_escape_hide_no_machine(tmp_path: Path) -> None:
    error = "[36m(PolicyActor pid=812, ip=10.25.3.72)[0m torch.AcceleratorError: CUDA error: uncorrectable ECC error"
    case = case_of_lines(tmp_path, *HOSTS, *STEPS, error)
    assert [n.node for n in verdict.conclude(case).nodes if n.is_suspect] == ["worker-2"]


def test_a_level_and_a_date_without_a_year_are_a_time(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *HOSTS, *STEPS)
    assert case.progress.last == 29
    assert case.pace.usual_s == pytest.approx(60.0)


def test_what_a_raylet_reports_of_its_own_machine_is_about_that_machine(tmp_path: Path) -> None:
    """Before, the prefix of a node's daemon was part of its message and named nobody."""
    killed = (
        "(raylet, ip=10.25.3.73) node_manager.cc:3193: 1 Workers (tasks / actors) killed due to memory pressure (OOM)"
    )
    found = verdict.conclude(case_of_lines(tmp_path, *HOSTS[:2], *STEPS, killed))
    assert [n.node for n in found.nodes if n.is_suspect] == ["10.25.3.73"]
