"""Places compared in the same step: the few slow ones are named, and nobody where many differ."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np

from diagnosis.conclusion.findings import of_checks
from diagnosis.evidence import Measure, Place, Suspect
from diagnosis.facts import unevenness
from diagnosis.joining import checked_suspects
from diagnosis.kinds.logs.compare import rank_measures
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
EVEN_60 = {rank: [900.0] * 60 for rank in range(8)}


def test_a_rank_that_is_slow_from_the_middle_on_is_named_with_its_node() -> None:
    late = EVEN | {5: [900.0] * 100 + [9900.0] * 100}
    [result] = unevenness.compare_places(measures("work", late))
    assert (result.target, result.outcome.adds) == ("gpu-1", "performance.straggler")
    assert "rank 5" in result.words
    assert "50% of the steps" in result.words


def test_a_pause_of_one_step_half_of_the_ranks_and_small_differences_name_nobody() -> None:
    assert told(measures("work", EVEN | {5: [900.0] * 199 + [9900.0]})) == []
    assert told(measures("work", {rank: [900.0 if rank % 2 else 1900.0] * 9 for rank in range(8)})) == []
    assert told(measures("work", EVEN | {5: [1100.0] * 200})) == []


def test_the_rank_that_alone_does_not_wait_is_the_one_that_others_wait_for() -> None:
    waits = {rank: [9000.0] * 20 for rank in range(8)} | {3: [100.0] * 20}
    assert told(measures("wait", waits)) == [("gpu-0", "performance.straggler")]


def test_a_wait_that_costs_next_to_nothing_accuses_nobody() -> None:
    waits = {rank: [100.0] * 200 for rank in range(8)}
    for_a_while = waits | {3: [10.0] * 6 + [100.0] * 194}
    work = [msgspec.structs.replace(row, name="compute", sense="work") for row in measures("wait", EVEN)]
    assert told([*work, *measures("wait", waits | {3: [10.0] * 200})]) == [("gpu-0", "performance.straggler")]
    assert told([*work, *measures("wait", for_a_while)]) == []


def test_a_slow_place_is_so_since_the_first_step_of_its_stretch() -> None:
    late = numbered("work", EVEN_60 | {5: [900.0] * 40 + [2900.0] * 20}, "compute")
    [result] = unevenness.compare_places(late)
    assert result.iteration == late[0].steps[40]


def test_values_as_far_apart_as_floats_can_be_are_compared_without_a_warning() -> None:
    tiny = {rank: [1e-300] * 60 for rank in range(8)}
    assert told(measures("work", tiny | {5: [1e300] * 60})) == [("gpu-1", "performance.straggler")]


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
    assert told(list(rank_measures.measured(case_of_files(tmp_path, files)))) == [("gpu-2", "performance.straggler")]


def sentences(*groups: list[Measure]) -> str:
    results = unevenness.compare_places([measure for group in groups for measure in group])
    return " ".join(result.sentence for result in results)


def numbered(sense: str, of_rank: dict[int, list[float]], name: str = "time") -> list[Measure]:
    """The measures with their steps, which begin at 1."""
    found = []
    for measure in measures(sense, of_rank):
        steps = tuple(range(1, len(measure.values) + 1))
        found.append(msgspec.structs.replace(measure, steps=steps, name=name))
    return found


def test_a_hog_that_moves_is_told_node_by_node_with_its_steps() -> None:
    fast, slow = [900.0] * 15, [2900.0] * 15
    moved = EVEN_60 | {0: fast + slow + fast * 2, 1: fast + slow + fast * 2, 4: fast * 2 + slow + fast}
    found = numbered("work", moved)
    assert {target for target, category in told(found) if category} == {"gpu-0", "gpu-1"}
    assert "moves from place to place: gpu-0 in steps 16 to 30, then gpu-1 in steps 31 to 45" in sentences(found)


def test_a_slow_place_is_named_though_steps_are_missing_somewhere() -> None:
    late = numbered("work", EVEN_60 | {5: [2900.0] * 60})
    short = msgspec.structs.replace(late[2], values=late[2].values[10:], steps=late[2].steps[10:])
    assert told([*late[:2], short, *late[3:]]) == [("gpu-1", "performance.straggler")]


def test_times_that_follow_the_stated_size_of_the_work_accuse_nobody() -> None:
    sizes = {rank: [float(1024 << (rank * 7 + step * 3) % 4) for step in range(60)] for rank in range(8)}
    times = {rank: [own * 0.1 for own in row] for rank, row in sizes.items()}
    work = numbered("work", times, "compute")
    assert "takes longer" in sentences(numbered("work", EVEN_60 | {5: [2900.0] * 60}))
    told_of = sentences(work, numbered("size", sizes, "tokens"))
    assert "compute grows with tokens" in told_of
    assert "takes longer" not in told_of


def test_a_stage_of_a_pipeline_with_more_work_is_no_slow_machine() -> None:
    work = numbered("work", EVEN_60 | {6: [1400.0] * 60, 7: [1400.0] * 60}, "forward")
    stages = numbered("stage", {rank: [float(rank // 2)] * 60 for rank in range(8)}, "pp_rank")
    assert "takes longer" in sentences(work)
    assert "One stage of the pipeline (3)" in sentences(work, stages)
    assert "takes longer" not in sentences(work, stages)


def test_work_that_changes_hands_in_each_step_is_said_and_accuses_nobody() -> None:
    turns = {rank: [2900.0 if step % 8 == rank else 900.0 for step in range(60)] for rank in range(8)}
    assert "another place takes longest in each step" in sentences(numbered("work", turns))
    assert told(numbered("work", turns)) == [("", "performance.imbalance")]


def test_small_shares_of_each_step_are_how_ranks_scatter() -> None:
    turns = {rank: [1050.0 if step % 8 == rank else 900.0 for step in range(60)] for rank in range(8)}
    assert told(numbered("work", turns)) == []


def test_a_place_that_is_slow_in_its_first_steps_only_warms_up() -> None:
    cold = EVEN_60 | {5: [9000.0, 7000.0, 5000.0, 4000.0, 3000.0, 2000.0] + [900.0] * 54}
    assert "warms up" in sentences(numbered("work", cold))
    assert told(numbered("work", cold)) == [("gpu-1", "")]


def test_the_first_rank_alone_may_take_longer_to_log() -> None:
    busy = EVEN_60 | {0: [9000.0] * 60}
    assert told(numbered("work", busy, "logging took")) == []
    assert told(numbered("work", busy, "compute_ms")) == [("gpu-0", "performance.straggler")]


def test_waits_accuse_nobody_where_the_work_shows_who_is_slow() -> None:
    work = numbered("work", EVEN_60 | {5: [2900.0] * 60}, "compute")
    wait = numbered("wait", {rank: [2000.0] * 60 for rank in range(8)} | {5: [10.0] * 60}, "barrier")
    assert [target for target, _ in told([*work, *wait])] == ["gpu-1"]


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


def test_slow_places_of_one_comparison_are_no_two_reasons_for_one_cause() -> None:
    def sure_of(*slow: int) -> float:
        late = {rank: [900.0] * 100 + [9900.0] * 100 for rank in slow}
        results = unevenness.compare_places(measures("work", EVEN | late))
        assert len(results) == len(slow)
        return dict(checked_suspects.update_categories([], results))["performance.straggler"]

    assert sure_of(0, 5) == sure_of(5)


def test_a_measurement_for_which_the_logs_accused_a_node_counts_once() -> None:
    [result] = unevenness.compare_places(measures("work", EVEN | {5: [900.0] * 100 + [9900.0] * 100}))
    accused = Suspect(result.target, "node", 0.52, ("logs",), (result.sentence,))
    assert checked_suspects.update_suspects([accused], [result]) == (accused,)


def test_a_small_part_of_a_step_that_changes_hands_makes_no_step_longer() -> None:
    order = np.random.default_rng(5)
    parts = {rank: [float(one) for one in order.uniform(10, 20, 60)] for rank in range(8)}
    alone = measures("work", parts)
    assert [kind for _, kind in told(alone)] == ["performance.imbalance"]
    whole = [msgspec.structs.replace(one, name="whole", values=(900.0,) * 60) for one in alone]
    assert told([*alone, *whole]) == []


def test_a_slow_rank_without_a_known_machine_is_placed_by_its_number() -> None:
    late = EVEN | {5: [900.0] * 100 + [9900.0] * 100}
    nowhere = [msgspec.structs.replace(one, place=Place("node", "")) for one in measures("work", late)]
    [finding] = of_checks(unevenness.compare_places(nowhere))
    assert finding.places == (Place("rank", "5", 5),)
