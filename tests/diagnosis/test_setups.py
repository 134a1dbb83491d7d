"""Nodes compared with nodes: a value of a few is a finding about them, a difference without a majority about none."""

import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from diagnosis import setups
from diagnosis.evidence import Fact, Place
from diagnosis.kinds.logs.compare import stated_setups
from tests.diagnosis.cases import case_of_files


def facts(name: str, **values: str) -> list[tuple[str, Fact]]:
    return [("", Fact.of(Place("node", node.replace("_", "-")), (name,), value)) for node, value in values.items()]


def told(found: list[tuple[str, Fact]]) -> list[tuple[str, str]]:
    return [(result.target, result.outcome.adds) for result in setups.compare_nodes(found)]


def test_the_one_node_with_another_version_is_named() -> None:
    found = facts("NCCL version", gpu_1="2.27.5", gpu_2="2.21.5", gpu_3="2.27.5")
    assert told(found) == [("gpu-2", "user.environment.incompatible")]


def test_of_two_nodes_that_differ_none_is_the_odd_one() -> None:
    found = facts("NCCL version", gpu_1="2.27.5", gpu_2="2.21.5")
    assert told(found) == [("", "user.environment.incompatible")]


def test_nodes_that_agree_and_properties_that_nobody_compares_are_no_finding() -> None:
    assert told(facts("NCCL version", gpu_1="2.27.5", gpu_2="2.27.5")) == []
    assert told(facts("serial number", gpu_1="1", gpu_2="2", gpu_3="3")) == []


def test_a_report_and_a_log_state_the_same_property() -> None:
    found = [
        *facts("Driver Version", gpu_1="535.1"),
        *facts("driver version", gpu_2="550.1", gpu_3="535.1"),
    ]
    assert [result.target for result in setups.compare_nodes(found)] == ["gpu-2"]


def test_the_lines_of_each_node_state_its_set_up(tmp_path: Path) -> None:
    files = {
        f"gpu-{n}.log": [f"gpu-{n}:100:200 [0] NCCL INFO Using network {'Socket' if n == 2 else 'IB'}"]
        for n in range(4)
    }
    found = stated_setups.stated_setup(case_of_files(tmp_path, files))
    assert [(fact.place.name, fact.value, path) for path, fact in found][:2] == [
        ("gpu-0", "IB", "gpu-0.log"),
        ("gpu-1", "IB", "gpu-1.log"),
    ]
    [result] = setups.compare_nodes(found)
    assert (result.target, result.is_fault) == ("gpu-2", True)


ROWS = tomllib.loads(resources.files("diagnosis.knowledge").joinpath("setup.toml").read_text())["property"]


@pytest.mark.parametrize("row", [row for row in ROWS if "pattern" in row], ids=lambda row: row["id"])
def test_a_property_tells_its_example_from_its_counter_example(row: dict[str, str]) -> None:
    assert re.search(row["pattern"], row["example"])
    assert not re.search(row["pattern"], row["counter"])
