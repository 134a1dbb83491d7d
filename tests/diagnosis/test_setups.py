"""Nodes compared with nodes: a value of a few is a finding about them, a difference without a majority about none."""

import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from diagnosis.evidence import Fact, Place, Suspect
from diagnosis.facts import setups
from diagnosis.joining import checked_suspects
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


def devices(node: str, count: int, speed: str = "32GT/s") -> list[tuple[str, Fact]]:
    place = Place("node", node)
    found = [Fact.of(place, ("3D controller",), "rev a1", part=f"{n}b:00.0") for n in range(count)]
    return [("", fact) for fact in [*found, Fact.of(place, ("LnkSta:\tSpeed",), speed, part="0b:00.0")]]


def test_a_node_with_fewer_devices_or_a_slower_one_is_named() -> None:
    fewer = [*devices("gpu-1", 8), *devices("gpu-2", 7), *devices("gpu-3", 8)]
    assert told(fewer) == [("gpu-2", "hardware.gpu.off_bus")]
    slower = [*devices("gpu-1", 8), *devices("gpu-2", 8), *devices("gpu-3", 8, "2.5GT/s")]
    assert told(slower) == [("gpu-3", "hardware.host.pcie")]
    assert told([*devices("gpu-1", 8), *devices("gpu-2", 8)]) == []


def test_a_line_that_names_one_gpu_does_not_say_how_many_there_are() -> None:
    log = facts("GPU model", gpu_1="NVIDIA H100")
    assert told([*log, *facts("Product Name", gpu_2="NVIDIA H100"), *facts("Product Name", gpu_3="NVIDIA H100")]) == []


def test_a_node_that_measures_far_less_than_the_middle_one_is_named() -> None:
    assert told(facts("Avg bus bandwidth", gpu_1="337.2", gpu_2="64.6", gpu_3="329.9")) == [
        ("gpu-2", "performance.network")
    ]
    assert told(facts("Avg bus bandwidth", gpu_1="337.2", gpu_2="300.0", gpu_3="329.9")) == []
    assert told(facts("Avg bus bandwidth", gpu_1="337.2", gpu_2="64.6")) == []  # of two nobody knows what is usual


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
    case = case_of_files(tmp_path, files)
    found = stated_setups.setup_in(case.table, stated_setups.messages(case), case.read)
    assert [(fact.place.name, fact.value, path) for path, fact in found][:2] == [
        ("gpu-0", "IB", "gpu-0.log"),
        ("gpu-1", "IB", "gpu-1.log"),
    ]
    [result] = setups.compare_nodes(found)
    assert (result.target, result.is_fault) == ("gpu-2", True)


def test_a_value_of_its_own_on_each_node_is_no_set_up() -> None:
    assert told(facts("environment variable NCCL_HOSTID", gpu_1="a", gpu_2="b", gpu_3="c")) == []


def test_an_environment_variable_is_one_property_in_a_line_and_in_a_report() -> None:
    found = [
        *facts("environment variable NCCL_IB_DISABLE", gpu_1="1", gpu_2="0"),
        *facts("NCCL IB DISABLE", gpu_3="0"),
        *facts("environment variable NCCL_DEBUG", gpu_1="INFO", gpu_2="WARN", gpu_3="WARN"),
    ]
    words = [result.words for result in setups.compare_nodes(found)]
    assert words == [
        "environment variable NCCL_DEBUG INFO, but WARN on 2 of 3 nodes",
        "environment variable NCCL_IB_DISABLE 1, but 0 on 2 of 3 nodes",
    ]


def of_files(name: str, *values: str) -> list[tuple[str, Fact]]:
    return [(f"{number}.txt", Fact.of(Place("node", ""), (name,), value)) for number, value in enumerate(values)]


def test_reports_without_a_machine_are_compared_file_by_file_and_weigh_half() -> None:
    (found,) = setups.compare_files(of_files("torch", "2.5.1", "2.4.0"))
    assert (found.target, found.words) == ("", "0.txt: 2.5.1; 1.txt: 2.4.0")
    assert found.outcome.says == "the files differ in their PyTorch version"
    assert (
        found.outcome.ratio == setups.compare_nodes(facts("torch", gpu_1="2.5.1", gpu_2="2.4.0"))[0].outcome.ratio / 2
    )


def test_files_are_no_places_where_one_report_names_its_machine_or_each_has_a_value_of_its_own() -> None:
    assert setups.compare_files([*of_files("torch", "2.5.1", "2.4.0"), *facts("torch", gpu_1="2.5.1")]) == []
    assert setups.compare_files(of_files("torch", "2.5.1", "2.5.1")) == []
    assert setups.compare_files(of_files("torch", "1.0", "2.0", "3.0")) == []


def test_a_line_may_state_several_properties() -> None:
    line = "NCCL_IB_DISABLE set by environment to 1. NCCL_DEBUG=INFO, driver 550.54.15"
    assert dict(setups.stated_in(line)) == {
        "driver version": "550.54.15",
        "environment variable NCCL_IB_DISABLE": "1",
        "environment variable NCCL_DEBUG": "INFO",
    }


SOCKETS = facts("network of NCCL", gpu_1="Socket", gpu_2="Socket", gpu_3="Socket")


def changes(found: list[tuple[str, Fact]], **healthy: str) -> list[tuple[str, bool]]:
    before = {name.replace("_", " "): value for name, value in healthy.items()}
    results = setups.compare_with_healthy(found, before | {"other": "x"}, "job-7")
    return [(result.words, result.is_fault) for result in results]


def test_all_nodes_alike_but_worse_than_the_last_healthy_job_are_a_finding() -> None:
    said = "network of NCCL Socket, but IB in the healthy job job-7"
    assert changes(SOCKETS, network_of_NCCL="IB") == [(said, True)]
    assert changes(facts("port rate", gpu_1="200", gpu_2="200"), port_rate="400")[0][1]


def test_another_value_than_in_the_last_healthy_job_that_is_no_worse_is_a_remark() -> None:
    assert changes(facts("driver version", gpu_1="550.1"), driver_version="535.1")[0][1] is False
    assert changes(facts("port rate", gpu_1="400"), port_rate="200")[0][1] is False
    assert changes(SOCKETS, network_of_NCCL="Socket") == []


ROWS = tomllib.loads(resources.files("diagnosis.knowledge").joinpath("setup.toml").read_text())["property"]


@pytest.mark.parametrize("row", [row for row in ROWS if "pattern" in row], ids=lambda row: row["id"])
def test_a_property_tells_its_example_from_its_counter_example(row: dict[str, str]) -> None:
    assert re.search(row["pattern"], row["example"])["value"]
    assert not re.search(row["pattern"], row["counter"])


def test_a_difference_says_who_and_both_values() -> None:
    (found,) = setups.compare_nodes(facts("network of NCCL", gpu_1="IB", gpu_2="Socket", gpu_3="IB"))
    assert found.sentence == (
        "gpu-2 uses another network than the other nodes (network of NCCL Socket, but IB on 2 of 3 nodes)."
    )


def test_versions_that_differ_together_are_one_piece_of_evidence() -> None:
    versions = facts("NCCL version", gpu_1="2.27.5", gpu_2="2.21.5", gpu_3="2.27.5")
    one = setups.compare_nodes(versions)
    both = setups.compare_nodes([*versions, *facts("driver version", gpu_1="570.1", gpu_2="535.1", gpu_3="570.1")])
    assert len(both) == 2
    nobody = [Suspect("gpu-1", "node", 0.1)]
    assert (
        checked_suspects.update_suspects(nobody, both)[0].score
        == checked_suspects.update_suspects(nobody, one)[0].score
    )
    assert checked_suspects.update_categories([], both) == checked_suspects.update_categories([], one)
