"""Reports that no format describes are read by their layout, and accuse by plain words only."""

from __future__ import annotations

import io
import time
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from diagnosis import ParseHints, parse, pipeline
from diagnosis.evidence import Result
from diagnosis.kinds import states
from diagnosis.kinds.states import formats, layouts
from diagnosis.kinds.states.layout_reading import MAX_BYTES, MAX_SIZE, read_layouts
from diagnosis.kinds.states.report_sections import facts_of, host_of
from diagnosis.model import Kind, Parsed
from diagnosis.report import to_json

ROWS = tomllib.loads(resources.files("diagnosis.kinds.states").joinpath("bad_values.toml").read_text())["fault"]
EXAMPLES = {row["id"]: row["example"] for row in ROWS if row["id"].startswith("layout-")}


def read_texts(texts: dict[str, str]) -> dict[str, Parsed]:
    facts = {"dated_lines": 0}
    quiet = [Parsed(path, Kind.LOG, bytes=len(text), facts=facts) for path, text in texts.items()]
    return read_layouts(quiet, lambda path, offset, length: texts[path].encode()[offset : offset + length])


def results(text: str) -> list[Result]:
    return states.KIND.analyse(list(read_texts({"report.txt": text}).values()))


def stated(text: str) -> dict[tuple[str, str], str]:
    (one,) = read_texts({"report.txt": text}).values()
    return {(fact.part, fact.name): fact.value for fact in facts_of(one)}


@pytest.mark.parametrize("form", formats.load_layouts(), ids=lambda form: form.id)
def test_each_family_is_known_by_its_words_and_its_example_is_sound(form: formats.Format) -> None:
    assert layouts.family_of(form.example, "report.txt") == form
    assert stated(form.example)
    assert results(form.example) == []


@pytest.mark.parametrize(("fault", "text"), EXAMPLES.items(), ids=EXAMPLES)
def test_a_bad_value_is_found_by_its_words(fault: str, text: str) -> None:
    assert fault in [result.outcome.id for result in results(text)]


def test_a_table_is_read_by_its_header_whatever_parts_its_columns() -> None:
    expected = {("Eth1/1", "Speed"): "400G", ("Eth1/1", "Errors"): "0", ("Eth1/2", "Errors"): "7"}
    rows = [["Port", "Speed", "Errors"], ["Eth1/1", "400G", "0"], ["Eth1/2", "400G", "7"]]
    for mark in ("  ", ",", "\t", " | "):
        text = "\n".join(map(mark.join, rows))
        assert stated(text).items() >= expected.items()


def test_a_ruled_table_may_have_two_columns_and_a_gap_may_part_a_pair() -> None:
    text = "Package    Version\n---------- -------\nnumpy      1.26.4\ntorch      2.5.1\ntriton     3.1.0\n"
    assert stated(text)["torch", "Version"] == "2.5.1"
    text = "in-octets      81231\nin-errors      7\nout-octets     91\n"
    assert stated(text)["", "in errors"] == "7"


def test_dots_may_part_a_pair() -> None:
    text = "op name ....... compatible\nninja ......... [OKAY]\ntorch version ..... 2.5.1+cu124\n"
    assert stated(text)["", "torch version"] == "2.5.1+cu124"


IN_COLUMNS = (
    "=======\nLeaf 7 of rack 2\n=======\nports          | 64\n"
    "uptime         | 7d-10:38:53\n-------\n"
    "PSU0 status    | OK\nRDMA timeouts  | retry exceeded\n"
    "fan status     | ERROR\nfan#1 (rpm)    | 0\n"
)


def diagnosed(text: str, tmp_path: Path, name: str) -> dict[str, Any]:
    data = text.encode()
    parsed = parse(io.BytesIO(data), name, ParseHints(), tmp_path / "work")
    told = pipeline.diagnose([parsed], read=lambda path, offset, length: data[offset : offset + length])
    return to_json(told)


def test_values_in_one_column_are_a_report_whatever_their_words(tmp_path: Path) -> None:
    told = diagnosed(IN_COLUMNS, tmp_path, "leaf.txt")
    assert (told["inputs"][0]["kind"], told["conclusion"]["id"]) == ("state", "hardware.host.lost")
    assert "fan status: ERROR" in told["headline"]
    steps = "".join(f"step {number:<5} | loss 2.{number} left\n" for number in range(1, 9))
    assert not layouts.is_decided(steps)
    assert not layouts.is_decided(f"{IN_COLUMNS}RuntimeError: CUDA out of memory\n")


def test_one_document_is_a_report_and_its_texts_count_where_it_is_not_well(tmp_path: Path) -> None:
    check = '{"gpu": 3, "health": "%s", "reason": "Xid 79: GPU has fallen off the bus", "rev": "5"}'
    told = diagnosed(check % "Unhealthy", tmp_path, "states.json")
    assert told["inputs"][0]["kind"] == "state"
    assert told["conclusion"]["id"] == "hardware.gpu.off_bus"
    for quiet in (check % "Healthy", '{"a": 1, "note": "NCCL timeout", "b": 2}'):
        assert diagnosed(quiet, tmp_path, "a.json")["conclusion"]["condition"] == "unknown"


def test_what_is_well_hides_its_own_texts_and_no_others(tmp_path: Path) -> None:
    fault = '"reason": "Xid 79: GPU has fallen off the bus"'
    beside = f'{{"host": {{"health": "Healthy", "rev": "5"}}, "card": {{"rev": "5", {fault}}}}}'
    assert diagnosed(beside, tmp_path, "beside.json")["conclusion"]["id"] == "hardware.gpu.off_bus"
    listed = f'{{"gpus": [{{"id": "g0", "health": "Healthy"}}, {{"id": "g1", {fault}}}]}}'
    assert diagnosed(listed, tmp_path, "listed.json")["conclusion"]["id"] == "hardware.gpu.off_bus"


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 1, "x": 2}\n{"step": 2, "x": 3}\n',
        '[{"time": "2026-03-01T08:00:00Z", "message": "a"}]',
        '{"message": {"message": "RuntimeError: CUDA error", "extraInfo": {}}}',
        "[2026-03-01 08:00:00,100] [    INFO] - reading words\n===== start =====\nstep 1\nstep 2\n",
    ],
    ids=["one a line", "records", "an exception", "lines that begin with a bracket"],
)
def test_records_of_a_log_are_no_report(text: str) -> None:
    assert not layouts.is_decided(text)


def test_a_table_is_read_below_its_marks_and_with_empty_cells() -> None:
    text = (
        "Disk       Model         Used\n---------- ------------- ---------------\n"
        "/dev/d0    Acme 40 T     1.2  TB /   3 TB\n/dev/d1    Acme 40 T     1.1  TB /   3 TB\n"
    )
    assert stated(text).items() >= {("/dev/d0", "Model"): "Acme 40 T", ("/dev/d1", "Used"): "1.1  TB /   3 TB"}.items()
    text = "NAME    SIZE RO  PLACE\nd0      1.8T  0\n|-d0p1  512M  0  /boot\nd1      3.5T  0\n"
    assert stated(text).items() >= {("d0p1", "PLACE"): "/boot", ("d1", "SIZE"): "3.5T"}.items()
    assert ("d0", "PLACE") not in stated(text)


def test_marks_without_a_header_and_a_setting_that_differs_accuse_nobody() -> None:
    assert stated("---- ------ ----\na    b      c\nd    e      f\nPort: 7\n  Speed: 400G\n  MTU: 9\n")
    assert results("Port: 7\n  Consistency status: failed\n  Speed: 400G\n  MTU: 9214\n") == []


def test_each_fact_is_judged_as_one_of_its_own_family() -> None:
    text = "Port 1: up\nPort 2: up\nPort 3: up\nDrive nvme0: ok\n    media errors: 7\nGPU 3: ok\n    Health: Failed\n"
    assert [found.outcome.id for found in results(text)] == ["layout-drive-errors", "layout-bad-state"]


def test_what_is_further_right_belongs_to_the_part_above_it() -> None:
    text = "GPU: 3\n  Health: OK\n  Memory:\n    Used: 7 GB\nGPU: 4\n  Its own words\n    Health: Bad\n"
    found = stated(text)
    assert found["GPU 3", "Memory.Used"] == "7 GB"
    assert found["GPU 4", "Health"] == "Bad"


@pytest.mark.parametrize(
    "text",
    [
        "the job hung again\nwe restarted it\nand it ran\n",
        "12:00:01 a: 1\n12:00:02 b: 2\n12:00:03 c: 3\n",
        "step,loss\n1,2.5\n2,2.4\n3,2.3\n",
        "alpha beta gamma\n0 1 2\n1 4 5\n2 7 8\n",
        "ERROR: one\nERROR: two\nWARNING: three\n",
    ],
    ids=["prose", "a log", "a history", "numbers", "complaints"],
)
def test_a_text_without_the_layout_of_a_report_states_nothing(text: str) -> None:
    assert read_texts({"a.txt": text}) == {}


def test_a_text_with_many_times_and_levels_stays_a_log_and_one_of_them_makes_none() -> None:
    text = b"Port: 1\nSpeed: 400G\nErrors: 7\n"
    log = Parsed("a.log", Kind.LOG, bytes=len(text), lines=3, facts={"dated_lines": 2})
    assert read_layouts([log], lambda path, offset, length: text) == {}
    assert read_layouts([replace(log, facts={"dated_lines": 1})], lambda path, offset, length: text)


def test_an_interface_that_receives_many_packets_is_sound() -> None:
    text = "Ethernet1/1 is up\n  81237123123 packets input, 912312 bytes\n  0 input errors, 0 CRC, 0 alignment\n"
    assert results(text) == []
    (found,) = results(text.replace("0 CRC", "91,800 CRC"))
    assert found.words == "Ethernet1/1 is up CRC: 91,800"


def test_the_name_of_a_machine_says_nothing_of_the_family() -> None:
    text = "Port: 1\nName: gpu-01\nPeer: gpu-02\nOther: gpu-03\n"
    assert layouts.family_of(text, "leaf.txt").id == "layout-network"


def test_a_hostile_text_costs_little_and_a_large_one_is_not_read() -> None:
    lines = ["a" * 60 + " " * 3_000, "." * 4_000, "0 " * 2_000, "a: " * 1_300, "[{" * 2_000, "\t" * 4_000]
    for line in lines:
        began = time.process_time()
        read_texts({"a.txt": f"{line}\n" * 16})
        assert time.process_time() - began < 2.0
    assert read_texts({"a.txt": "a: 1\n" * (MAX_SIZE // 4)}) == {}
    (cut,) = read_texts({"a.txt": "a: 1\n" * MAX_BYTES}).values()
    assert cut.notes[-1] == f"Only the first {MAX_BYTES:,} of {5 * MAX_BYTES:,} bytes were read."


def test_a_text_of_an_unknown_tool_is_shown_with_its_facts_and_acquits_nobody(tmp_path: Path) -> None:
    data = b"Widget status\n  Colour: blue\n  Weight: 7 kg\n  Shape: round\n  Place: shelf 3\n"
    parsed = parse(io.BytesIO(data), "widget.txt", ParseHints(), tmp_path / "work")
    told = to_json(pipeline.diagnose([parsed], read=lambda path, offset, length: data[offset : offset + length]))
    assert told["inputs"][0]["unread"] is None
    assert "4 facts were read" in told["inputs"][0]["notes"][0]
    assert told["facts"]["facts"] == 4
    assert told["conclusion"]["condition"] == "unknown"
    assert told["headline"].startswith("Not enough evidence")


@pytest.mark.parametrize("blank", ["\n", " \n", "\t", "\r\n"])
def test_the_machine_of_a_report_is_sought_in_blank_lines_in_little_time(blank: str) -> None:
    began = time.process_time()
    assert host_of(blank * 60_000, "report.txt") == ""
    assert time.process_time() - began < 2.0
    assert host_of(f"{blank * 50}\nhostname: gpu-19\n", "report.txt") == "gpu-19"


def test_a_counter_before_its_number_and_a_key_before_a_time_are_pairs() -> None:
    counters = stated("low 0\nmax 812\noom_kill 2\n")
    assert sorted(counters.values()) == ["0", "2", "812"]
    assert stated("Last check: Tue Mar  3 09:10:11\nChecked by: ada\nBox: 7\n")["", "Last check"].startswith("Tue")


def test_lines_that_only_look_as_if_they_had_a_writer_may_be_a_report() -> None:
    text = b"Port: up\nSpeed: 400G\nErrors: 7\n"
    log = Parsed("a.log", Kind.LOG, bytes=len(text), lines=3, facts={"headed_lines": 3, "dated_lines": 0})
    assert read_layouts([log], lambda path, offset, length: text)


def test_words_that_mean_one_thing_judge_the_reports_of_known_tools_too() -> None:
    text = '{"@odata.id": "/redfish/v1/Log", "Members": [{"Id": "GPU_SXM_6", "Severity": "Critical"}]}'
    found = states.KIND.analyse([states.parse(text.encode(), "log.json")])
    assert [result.outcome.adds for result in found] == ["hardware.gpu.kernel"]


def test_what_a_format_cannot_read_is_read_by_its_layout() -> None:
    text = b'{"header": ["NVLINK Error Counts", "GPU 0"], "Link 0": {"CRC Data Error": 4000, "Replay Error": 0}}'
    found = states.KIND.analyse([states.parse(text, "links.json")])
    assert [result.outcome.id for result in found] == ["nvlink-errors"]


def test_a_text_that_begins_with_a_bracket_may_have_lines() -> None:
    assert (
        stated("[FIRING] box-7\n*Alert:* a box is lost\n*Team:* red\n• *Owner:* ada\n")["", "Alert"] == "a box is lost"
    )


def test_a_table_below_a_title_and_marks_is_read() -> None:
    rows = ["Slot State    Size Kind", "-------", "3    Failed 1.7 TB SSD", "4    Onln   1.7 TB SSD", "-------", ""]
    text = "\n".join(["Drives of the box :", "====", "-------", *rows])
    assert stated(text)["3", "State"] == "Failed"


def test_thousands_of_titles_are_read_once() -> None:
    assert read_texts({"a.txt": "a box\n---\n" * 2_000}) == {}


def test_the_degrees_that_are_left_to_a_limit_are_no_limit() -> None:
    figures = {"temperature_gpu": 59, "temperature_gpu_tlimit": 26, "fan_speed": 0, "power_draw": 71}
    lines = [f'# TYPE smi_{name} gauge\nsmi_{name}{{uuid="a1"}} {number}\n' for name, number in figures.items()]
    left = "".join(lines)
    assert not results(left)
    assert results(left.replace("tlimit", "limit"))


def test_a_limit_is_of_the_property_that_is_called_alike() -> None:
    own = "gpu temp temp_limit sm\ngpu0 61 95 132\ngpu1 62 95 132\ngpu2 97 95 132\n"
    assert results(own)
    assert not results(own.replace("temp temp_limit", "hotspot_temp temp_limit"))
