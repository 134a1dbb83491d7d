"""Parallel layouts: groups by order, the sources of sizes, and the sentences if they do not fit."""

from __future__ import annotations

import pytest

from diagnosis.kinds.stacks.ranks.layout import build, from_json, from_text


def test_the_first_dimension_of_the_order_is_the_fastest():
    plan = build({"tp": 2, "pp": 4, "dp": 4}, world_size=32, order="tp-dp-pp")
    assert plan.groups("tp")[:2] == [(0, 1), (2, 3)]
    assert plan.groups("dp")[0] == (0, 2, 4, 6)
    assert plan.groups("pp")[0] == (0, 8, 16, 24)
    other = build({"tp": 2, "pp": 4, "dp": 4}, world_size=32, order="tp-pp-dp")
    assert other.groups("pp")[0] == (0, 2, 4, 6)
    assert other.groups("dp")[0] == (0, 8, 16, 24)


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-pp-dp", "pp-tp-dp", "dp-tp-pp-cp"])
def test_groups_of_a_kind_part_the_job_and_two_kinds_meet_in_one_rank(order):
    plan = build({"tp": 2, "cp": 2, "pp": 3, "dp": 4}, world_size=48, order=order)
    for kind, size in plan.sizes.items():
        groups = plan.groups(kind)
        assert sorted(r for g in groups for r in g) == list(range(48))
        assert {len(g) for g in groups} == {size}
    for a in plan.groups("tp"):
        assert all(len(set(a) & set(b)) <= 1 for b in plan.groups("pp"))


def test_the_first_dimension_of_the_order_changes_fastest():
    plan = build({"tp": 2, "pp": 4, "dp": 4}, world_size=32, order="tp-pp-dp")
    assert plan.groups("tp")[0] == (0, 1)
    assert plan.groups("pp")[0] == (0, 2, 4, 6)
    assert plan.groups("dp")[0] == (0, 8, 16, 24)


def test_expert_groups_are_cut_from_the_data_parallel_ones_as_megatron_does():
    plan = build({"tp": 2, "ep": 4, "pp": 2, "dp": 4}, world_size=16, order="tp-cp-ep-dp-pp", expert_tp=1)
    assert plan.groups("ep")[0] == (0, 1, 2, 3)  # expert tensor size 1: experts spread over the tensor groups too
    assert plan.groups("dp")[0] == (0, 2, 4, 6)
    assert {len(g) for g in plan.groups("ep")} == {4}


def test_expert_groups_follow_the_order_where_data_parallelism_is_the_faster():
    layout = build({"dp": 4, "pp": 2, "ep": 2}, world_size=8, order="dp-ep-pp")
    assert layout.groups("ep") == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_a_layout_that_does_not_multiply_to_the_world_size_is_named_with_its_numbers():
    plan = build({"tp": 8, "pp": 3, "dp": 5}, world_size=128)
    assert plan.problems == (
        "The layout does not multiply to the world size: tp 8 × pp 3 × dp 5 = 120, but there are 128 ranks. "
        "Parallel groups are left out until sizes or world size are corrected.",
    )
    assert plan.groups("tp") == []


def test_the_data_parallel_size_is_what_is_left():
    assert build({"tp": 2, "pp": 4}, world_size=32).sizes["dp"] == 4
    assert build({"tp": 2, "pp": 4}, world_size=None).world_size is None


def test_an_order_that_is_none_is_refused_and_a_missing_one_is_said_to_be_assumed():
    assert "not a list such as" in build({"tp": 2, "dp": 2}, world_size=4, order="tp-xp").problems[0]
    assert (
        build({"tp": 2, "dp": 2}, world_size=4, framework="deepspeed")
        .assumptions[0]
        .startswith("The order of the layout was not given; tp-dp-pp")
    )
    assert build({"dp": 4}, world_size=4).assumptions == ()


@pytest.mark.parametrize(
    "text",
    [
        "python pretrain.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size=4 --world-size 32",
        "  pipeline_model_parallel_size .................... 4\n  tensor_model_parallel_size ...................... "
        "2\n  world_size ................ 32\n",
        "using world size: 32, data-parallel size: 4, tensor-model-parallel size: 2, pipeline-model-parallel size: 4",
        '{"model": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 4}, "world_size": 32}',
        "tensor_parallel_degree = 2\npipeline_parallel_degree = 4\ndata_parallel_degree = 4\n",
        "layout: TP=2, PP=4, DP=4",
        "[rank0]: trainer.tensor_parallel_size: 2\npipeline_parallel_size: 4\nworld_size: 32",
    ],
)
def test_every_way_of_printing_a_configuration_tells_the_same_sizes(text):
    plan = from_text(text)
    assert plan is not None
    assert {d: plan.sizes[d] for d in ("tp", "pp", "dp")} == {"tp": 2, "pp": 4, "dp": 4}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("pretrain_gpt.py --pipeline-model-parallel-size 2 --seed 7", {"pp": 2}),
        ("torchrun train.py --tensor-model-parallel-size=8 --pipeline-model-parallel-size=4", {"tp": 8, "pp": 4}),
        ("run_train.sh --parallelism.tensor_parallel_degree 2", {"tp": 2}),
        ("serve --tp 4 --pp-size 2 --dp 3", {"tp": 4, "pp": 2, "dp": 3}),
    ],
)
def test_command_lines_state_sizes(command, found):
    assert from_text(command).sizes == found


@pytest.mark.parametrize(
    "text",
    [
        "lr: 0.1, steps: 100, tp_comm_overlap: true, http: 200",
        "train.py --ppo 5 --http 3 --steps 100",
        "train.py --tp 99999999999999999999",
        "data parallel group: [[0, 2], [1]]",
    ],
)
def test_text_without_a_layout_tells_none(text):
    assert from_text(text) is None


def test_printed_groups_choose_the_order_of_the_ranks():
    sizes = "using world size: 8, data-parallel size: 4, pipeline-model-parallel size: 2"
    plan = from_text(f"{sizes}\npipeline_model_parallel_groups: [[0, 1], [2, 3], [4, 5], [6, 7]]")
    assert plan.groups("pp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert plan.groups("dp") == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert plan.assumptions == ()


def test_printed_groups_that_no_order_gives_are_taken_as_they_are():
    plan = from_text("pp groups = [[0, 3], [1, 2]] --tp 1")
    assert plan.groups("pp") == [(0, 3), (1, 2)]
    assert plan.groups("dp") == []


def test_megatrons_mapping_flag_turns_the_order():
    plan = from_text(
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping", world_size=8
    )
    assert plan.order == "tp-cp-ep-pp-dp"
    assert plan.assumptions == ()


def test_configurations_in_json_are_searched_at_any_depth():
    plan = from_json(
        {
            "trainer": {"num_nodes": 4},
            "model": {"mcore": {"tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2}},
            "world_size": 32,
        }
    )
    assert plan.sizes == {"tp": 4, "pp": 2, "dp": 4}


def test_rows_of_a_layout_file_win_over_the_order():
    rows = [{"rank": r, "node": f"n{r // 2}", "pid": 100 + r, "tp": r % 2, "dp": r // 2} for r in range(4)]
    plan = from_json({"tp": 2, "dp": 2, "order": "dp-tp", "ranks": rows})
    assert plan.groups("tp") == [(0, 1), (2, 3)]
    assert plan.node_of[3] == "n1"
    assert plan.rank_of["n1", 102] == 2


def test_rubbish_in_a_layout_file_is_passed_over():
    plan = from_json(
        {"tp": "two", "pp": -1, "dp": True, "ranks": [None, {"rank": "x"}, {"rank": -3}, {"rank": 1, "node": 5}]}
    )
    assert plan.groups("tp") == []
    assert plan.node_of == {}


def test_the_configuration_that_a_log_prints_gives_the_layout_of_its_stacks(tmp_path):
    import io

    from diagnosis import ParseHints
    from diagnosis import parse as parse_any
    from tests.diagnosis.kinds.reports import stacks_json
    from tests.diagnosis.kinds.stacks.simulate import dumps, hang

    log = "2026-01-02 03:04:05 INFO start\n" + "".join(
        f"  {name} {'.' * 20} {n}\n"
        for name, n in [("world_size", 32), ("tensor_model_parallel_size", 2), ("pipeline_model_parallel_size", 4)]
    )
    parsed = parse_any(io.BytesIO(log.encode()), "logs/rank0.log", ParseHints(), tmp_path)
    case = hang({"tp": 2, "pp": 4, "dp": 4}, "tp-dp-pp", {10}, "loader")
    got = stacks_json([parsed, *dumps(case, layout=False)])
    assert (got["layout"]["tp"], got["layout"]["pp"], got["layout"]["dp"]) == (2, 4, 4)
    assert got["layout"]["source"] == "configuration in the log"
    assert got["suspect_ranks"] == [10]
