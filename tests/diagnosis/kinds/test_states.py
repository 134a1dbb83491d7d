"""State reports: each format is recognised, read as facts, and judged by its values."""

from __future__ import annotations

import io
import json
import time
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from diagnosis import ParseHints, parse, pipeline
from diagnosis.evidence import Result
from diagnosis.kinds import states
from diagnosis.kinds.kind_table import kind_of
from diagnosis.kinds.states import bad_values, formats, judgement, report_sections
from diagnosis.kinds.states.known_shapes import shapes
from diagnosis.kinds.states.report_sections import MAX_NAMED_SECTIONS, facts_of
from diagnosis.model import Kind
from diagnosis.report import to_json


def results(text: str, path: str = "gpu-19/report.txt") -> list[Result]:
    return judgement.analyse([states.parse(text.encode(), path)])


@pytest.mark.parametrize("form", formats.load(), ids=lambda form: form.id)
def test_each_format_recognises_its_example_and_finds_nothing_wrong_that_is_not(form: formats.Format) -> None:
    assert formats.format_of(form.example) is form
    assert kind_of(form.example.encode(), "report.txt") is Kind.STATE
    found = results(form.example)
    assert [result.outcome.id for result in found] == []


@pytest.mark.parametrize(
    "value", ["Not Active", "0", "N/A", "ok", "No", "none", "False", "disabled", "0.0", "Pass - All"]
)
def test_a_value_that_says_no_is_never_bad(value: str) -> None:
    assert bad_values.says_no(value)


@pytest.mark.parametrize("value", ["Active", "NotReady", "1", "Yes", "Fail - GPU: 5", "DOWN+DRAIN", "rev ff"])
def test_a_value_that_says_something_is_judged(value: str) -> None:
    assert not bad_values.says_no(value)


def test_an_inactive_thermal_slowdown_is_no_fault_and_an_active_one_is() -> None:
    report = """<?xml version="1.0" ?><nvidia_smi_log><gpu id="00000000:17:00.0"><clocks_event_reasons>
      <clocks_event_reason_hw_thermal_slowdown>{}</clocks_event_reason_hw_thermal_slowdown>
    </clocks_event_reasons></gpu></nvidia_smi_log>"""
    assert results(report.format("Not Active")) == []
    (found,) = results(report.format("Active"))
    assert found.outcome.adds == "hardware.gpu.thermal"
    assert found.target == "gpu-19"
    assert "gpu 00000000:17:00.0" in found.words


def test_a_header_that_is_further_right_has_no_word_for_the_first_column() -> None:
    topology = "\t\x1b[4mGPU0\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tPXB\t0-47\nNIC0\tPXB\t X \t\n"
    found = {(fact.part, fact.name): fact.value for fact in facts_of(states.parse(topology.encode(), "topo.txt"))}
    assert found["GPU0", "NIC0"] == "PXB"
    assert found["NIC0", "GPU0"] == "PXB"
    monitor = "# gpu    pwr  gtemp\n# Idx      W      C\n    3    410     50\n"
    found = {(fact.part, fact.name): fact.value for fact in facts_of(states.parse(monitor.encode(), "dmon.txt"))}
    assert found == {("3", "pwr"): "410", ("3", "gtemp"): "50"}


def test_a_report_that_names_one_machine_is_of_that_machine() -> None:
    text = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 9000 on gpu-31 device  0 [0x1b] NVIDIA H100
# Avg bus bandwidth    : 64.6
"""
    assert {fact.place.name for fact in facts_of(states.parse(text.encode(), "out.txt"))} == {"gpu-31"}


def test_a_word_that_looks_like_no_machine_gives_way_to_the_name_of_the_folder() -> None:
    text = "HOSTNAME=localhost\nNCCL_DEBUG=INFO\nOMP_NUM_THREADS=8\n"
    assert [fact.place.name for fact in facts_of(states.parse(text.encode(), "gpu-63/env.txt"))] == ["gpu-63"] * 2
    assert [fact.place.name for fact in facts_of(states.parse(text.encode(), "env.txt"))] == ["localhost"] * 2


def test_a_declared_entity_is_not_expanded() -> None:
    bomb = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
    <nvidia_smi_log><gpu id="1">&b;</gpu></nvidia_smi_log>"""
    assert facts_of(states.parse(bomb.encode(), "a.xml")) == []


def test_the_last_xid_of_an_exporter_names_the_category_of_its_code() -> None:
    text = """# HELP DCGM_FI_DEV_XID_ERRORS Last XID.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="4",Hostname="trn-7"} 0
DCGM_FI_DEV_XID_ERRORS{gpu="5",Hostname="trn-7"} 79
"""
    (found,) = results(text)
    assert (found.target, found.outcome.adds, found.line) == ("trn-7", "hardware.gpu.off_bus", 4)


def test_the_reason_of_a_drained_node_is_read_by_the_rules_for_messages() -> None:
    text = """NodeName=gpu-19 Arch=x86_64 CoresPerSocket=48
   State=DOWN+DRAIN ThreadsPerCore=1
   Reason=NHC: GPU 0000:3d:00.0 fell off the bus [root@2026-03-02T08:16:40]
"""
    first = results(text, "anything.txt")[0]
    assert (first.target, first.outcome.adds) == ("gpu-19", "hardware.gpu.off_bus")


def test_a_port_slower_than_the_others_of_its_machine_is_told_and_equal_ones_are_not() -> None:
    ports = "CA 'mlx5_2'\n\tPort 1:\n\t\tRate: {}\nCA 'mlx5_3'\n\tPort 1:\n\t\tRate: 400\n"
    assert results(ports.format(400)) == []
    (found,) = results(ports.format(100))
    assert "mlx5_2" in found.words
    assert not found.is_fault  # ports may differ on purpose: it is told, and accuses nobody alone


def test_a_killed_container_is_placed_on_the_node_of_its_pod() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "run-w-19"},
        "spec": {"nodeName": "gpu-19"},
        "status": {"containerStatuses": [{"name": "trainer", "state": {"terminated": {"reason": "OOMKilled"}}}]},
    }
    (found,) = results(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}), "pods.json")
    assert (found.target, found.outcome.adds) == ("gpu-19", "hardware.host.oom")


def test_two_tools_in_one_paste_are_two_sections_with_their_own_lines() -> None:
    text = """$ lspci
17:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
3d:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)
$ ibstat
CA 'mlx5_0'
\tPort 1:
\t\tState: Down
"""
    found = {result.outcome.id: result.line for result in results(text)}
    assert found == {"device-off-bus": 3, "port-down": 7}


def test_a_device_with_fewer_lanes_than_it_can_have_is_a_weak_sign() -> None:
    text = "17:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n\tLnkSta: Speed 16GT/s (ok), Width {width}\n"
    (found,) = results(text.format(width="x8 (downgraded)"), "n7/lspci.txt")
    assert (found.outcome.id, found.target, found.is_fault) == ("device-below-its-width", "n7", False)
    assert results(text.format(width="x16 (ok)"), "n7/lspci.txt") == []


@pytest.mark.parametrize(
    ("path", "machine"),
    [
        ("ibstat-gpu-19.txt", "gpu-19"),
        ("gpu-19/ibstat.txt", "gpu-19"),
        ("gpu-50-good-freeze.txt", "gpu-50"),
        ("all_reduce_gpu-31.log", "gpu-31"),
        ("trn7_lspci.txt", "trn7"),
        ("lspci.gpu-19.txt", "gpu-19"),
        ("n7/lspci.txt", "n7"),
        ("r07-n01/lspci.txt", "r07-n01"),
        ("lspci_x1000c0s0b0n0.txt", "x1000c0s0b0n0"),
        ("10.1.2.3/lspci.txt", "10.1.2.3"),
        ("rank2.lspci.txt", ""),
        ("lspci-3.7.0.txt", ""),
        ("lspci.txt", ""),
        ("2026-03-02/lspci.txt", ""),
        ("f17-lspci.txt", ""),
        ("lspci-eth2.txt", ""),
        ("lspci-enp3s0f1.txt", ""),
        ("gpu-19/lspci_ens11f0np0.txt", "gpu-19"),
    ],
)
def test_the_machine_of_a_report_is_what_the_path_says_besides_the_tool(path: str, machine: str) -> None:
    (found,) = results("3d:00.0 3D controller: NVIDIA Corporation GH100 (rev ff)\n", path)
    assert found.target == machine


def test_a_log_that_quotes_a_report_stays_a_log() -> None:
    lines = [f"2026-03-02 08:15:{second:02d} INFO step {second} loss 2.0" for second in range(20)]
    text = "\n".join([*lines, "CA 'mlx5_0'", *lines])
    assert kind_of(text.encode(), "train.log") is Kind.LOG


@pytest.mark.parametrize("filler", [" ", "\t", "0", "a", "x ", "\t ."])
def test_no_row_takes_long_for_a_hostile_line(filler: str) -> None:
    rest = filler * (shapes.MAX_LINE_CHARS // len(filler))
    before = time.process_time()
    for form in formats.load():
        lines = [line for beginning in form.example.splitlines() for line in (beginning[:12] + rest, beginning + rest)]
        shapes.entries(form.shape, "\n".join(lines), form)
    lasted = time.process_time() - before
    assert lasted < 0.5  # a pattern whose search is quadratic takes as long for one of these lines


def test_deep_and_long_documents_are_bounded() -> None:
    deep = '{"apiVersion": "v1", "x": ' + "[" * 2_000 + "]" * 2_000 + "}"
    assert facts_of(states.parse(deep.encode(), "a.json"))[:1] != []
    many = "NodeName=a b\n" + "".join(f"Key{number}=1\n" for number in range(shapes.MAX_FACTS + 10))
    parsed = states.parse(many.encode(), "a.txt")
    assert len(facts_of(parsed)) == shapes.MAX_FACTS
    assert parsed.notes[-1] == "Only the first 100,000 facts were kept."


def test_a_paste_is_told_section_by_section_and_no_section_is_dropped_silently() -> None:
    ibstat = next(form for form in formats.load() if form.id == "ibstat").example
    smi = next(form for form in formats.load() if form.id == "nvidia-smi").example
    paste = f"root@gpu-22:~# ibstat\n{ibstat}root@gpu-22:~# ps\n1 init\nroot@gpu-22:~# nvidia-smi -q\n{smi}"
    unknown = 2 + ibstat.count("\n")
    assert states.parse(paste.encode(), "paste.txt").notes == (
        f"From line 1: ibstat: {len(facts_of(states.parse(ibstat.encode(), 'a')))} facts were read.",
        f"From line {unknown}: not recognised, 2 lines; nothing was concluded from them.",
        f"From line {unknown + 2}: nvidia-smi -q: 1 fact was read.",
    )


def test_sections_without_number_give_a_bounded_number_of_notes() -> None:
    sign = next(form for form in formats.load() if form.id == "nvidia-smi").example
    notes = states.parse((sign + "$ ps\n1 init\n" * 5_000).encode(), "paste.txt").notes
    assert len(notes) == MAX_NAMED_SECTIONS + 1
    assert notes[-1] == "And 4,981 more sections."


def outcomes(text: str, path: str = "gpu-19/report.txt") -> list[tuple[str, str]]:
    """Words and category of each bad value."""
    return [(result.words, result.outcome.adds) for result in results(text, path)]


def test_a_table_of_gpus_is_judged_by_its_cells_and_not_by_the_words_of_its_header() -> None:
    table = "timestamp, index, temperature.gpu, clocks_throttle_reasons.hw_thermal_slowdown\n"
    rows = [f"2026/03/02 09:15:0{second}.000, {gpu}, 60, Not Active\n" for second in range(3) for gpu in range(8)]
    assert kind_of((table + "".join(rows)).encode(), "gpus.csv") is Kind.STATE  # although each row has a time
    assert outcomes(table + "".join(rows)) == []
    rows[6] = "2026/03/02 09:15:00.000, 6, 92, Active\n"
    words = "GPU 6 clocks throttle reasons.hw thermal slowdown: Active"
    assert outcomes(table + "".join(rows)) == [(words, "hardware.gpu.thermal")]


def test_a_link_is_inactive_only_beside_links_of_other_gpus() -> None:
    gpu = "GPU {}: NVIDIA H100 PCIe (UUID: GPU-{})\n\t Link 0: {}\n"
    without = gpu.format(0, "a", "<inactive>") + gpu.format(1, "b", "<inactive>")
    assert outcomes(without) == []
    one = gpu.format(0, "a", "<inactive>") + gpu.format(1, "b", "26.562 GB/s")
    assert outcomes(one) == [("GPU 0 Link 0: <inactive>", "hardware.gpu.nvlink")]


def test_each_counter_of_a_line_belongs_to_the_port_at_its_beginning() -> None:
    text = 'Errors for "leaf-03"\n   GUID 0x248a0703009c1f20 port {}: [PortXmitWait == 9] [LinkDownedCounter == 9]\n'
    (found,) = results(text.format(17))
    assert (found.target, found.words) == ("leaf-03", "port 17 LinkDownedCounter: 9")


def test_a_link_below_what_both_ends_can_is_told() -> None:
    line = '      0x0002c903000e0b72     72    1[  ] ==( {} Active/  LinkUp)==>      55   17[  ] "leaf-03" ( {})\n'
    assert outcomes("CA: gpu07 mlx5_3:\n" + line.format("4X 53.125 Gbps", "")) == []
    narrow = results("CA: gpu07 mlx5_3:\n" + line.format("1X 25.78125 Gbps", "Could be 4X 53.125 Gbps"))
    assert [(one.target, one.outcome.id) for one in narrow] == [("gpu07", "link-below-its-width")]


@pytest.mark.parametrize(
    ("status", "found"),
    [("Ready", []), ("Ready,SchedulingDisabled", []), ("NotReady,SchedulingDisabled", ["hardware.host.lost"])],
)
def test_a_node_that_is_not_ready_is_named(status: str, found: list[str]) -> None:
    rows = ("gpu-18", "Ready"), ("gpu-19", status)
    table = "".join(f"{name:<9}{state:<28}<none>   90d   v1.29.3\n" for name, state in rows)
    text = f"{'NAME':<9}{'STATUS':<28}ROLES    AGE   VERSION\n{table}"
    assert [one.outcome.adds for one in results(text, "nodes.txt")] == found
    assert {one.target for one in results(text, "nodes.txt")} <= {"gpu-19"}


def test_a_pod_is_a_part_of_its_node_and_no_machine() -> None:
    text = (
        "NAME           READY   STATUS      RESTARTS      AGE    IP           NODE\n"
        "llm-worker-2   0/1     OOMKilled   12 (2m ago)   75m    10.1.0.5     gpu-19\n"
    )
    (found,) = results(text, "pods.txt")
    assert (found.target, found.words) == ("gpu-19", "llm-worker-2 STATUS: OOMKilled")


@pytest.mark.parametrize(("health", "found"), [("OK", []), ("Alarm", ["hardware.npu.fault"])])
def test_an_accelerator_with_an_alarm_is_told(health: str, found: list[str]) -> None:
    text = f"| npu-smi 23.0.rc3   Version: 23.0.rc3 |\n| 1     910B1    | {health:<13} | 95.1   45    0 / 0 |\n"
    assert [category for _, category in outcomes(text)] == found


def test_uncorrectable_errors_of_a_block_are_told_with_their_gpu() -> None:
    text = "=== ROCm System Management Interface ===\nGPU[3]: RAS INFO:\n  UMC    ENABLED    12    4\n"
    assert outcomes(text) == [("GPU[3] UMC: 4", "hardware.gpu.ecc")]


def test_a_report_that_a_program_prints_before_its_own_lines_is_the_beginning_of_a_log() -> None:
    report = "PyTorch version: 2.2.2\nIs debug build: False\n"
    assert states.sniff(report.encode(), "env.txt")
    assert not states.sniff(f"{report}Traceback (most recent call last):\nKeyError: 'x'\n".encode(), "env.txt")
    assert not states.sniff(b"begin\nPyTorch version: 2.2.2\nIs debug build: False\n", "train.log")


ROWS = tomllib.loads(resources.files("diagnosis.kinds.states").joinpath("bad_values.toml").read_text())["fault"]
EXAMPLES = {row["id"]: row["example"] for row in ROWS if "example" in row and not row["id"].startswith("layout-")}


@pytest.mark.parametrize(("fault", "text"), EXAMPLES.items(), ids=EXAMPLES)
def test_a_bad_value_of_a_report_is_found(fault: str, text: str) -> None:
    assert fault in [result.outcome.id for result in results(text)]


def test_the_node_of_a_described_pod_is_blamed() -> None:
    text = "Name:   w-3\nNamespace:  train\nNode:    gpu-9/10.0.3.9\nContainers:\n  t:\n    Reason:  OOMKilled\n"
    (found,) = results(text, "paste.txt")
    assert found.target == "gpu-9"


def test_listings_of_pods_say_on_which_node_each_pod_runs() -> None:
    table = (
        "NAME           READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE\n"
        "llm-worker-0   1/1     Running   0          75m   10.244.0.7    gpu-11   <none>\n"
    )
    pod = {"kind": "Pod", "metadata": {"name": "llm-worker-1"}, "spec": {"nodeName": "gpu-12"}}
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]})
    reports = [states.parse(table.encode(), "pods.txt"), states.parse(document.encode(), "pods.json")]
    assert states.nodes_of_pods(reports) == {"llm-worker-0": "gpu-11", "llm-worker-1": "gpu-12"}


PASTE = """root@gpu-19:~# ibstat
CA 'mlx5_0'
\tPort 1:
\t\tState: Down
and the job says
srun: error: gpu-19: task 3: Killed
===== dcgmi health =====
Health Monitor Report
| Overall Health   | Healthy       |
==> train.log <==
2026-03-04 10:00:01 step 100 loss 2.2
"""


def test_a_log_between_reports_is_read_as_a_log_whose_reports_are_blank(tmp_path: Path) -> None:
    one = parse(io.BytesIO(PASTE.encode()), "paste.txt", ParseHints(), tmp_path)
    assert (one.kind, one.lines, one.bytes) == (Kind.LOG, 11, len(PASTE))
    assert one.facts["formats"] == ["ibstat", "dcgmi-health"]
    assert one.notes == (
        "From line 1: ibstat: 1 fact was read.",
        "From line 6: 1 line of a log.",
        "From line 7: dcgmi health: 1 fact was read.",
        "From line 11: 1 line of a log.",
    )
    report = to_json(pipeline.diagnose([one], read=lambda path, start, size: PASTE.encode()[start : start + size]))
    assert "a port is down" in " ".join(report["inferred"])
    assert report["logs"]["events"][0]["lines"][0]["line"] == 6


def test_lines_of_a_log_keep_their_place_and_reports_lend_no_words() -> None:
    kept = report_sections.log_of(PASTE.encode())
    assert len(kept) == len(PASTE)
    assert kept.decode().splitlines()[5] == PASTE.splitlines()[5]
    assert not kept.decode().splitlines()[3].strip()
    assert report_sections.log_of(b"CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n") == b""


def test_the_events_of_a_described_pod_are_read_as_a_log() -> None:
    text = "Name:   w-3\nNamespace:  train\nEvents:\n  Warning  BackOff  2m  kubelet  Back-off restarting\n"
    assert b"Back-off restarting" in report_sections.log_of(text.encode())


def test_a_crash_of_a_container_fails_the_job_and_accuses_no_machine() -> None:
    pod = "Name:         llm-0\nNamespace:    train\nNode:         gpu-7/10.0.0.7\nContainers:\n  main:\n"
    crash = f"{pod}    State:        Terminated\n      Reason:     Error\n      Exit Code:  139\n"
    (found,) = results(crash, "pod.txt")
    assert (found.outcome.id, found.outcome.adds) == ("container-crashed", "user.code.native_crash")
    assert found.is_fault
    assert found.outcome.ratio == 1.0
    assert results(crash.replace("139", "0"), "pod.txt") == []


def test_what_ended_a_container_that_runs_again_is_of_the_time_before() -> None:
    killed = f"{POD}    State:    %s\n    Last State:  Terminated\n      Reason:  OOMKilled\n"
    assert [found.is_former for found in results(killed % "Running", "pod.txt")] == [True]
    assert [found.is_former for found in results(killed % "Waiting", "pod.txt")] == [False]


def test_what_a_terminated_container_states_of_itself_is_how_it_ended() -> None:
    killed = f"{POD}    State:    %s\n      Reason:  OOMKilled\n"
    assert [found.is_end for found in results(killed % "Terminated", "pod.txt")] == [True]
    assert [found.is_end for found in results(killed % "Waiting", "pod.txt")] == [False]


POD = "Name:    llm-0\nNamespace:  train\nNode:    gpu-7/10.0.0.7\nContainers:\n  main:\n"
CARD = """Sun Mar  1 09:11:02 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:43:00.0 Off |                 {:>4} |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize(
    ("cell", "category"), [("4", "hardware.gpu.ecc"), ("ERR!", "hardware.gpu.off_bus"), ("0", ""), ("Off", "")]
)
def test_the_plain_table_of_gpus_is_judged_by_its_cells(cell: str, category: str) -> None:
    assert [result.outcome.adds for result in results(CARD.format(cell))] == ([category] if category else [])
