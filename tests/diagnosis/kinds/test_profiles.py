"""Traces of PyTorch's profiler: the times of each rank's GPU, step by step."""

import json
from collections.abc import Mapping
from typing import Any

from diagnosis.facts import unevenness
from diagnosis.kinds import states
from diagnosis.kinds.kind_table import kind_of
from diagnosis.kinds.states import report_sections
from diagnosis.kinds.states.known_shapes import profiles
from diagnosis.model import Kind, Parsed

STEP_US = 400_000


def events(compute_us: int, wait_us: int, steps: int = 6) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for step in range(steps):
        start = step * STEP_US
        found += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": STEP_US},
            {"ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm", "ts": start + 5, "dur": compute_us},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum", "ts": start + 9, "dur": wait_us},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": start + 9, "dur": 9_000_000},
        ]
    return found


def trace(rank: int, **times: int) -> str:
    shown = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"backend": "nccl", "rank": rank}}
    return json.dumps({**shown, "traceEvents": events(**times)})


def parsed(text: str, path: str) -> Parsed:
    return states.parse(text.encode(), path)


def test_kernels_are_summed_by_step_and_collectives_apart() -> None:
    part, steps = profiles.read(trace(3, compute_us=210, wait_us=140))
    assert part == "rank 3"
    assert steps == [profiles.StepTimes(210.0, 140.0)] * 6


def test_the_rank_that_computes_longer_is_slow_and_not_those_that_wait_for_it() -> None:
    files = [parsed(trace(rank, compute_us=210_000, wait_us=140_000), f"{rank}.json") for rank in (0, 1, 3)]
    files.append(parsed(trace(2, compute_us=330_000, wait_us=20_000), "2.json"))
    measures = [measure for one in files for measure in report_sections.measures_of(one)]
    (found,) = unevenness.compare_places(measures)
    assert (found.kind, found.target, found.outcome.adds) == ("rank", "rank 2", "performance.straggler")


def test_a_damaged_trace_says_nothing_and_raises_nothing() -> None:
    assert profiles.read('{"schemaVersion": 1, "traceEvents": [{"ts": ') == ("", [])
    hostile = '{"traceEvents": [{"cat": "kernel", "name": "k", "ts": 1e300, "dur": -5}, {"cat": "kernel", "dur": "x"}]}'
    assert profiles.read(hostile) == ("", [])


def test_a_trace_is_known_by_its_beginning_and_its_file_names_the_machine() -> None:
    text = trace(0, compute_us=210, wait_us=140)
    assert kind_of(text.encode(), "a.json") is Kind.STATE
    (first, *_) = report_sections.measures_of(parsed(text, "gpu-19_12345.1740000000000.pt.trace.json"))
    assert (first.place.name, first.part) == ("gpu-19", "rank 0")
