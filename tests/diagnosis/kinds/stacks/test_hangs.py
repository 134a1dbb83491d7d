"""Who is named when a job hangs: simulated jobs of several frameworks, layouts and formats, with the truth played
out."""

from __future__ import annotations

import pytest

from diagnosis.kinds.stacks.ranks.layout import build
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import CULPRITS, FRAMES, WRAP, Case, dumps, hang, parse, pyspy_text

SMALL = {"tp": 2, "pp": 4, "dp": 4}


def diagnose(case: Case, form: str = "pyspy", **more):
    return stacks_json(dumps(case, form, **more))


@pytest.mark.parametrize("framework", list(FRAMES))
@pytest.mark.parametrize("kind", [*CULPRITS, "dead"])
def test_the_culprit_is_named_whatever_stopped_it_and_whatever_framework(kind, framework):
    case = hang(SMALL, "tp-dp-pp", {10}, kind, framework)
    got = diagnose(case)
    assert got["suspect_ranks"] == [10]
    assert got["suspect_nodes"] == ["node-001"]
    assert 10 in got["evict_ranks"]


@pytest.mark.parametrize("order", ["tp-dp-pp", "tp-pp-dp", "tp-cp-ep-dp-pp"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"tp": 8, "pp": 1, "dp": 8},
        {"tp": 1, "pp": 1, "dp": 16},
        {"tp": 4, "cp": 2, "pp": 4, "dp": 2},
        {"tp": 8, "pp": 8, "dp": 1},
    ],
)
def test_layouts_do_not_matter_for_a_culprit_that_waits_for_nobody(sizes, order):
    order = order if "cp" in order or "cp" not in sizes else order.replace("tp-", "tp-cp-")
    assert diagnose(hang(sizes, order, {13}, "user loop"))["suspect_ranks"] == [13]


@pytest.mark.parametrize("form", ["pyspy", "json", "faulthandler", "pystack", "srun", "pdsh", "label"])
def test_every_format_and_bundle_gives_the_same_answer(form):
    case = hang(SMALL, "tp-dp-pp", {5}, "loader")
    got = diagnose(case, form)
    assert got["suspect_ranks"] == [5]
    assert got["missing_ranks"] == []


def test_without_a_layout_file_ranks_are_found_in_names_and_groups_from_the_stacks():
    got = diagnose(hang(SMALL, "tp-dp-pp", {5}, "checkpoint"), layout=False)
    assert got["suspect_ranks"] == [5]
    assert got["suspect_nodes"] == ["node-000"]


def test_the_command_line_shows_the_layout_where_no_file_does():
    case = hang(SMALL, "tp-dp-pp", {5}, "kernel")
    case.command = "python pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4"
    got = diagnose(case, layout=False)
    assert (got["layout"]["tp"], got["layout"]["pp"], got["layout"]["dp"]) == (2, 4, 4)
    assert got["explained_by"]["kind"] in {"tp", "pp"}
    assert any("order" in note for note in got["notes"])


def test_two_culprits_are_both_named():
    assert sorted(diagnose(hang(SMALL, "tp-dp-pp", {3, 20}, "kernel"))["suspect_ranks"]) == [3, 20]


def test_a_collective_that_all_have_reached_and_none_leaves_is_named_as_a_group():
    got = diagnose(hang({"tp": 4, "pp": 2, "dp": 4}, "tp-dp-pp", {8, 9, 10, 11}, "tp"))
    assert got["suspect_ranks"] == [8, 9, 10, 11]
    assert "does not finish" in got["reason"]


def test_ranks_that_entered_another_collective_than_the_rest_are_named():
    case = hang({"tp": 4, "pp": 4, "dp": 4}, "tp-dp-pp", set(), "dead")
    for r in case.stacks:
        inner = (
            ("all_reduce", "get_grad_norm", "clip_grads.py")
            if r not in (40, 41, 42, 43)
            else ("all_gather", "collect_stats", "hooks.py")
        )
        case.stacks[r] = [
            (inner[0], "torch/distributed/distributed_c10d.py", 9),
            WRAP,
            (inner[1], inner[2], 7),
            ("train", "training.py", 1),
        ]
    got = diagnose(case)
    assert got["suspect_ranks"] == [40, 41, 42, 43]


def test_a_callback_on_top_of_a_wait_is_still_that_wait():
    case = hang(SMALL, "tp-dp-pp", {10}, "loader")
    for r in (0, 17, 25):
        case.stacks[r] = (
            [("flush_events", "mycorp/telemetry.py", 30), *case.stacks[r]]
            if case.stacks[r][0][0] != "start_grad_sync"
            else case.stacks[r]
        )
    assert diagnose(case)["suspect_ranks"] == [10]


def test_a_dump_that_failed_proves_nothing_about_its_rank():
    case = hang(SMALL, "tp-dp-pp", {10}, "storage")
    for r in (1, 29):
        case.stacks.pop(r)
        case.failed.add(r)
    got = diagnose(case)
    assert got["suspect_ranks"] == [10]
    assert got["failed_ranks"] == [1, 29]
    assert got["missing_ranks"] == []


def test_a_failed_dump_in_which_the_chain_of_waits_ends_is_named_with_doubt():
    case = hang(SMALL, "tp-dp-pp", {10}, "loader")
    case.stacks.pop(10)
    case.failed.add(10)
    got = diagnose(case)
    assert got["suspect_ranks"] == [10]
    assert got["suspects"][0]["score"] < 0.6


def test_a_job_whose_upload_is_half_missing_accuses_nobody_for_being_absent():
    case = hang(SMALL, "tp-dp-pp", {10}, "loader")
    for r in range(16, 32):
        case.stacks.pop(r)
    got = diagnose(case)
    assert got["suspect_ranks"] == [10]
    assert len(got["missing_ranks"]) == 16


def test_figure_7_of_the_paper_evicts_the_pipeline_group_of_machines_12_to_15():
    layout = build({"tp": 2, "pp": 4, "dp": 4}, world_size=32, order="tp-pp-dp")
    c10d = "torch/distributed/distributed_c10d.py"
    stacks = {}
    for rank in range(32):
        machine = rank // 2
        top = {12: "irecv", 13: "irecv", 14: "isend", 15: "all_gather_into_tensor"}.get(machine)
        stacks[rank] = (
            [(top, c10d, 1), ("backward_step", "schedules.py", 2)]
            if top
            else [("start_grad_sync", "param_and_grad_buffer.py", 3)]
        )
        stacks[rank] = [*stacks[rank], ("train", "training.py", 4), ("<module>", "pretrain.py", 5)]
    case = Case(layout, stacks, {r: f"machine-{r // 2}" for r in range(32)}, set())
    got = diagnose(case)
    assert set(got["evict_nodes"]) == {f"machine-{m}" for m in (12, 13, 14, 15)}
    assert got["explained_by"]["kind"] == "pp"
    assert got["evict_ranks"] == list(range(24, 32))
    assert got["suspect_nodes"] == ["machine-15"]  # where the paper's text says that the pipeline stalls


def test_all_candidates_are_shown_best_first_with_their_scores():
    got = diagnose(hang(SMALL, "tp-dp-pp", {10}, "kernel"))
    shown = got["candidates"]
    assert len(shown) >= 3
    assert [(-c["coverage"], -c["precision"], c["ranks"]) for c in shown] == sorted(
        (-c["coverage"], -c["precision"], c["ranks"]) for c in shown
    )
    assert {c["kind"] for c in shown} == {"tp", "pp", "dp"}


def test_suspects_for_the_fusion_name_rank_and_node_with_reasons():
    got = diagnose(hang(SMALL, "tp-dp-pp", {10}, "loader"))
    kinds = {s["kind"]: s for s in got["suspects"]}
    assert kinds["rank"]["entity"] == "rank 10"
    assert kinds["node"]["entity"] == "node-001"
    assert "data loader" in kinds["node"]["reasons"][0]
    assert all(0 < s["score"] < 1 and s["from"] == ["stacks"] for s in got["suspects"])


def test_the_icicle_counts_every_rank_once_and_folds_them():
    got = diagnose(hang(SMALL, "tp-dp-pp", {10}, "loader"))
    rows = got["icicle"]
    assert rows[0]["value"] == 32
    assert rows[0]["ranks"] == "0-31"
    for row in rows[1:]:
        assert row["value"] <= rows[row["parent"]]["value"]
    leaf = next(r for r in rows if r["label"].startswith("_try_get_data"))
    assert (leaf["ranks"], leaf["lacks"]) == ("10", "")


def test_the_report_is_json_and_the_same_every_time():
    import json

    case = hang(SMALL, "tp-dp-pp", {10, 21}, "kernel")
    first, again = (json.dumps(diagnose(case), sort_keys=True) for _ in range(2))
    assert first == again
    backwards = stacks_json(list(reversed(dumps(case))))
    assert json.dumps(backwards, sort_keys=True) == first


def test_a_stuck_loader_worker_is_found_though_its_trainer_waits_like_all_others():
    case = hang({"dp": 8}, "dp", set(), "dead")
    files = []
    for r, stack in case.stacks.items():
        worker = [("_worker_loop", "torch/utils/data/_utils/worker.py", 310), ("<module>", "<string>", 1)]
        where = ("read", "fsspec/spec.py", 9) if r == 6 else ("get", "multiprocessing/queues.py", 103)
        child = pyspy_text([where, *worker], 900 + r).replace("Python v", f"Parent Process {100 + r}: python\nPython v")
        files.append(
            parse(f"{pyspy_text(stack, 100 + r)}\n{'-' * 80}\n{child}", f"stacks/{case.nodes[r]}/rank-{r}.txt")
        )
    got = stacks_json(files)
    assert got["suspect_ranks"] == [6]
    assert "child process of rank 6" in got["reason"]
