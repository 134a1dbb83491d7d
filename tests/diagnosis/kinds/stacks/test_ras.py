"""NCCL RAS reports in both forms."""

from __future__ import annotations

import json

import pytest

from diagnosis.kinds import kind_table
from diagnosis.kinds.stacks import diagnose_stacks
from diagnosis.kinds.stacks.blame.ras_accusations import RasAccusation, judge, ranks_ahead
from diagnosis.kinds.stacks.recorded import ras
from diagnosis.kinds.stacks.recorded.ras_report import Communicator, RasPlace, RasProcess, RasReport
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import parse

TEXT = """NCCL version 2.28.3 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         31       31

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  INCOMPLETE,MISMATCH

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 5 managed by process 3487984 on node 172.16.64.213

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  30 ranks have launched up to operation 6650
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1
"""


def rank(number, count, host="n0", **more):
    return {
        "rank": number,
        "host": host,
        "pid": 100 + number,
        "cuda_dev": number,
        "nvml_dev": number,
        "collective_counts": {"AllReduce": count},
        "status": {
            "init_state": 7,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        },
        **more,
    }


def report(ranks, missing=(), size=4):
    comm = {
        "hash": "0xabc",
        "secondary_hash": "0x1",
        "size": size,
        "ranks_count": len(ranks),
        "missing_ranks_count": len(missing),
        "ranks": ranks,
        "missing_ranks": list(missing),
    }
    return {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 12080,
        "timestamp": "x",
        "communicators_count": 1,
        "communicators": [comm],
        "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
    }


def gone(number, dead=True):
    return {
        "rank": number,
        "host": "n3",
        "pid": 100 + number,
        "cuda_dev": 3,
        "nvml_dev": 3,
        "status": {"unresponsive": True, "considered_dead": dead},
    }


def snapshot(ranks, missing=(), **more):
    return ras.read_json(json.dumps(report(ranks, missing, **more)))


def test_a_dead_process_of_the_text_report_is_named_with_its_node_and_rank_in_the_communicator():
    parsed = parse(TEXT, "ras/status.txt")
    assert parsed.facts["format"] == "ras"
    dead, behind = judge([ras.read_text(TEXT)], 32)[:2]
    assert (dead.rank, dead.node, dead.score) == (5, "172.16.64.213", 0.9)
    assert "dead" in dead.reason
    assert (behind.rank, behind.node) == (7, "node1")
    assert "6,650" in behind.reason


def test_one_snapshot_of_a_mismatch_is_weak_and_counts_that_do_not_move_are_strong():
    first = snapshot([rank(0, 90), rank(1, 90), rank(2, 40), rank(3, 90)])
    moved = snapshot([rank(0, 95), rank(1, 95), rank(2, 50), rank(3, 95)])
    assert judge([first], 4)[0].score < 0.5
    assert judge([first, first], 4)[0].score >= 0.8
    assert judge([first, moved], 4)[0].score < 0.5


def test_a_silent_rank_is_less_certain_than_a_dead_one():
    ranks = [rank(0, 9), rank(1, 9), rank(2, 9)]
    dead = snapshot(ranks, [gone(3)])
    silent = snapshot(ranks, [gone(3, dead=False)])
    assert judge([dead], 4)[0].score > judge([silent], 4)[0].score >= 0.7


def test_ranks_of_a_small_communicator_are_not_global():
    found = judge([snapshot([rank(0, 9), rank(1, 9)], [gone(2)], size=3)], 64)
    assert (found[0].rank, found[0].node) == (None, "n3")
    got = stacks_json([parse(json.dumps(report([rank(0, 9), rank(1, 9)], [gone(2)], size=3)), "a.json")], world_size=64)
    assert got["suspect_nodes"] == ["n3"]
    assert got["suspect_ranks"] == []


def test_the_comma_that_one_release_forgets_is_put_back():
    text = json.dumps(report([rank(0, 9), rank(1, 9)], [gone(2), gone(3)]), indent=1).replace(
        '"rank": 2,', '"rank": 2', 1
    )
    broken = text.replace('"ranks_count": 2,', '"ranks_count": 2', 1)
    for damaged in (broken, text):
        with pytest.raises(ValueError, match="delimiter"):
            json.loads(damaged)
        assert [one.rank for one in ras.read_json(damaged).comms[0].silent] == [2, 3]


def test_a_report_in_which_all_is_well_shows_no_hang_and_says_so():
    artifact = parse(json.dumps(report([rank(r, 9) for r in range(4)])), "a.json")
    assert diagnose_stacks([artifact]) is None
    assert artifact.notes[1:] == ("All ranks answer, and none is behind: this report shows no hang.",)


def test_other_json_is_refused_with_a_sentence():
    parsed = parse('{"communicators": 3, "nccl_version": "x"}', "a.json")
    assert "has no communicators" in parsed.skipped


def test_ranks_of_the_communicator_that_holds_every_process_are_the_jobs() -> None:
    polls = [report([rank(r, 440 if r == 2 else 500) for r in range(4)]) for _ in range(2)]
    parsed = [parse(json.dumps(p), f"ras-{at}.json") for at, p in enumerate(polls)]
    assert stacks_json(parsed)["suspect_ranks"] == [2]


def test_a_range_of_ranks_a_node_does_not_hide_the_size() -> None:
    text = TEXT.replace("     4          8 ", "     4        7-8 ").replace(
        "   4         8        32 ", "   4       7-8        32 "
    )
    read = ras.read_text(text)
    assert (read.gpus, read.comms[0].size) == (31, 32)
    assert 5 in stacks_json([parse(text, "ras.txt")])["suspect_ranks"]


def counts(*sets: str) -> str:
    head = TEXT.split("Errors\n======", maxsplit=1)[0].replace("INCOMPLETE,MISMATCH", "MISMATCH")
    listed = "\n".join(f"  Rank {n} -- GPU {n % 8} managed by process {3100 + n} on node 10.9.0.18" for n in (12, 13))
    return f"{head}Warnings\n========\n\n#0-0 (aa11bb22cc33dd44) MISMATCH\n" + "\n".join(
        ["  Communicator ranks have different AllReduce operation counts", *sets, listed, ""]
    )


def test_ranks_that_are_ahead_are_told_and_nobody_is_accused() -> None:
    text = counts("  30 ranks have launched up to operation 977", "  2 ranks have launched up to operation 978")
    report = stacks_json([parse(text.encode(), "ras.txt")])
    assert report["suspect_ranks"] == []
    assert "ranks 12-13 launched AllReduce up to 978, all others up to 977" in report["reason"]
    assert report["common_wait"]


def test_ranks_of_equal_counts_are_not_ahead() -> None:
    even = Communicator("a", counts={"0": {"AllReduce": 9}, "1": {"AllReduce": 9}}, most={"AllReduce": 9})
    assert ranks_ahead([RasReport(comms=[even])]) == []
    ahead = Communicator("a", counts={"0": {"AllReduce": 9}, "1": {"AllReduce": 8}}, most={"AllReduce": 8})
    assert len(ranks_ahead([RasReport(comms=[ahead])])) == 1


def test_a_late_rank_of_a_small_communicator_is_not_global() -> None:
    part = Communicator("a", counts={"0": {"AllReduce": 8}, "1": {"AllReduce": 9}}, most={"AllReduce": 9})
    assert [one.rank for one in judge([RasReport(comms=[part])], 64)] == [None]


def test_listed_ranks_of_a_set_that_is_behind_are_accused() -> None:
    text = counts("  30 ranks have launched up to operation 977", "  2 ranks have launched up to operation 976")
    accused = judge([ras.read_text(text)], 32)
    assert [(one.rank, one.node) for one in accused] == [(12, "10.9.0.18"), (13, "10.9.0.18")]


def test_without_a_snapshot_nobody_is_accused() -> None:
    assert judge([], 4) == []


def test_a_dead_process_that_no_communicator_lists_is_accused_by_its_node() -> None:
    dead = RasReport(dead=[RasProcess(None, "n3", 17, "5", is_dead=True)], comms=[Communicator("a", size=4)])
    assert judge([dead], 4) == [RasAccusation(None, "n3", 0.9, "RAS considers process 17 (GPU 5) dead")]


def test_a_silent_rank_whose_process_is_listed_as_dead_is_accused_once_as_dead() -> None:
    silent = Communicator("a", size=4, silent=[RasProcess(3, "n3", 17), RasProcess(2, "n3", 18)])
    found = judge([RasReport(dead=[RasProcess(None, "n3", 17, "5", is_dead=True)], comms=[silent])], 4)
    assert found == [
        RasAccusation(3, "n3", 0.9, "RAS considers its process 17 dead"),
        RasAccusation(2, "n3", 0.75, "did not answer RAS while its peers did"),
    ]


def test_a_rank_is_behind_in_the_operation_in_which_it_lacks_most() -> None:
    behind = Communicator(
        "a",
        counts={"0": {"AllReduce": 8, "Broadcast": 1, "Gather": 7}, "1": {"AllReduce": 9}, "2": {"AllReduce": 9}},
        most={"AllReduce": 9, "Broadcast": 2_000, "Gather": 3},
        places={"0": RasPlace("n0", 7)},
    )
    reason = "launched Broadcast up to 1 where most ranks are at 2,000"
    assert judge([RasReport(comms=[behind])], 3) == [RasAccusation(0, "n0", 0.45, reason)]
    stalled = f"{reason}, unchanged over 3 snapshots"
    assert judge([RasReport(comms=[behind])] * 3, 3) == [RasAccusation(0, "n0", 0.8, stalled)]
    assert judge([RasReport(), RasReport(comms=[behind])], 3)[0].score == 0.45, "it is new in the last one"


def test_ranks_are_global_in_a_communicator_of_the_jobs_size_counted_with_its_silent_ranks() -> None:
    counts = {"0": {"AllReduce": 9}, "1": {"AllReduce": 9}}
    comm = Communicator("a", counts=counts, most={"AllReduce": 9}, silent=[RasProcess(2, "n2", 3)])
    assert [one.rank for one in judge([RasReport(comms=[comm])], 3)] == [2]
    assert [one.rank for one in judge([RasReport(comms=[comm])], 5)] == [None]
    assert [one.rank for one in judge([RasReport(comms=[Communicator("b", silent=[])])], None)] == []
    unknown = Communicator("a", silent=[RasProcess(2, "n2")])
    assert [one.rank for one in judge([RasReport(comms=[unknown])], None)] == [None]


def test_of_equal_scores_the_lower_rank_comes_first_and_nodes_without_a_rank_last() -> None:
    world = Communicator("a", size=4, silent=[RasProcess(3, "n3", 1), RasProcess(1, "n1", 2)])
    part = Communicator("b", size=2, silent=[RasProcess(0, "n7", 3), RasProcess(0, "n6", 4)])
    found = judge([RasReport(comms=[world, part])], 4)
    assert [(one.rank, one.node) for one in found] == [(1, "n1"), (3, "n3"), (None, "n6"), (None, "n7")]


def test_a_log_behind_a_sound_report_is_read_and_one_behind_a_bad_report_is_aside() -> None:
    report = (
        "Job summary\n===========\n\nCommunicators... (0.00s)\n\n"
        "Group Comms Nodes Ranks Status\n 0 1 4 32 RUNNING %s\n\n"
    )
    line = "[rank7]:[E603 17:48:01.1 ProcessGroupNCCL.cpp:632] Watchdog caught a timeout\n"
    texts = (report % word + line for word in ("OK", "MISMATCH"))
    kinds = [kind_table.kind_of(text.encode(), "ras.txt") for text in texts]
    assert kinds == ["log", "stack"]
    assert kind_table.kind_of((report % "OK").encode(), "ras.txt") == "stack"
