"""Places compared in the same step: the few slow ones are named, and nobody where many differ."""

from __future__ import annotations

import json
from pathlib import Path

from diagnosis import unevenness
from diagnosis.evidence import Measure, Place
from diagnosis.kinds.logs.compare.detectors import uneven
from diagnosis.kinds.states.report_sections import measures_of, parse
from tests.diagnosis.cases import case_of_files


def measures(sense: str, of_rank: dict[int, list[float]]) -> list[Measure]:
    return [
        Measure(Place("node", f"gpu-{rank // 4}"), "time", sense, "us", tuple(values), f"rank {rank}")
        for rank, values in of_rank.items()
    ]


def told(found: list[Measure]) -> list[tuple[str, str]]:
    return [(result.target, result.outcome.adds) for result in unevenness.compare_places(found)]


EVEN = {rank: [900.0] * 200 for rank in range(8)}


def test_a_rank_that_is_slow_from_the_middle_on_is_named_with_its_node() -> None:
    late = EVEN | {5: [900.0] * 100 + [9900.0] * 100}
    [result] = unevenness.compare_places(measures("work", late))
    assert (result.target, result.outcome.adds) == ("gpu-1", "performance.straggler")
    assert "rank 5" in result.words
    assert "50% of the steps" in result.words


def test_a_pause_of_one_step_half_of_the_ranks_and_small_differences_name_nobody() -> None:
    assert told(measures("work", EVEN | {5: [900.0] * 199 + [9900.0]})) == []
    assert told(measures("work", {rank: [900.0 if rank % 2 else 1900.0] * 9 for rank in range(8)})) == []
    assert told(measures("work", EVEN | {5: [1200.0] * 200})) == []


def test_the_rank_that_alone_does_not_wait_is_the_one_that_others_wait_for() -> None:
    waits = {rank: [9000.0] * 20 for rank in range(8)} | {3: [100.0] * 20}
    assert told(measures("wait", waits)) == [("gpu-0", "performance.straggler")]


def test_steps_that_all_find_long_are_no_difference() -> None:
    assert told(measures("work", {rank: [900.0] * 9 + [9000.0] * 9 for rank in range(8)})) == []


def test_rates_of_nodes_that_print_their_own_are_compared_in_a_job_without_a_failure(
    tmp_path: Path,
) -> None:
    files = {
        f"gpu-{n}.log": [
            f"2026-03-02 08:{m:02}:00 Batch [{20 * m}] Speed: {1000 if n == 2 else 2000 + m + n} samples/sec"
            for m in range(9)
        ]
        for n in range(4)
    }
    assert told(list(uneven.measured(case_of_files(tmp_path, files)))) == [("gpu-2", "performance.straggler")]


def record(rank: int, step: int, us: int) -> str:
    told = {
        "header": {"id": "0x7f", "rank": rank},
        "metadata": {"hostname": f"gpu-{rank // 2}"},
        "coll_perf": {
            "coll": "AllReduce",
            "coll_sn": step,
            "coll_msg_size_bytes": 4096,
            "coll_exec_time_us": us,
        },
    }
    return json.dumps(told) + "\n"


def test_records_of_a_profiler_are_measures_of_their_rank() -> None:
    text = "".join(record(3, step, 900 + step) for step in range(4)) + "{broken\n"
    [found] = measures_of(parse(text.encode(), "rank3.log"))
    assert (found.place.name, found.part, found.values) == (
        "gpu-1",
        "rank 3",
        (900.0, 901.0, 902.0, 903.0),
    )
