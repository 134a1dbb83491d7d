"""The timeline's picture: small for every size of job, and true."""

from __future__ import annotations

import json
from itertools import groupby

from tests.patience import steps_of
from tests.triage.report import T0, sample
from triage.lanes import fold, unfold
from triage.timeline_figure import COLUMNS, MAX_MARKS, MAX_ROWS, NAMELESS, STATES, timeline_figure
from triage.timeline_trace import trace_events


def figure(timeline=None, **options):
    return timeline_figure(timeline or sample()["logs"]["timeline"], slug="job", attempt=0, **options)


def test_a_troubled_node_comes_first_and_is_silent_after_its_last_line():
    drawn = figure()
    assert drawn["nodes"][0] == "gpu-0412"
    row = [STATES[v] for v in drawn["z"][0] if v >= 0]
    assert row[5] == "training"
    assert row[-1] == "silent"
    assert row.count("silent") / COLUMNS > 0.5
    assert "silent" not in [STATES[v] for v in drawn["z"][1] if v >= 0]


def test_the_accused_are_the_first_rows_of_any_number_of_nodes():
    lanes = [a_lane(f"node-{n:04}") for n in range(1000)]
    lanes[7]["marks"] = [{"t": T0 + 5, "role": "root", "event": "e"}]
    drawn = figure({"t0": T0, "t1": T0 + 100, "lanes": lanes}, rows=16, pinned=["node-0839", "node-0002"])
    assert drawn["nodes"][:3] == ["node-0839", "node-0002", "node-0007"]
    assert len(drawn["nodes"]) == 16


def test_a_long_timeline_opens_shortly_before_the_failure_and_a_short_one_whole():
    def opening(seconds, moment):
        drawn = figure({"t0": T0, "t1": T0 + seconds, "lanes": [a_lane("a")]}, moment=moment)
        return drawn["t0"] / 1000 - T0

    assert opening(36_000, T0 + 35_900) == 35_300
    assert opening(36_000, T0 + 33_000) == 30_000
    assert opening(36_000, T0 + 9_000) == 0
    assert opening(36_000, None) == 0
    assert opening(600, T0 + 590) == 0


def states(drawn, row):
    """What a row shows, each state once, in order."""
    return [name for name, _ in groupby(STATES[v] for v in drawn["z"][row] if v >= 0)]


def a_lane(node, *, last_line=T0 + 100, **more):
    return {
        "node": node,
        "segments": [{"stage": "training", "t0": T0, "t1": last_line}],
        "last_line_at": last_line,
        **more,
    }


STEPS = [{"n": n, "t": T0 + n, "seconds": 1.0} for n in range(1, 41)]


def test_a_lane_shows_no_progress_from_the_jobs_last_step_on_with_a_mark_there():
    drawn = figure()
    assert states(drawn, 1) == ["training", "no_progress"]
    share = [STATES[v] for v in drawn["z"][1]].count("no_progress") / COLUMNS
    assert abs(share - (1100 - 499) / 1100) < 0.01
    assert {mark["row"] for mark in drawn["last_steps"]} == {1, 2, 3}
    assert drawn["last_steps"][0]["t"] == (T0 + 499) * 1000


def test_a_nodes_own_last_step_counts_where_it_prints_steps():
    lanes = [a_lane("a", last_progress_at=T0 + 20), a_lane("b", last_progress_at=T0 + 40), a_lane("c")]
    drawn = figure({"t0": T0, "t1": T0 + 100, "lanes": lanes, "iterations": STEPS})
    assert [mark["t"] for mark in drawn["last_steps"]] == [(T0 + at) * 1000 for at in (20, 40, 40)]
    shares = [[STATES[v] for v in row].count("no_progress") / COLUMNS for row in drawn["z"]]
    assert [round(share, 1) for share in shares] == [0.8, 0.6, 0.6]


def test_a_job_that_ends_with_its_last_step_wants_no_progress():
    lanes = [a_lane("a", last_line=T0 + 41)]
    drawn = figure({"t0": T0, "t1": T0 + 41, "lanes": lanes, "iterations": STEPS})
    assert (states(drawn, 0), drawn["last_steps"]) == (["training"], [])


def test_saving_after_the_last_step_is_not_called_want_of_progress():
    ending = [
        {"stage": "training", "t0": T0, "t1": T0 + 41},
        {"stage": "checkpoint_save", "t0": T0 + 41, "t1": T0 + 100},
    ]
    lanes = [{"node": "a", "segments": ending, "last_line_at": T0 + 100}]
    drawn = figure({"t0": T0, "t1": T0 + 100, "lanes": lanes, "iterations": STEPS})
    assert states(drawn, 0) == ["training", "checkpoint_save"]


def test_the_worst_lane_of_a_row_shows_so_that_silence_is_never_hidden():
    lanes = [a_lane(f"n{n:03d}", last_line=T0 + (50 if n == 700 else 100)) for n in range(1024)]
    drawn = figure({"t0": T0, "t1": T0 + 100, "lanes": lanes, "iterations": STEPS})
    ends = [STATES[row[-1]] for row in drawn["z"]]
    assert (ends.count("silent"), ends.count("no_progress")) == (1, len(ends) - 1)


def test_silence_begins_after_the_cell_that_holds_the_last_line():
    lane = {"node": "a", "segments": [{"stage": "training", "t0": T0, "t1": T0 + 10}], "last_line_at": T0 + 10}
    row = [STATES[v] for v in figure({"lanes": [lane], "t0": T0, "t1": T0 + COLUMNS * 4})["z"][0] if v >= 0]
    assert row[:3] == ["training"] * 3  # the third cell holds the line of second 10
    assert set(row[3:]) == {"silent"}


def test_slices_of_a_trace_never_overlap():
    stages = [{"stage": "launch", "t0": T0, "t1": T0 + 9}, {"stage": "training", "t0": T0 + 5, "t1": T0 + 20}]
    slices = [e for e in trace_events({"t0": T0, "stages": stages, "lanes": []}, "job") if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in slices] == [(0, 9_000_000), (9_000_000, 11_000_000)]


def test_a_mark_leads_to_its_line():
    mark = figure()["marks"][0]
    assert (mark["t"], mark["row"], mark["role"]) == ((T0 + 500) * 1000, 0, "root")
    assert mark["url"].startswith("/jobs/job/logs/0/logs/gpu-0412.log?line=812")


def test_of_more_marks_than_are_drawn_the_roots_stay():
    late, root = ({"t": T0 + 1, "role": role, "text": "x"} for role in ("cascade", "root"))
    marks = [*[late] * MAX_MARKS, root]
    drawn = figure({"lanes": [{"node": "a", "marks": marks}], "t0": T0, "t1": T0 + 9})["marks"]
    assert (len(drawn), drawn[0]["role"]) == (MAX_MARKS, "root")


def test_a_range_shows_that_range_only():
    drawn = figure(t0=T0 + 600, t1=T0 + 700)
    assert drawn["marks"] == []
    assert (drawn["t0"], drawn["t1"]) == ((T0 + 600) * 1000, (T0 + 700) * 1000)
    assert drawn["whole"] == [T0 * 1000, (T0 + 1100) * 1000]


def test_an_impossible_range_shows_all():
    assert figure(t0=T0 + 900, t1=T0 + 100)["t0"] == T0 * 1000


def test_without_times_there_is_nothing_to_draw():
    assert figure({"lanes": [], "t0": None, "t1": None}) is None
    assert figure({"lanes": [{"node": "a"}], "t0": 1.0, "t1": 1.0}) is not None


def test_logs_that_name_no_node_share_one_lane_of_their_stages():
    stages = [{"stage": "launch", "t0": T0, "t1": T0 + 50}, {"stage": "training", "t0": T0 + 50, "t1": T0 + 100}]
    drawn = figure({"lanes": [], "stages": stages, "t0": T0, "t1": T0 + 100})
    assert drawn["nodes"] == [NAMELESS]
    assert {STATES[v] for v in drawn["z"][0]} == {"launch", "training"}
    assert figure({"lanes": [], "stages": stages, "t0": T0, "t1": T0}) is None


def test_iterations_that_ended_at_one_moment_are_one_point_with_their_mean():
    rows = [{"n": n, "t": T0 + n // 2, "seconds": 0.4 + 0.2 * (n % 2)} for n in range(6)]
    drawn = figure({"lanes": [{"node": "a"}], "t0": T0, "t1": T0 + 9, "iterations": rows})["iterations"]
    assert drawn["t"] == [T0 * 1000, (T0 + 1) * 1000, (T0 + 2) * 1000]
    assert [round(seconds, 6) for seconds in drawn["seconds"]] == [0.5] * 3
    assert drawn["n"] == [1, 3, 5]


def a_week(*, nodes, segments, iterations):
    week = 7 * 86400.0
    lanes = [
        {
            "node": f"gpu-{n:04d}",
            "segments": [
                {
                    "stage": "checkpoint_save" if k % 20 == 0 else "training",
                    "t0": T0 + k * week / segments,
                    "t1": T0 + (k + 1) * week / segments,
                }
                for k in range(segments)
            ],
            "marks": [
                {
                    "t": T0 + n * 500.0,
                    "role": "root" if n == 700 else "cascade",
                    "event": "e",
                    "file": "x.log",
                    "line": n,
                }
            ],
            "last_line_at": T0 + week,
        }
        for n in range(nodes)
    ]
    rows = [{"n": n, "t": T0 + n, "seconds": 1} for n in range(iterations)]
    return {"t0": T0, "t1": T0 + week, "lanes": lanes, "iterations": rows}


def test_a_thousand_nodes_over_a_week_are_drawn_within_a_megabyte():
    drawn = figure(a_week(nodes=1024, segments=200, iterations=100_000))
    assert len(json.dumps(drawn)) < 1_000_000
    assert len(drawn["z"]) == MAX_ROWS
    assert drawn["nodes"][0] == "gpu-0700"
    assert len(drawn["iterations"]["t"]) == COLUMNS


def test_the_work_for_a_picture_grows_no_faster_than_the_job():
    one = a_week(nodes=MAX_ROWS, segments=20, iterations=10_000)
    for more in ({"nodes": 4 * MAX_ROWS}, {"segments": 80}, {"iterations": 40_000}):
        size = {"nodes": MAX_ROWS, "segments": 20, "iterations": 10_000} | more
        four = a_week(**size)
        assert steps_of(lambda timeline=four: figure(timeline)) < 5 * steps_of(lambda: figure(one)), more


def test_the_slowest_iteration_of_a_bin_is_kept_when_points_are_thinned():
    timeline = sample()["logs"]["timeline"]
    timeline["t1"] = T0 + 20_000
    timeline["iterations"] = [{"n": n, "t": T0 + n, "seconds": 90.0 if n == 7777 else 1.0} for n in range(20_000)]
    assert 90.0 in figure(timeline)["iterations"]["seconds"]


def lanes_of(segments_of):
    stages = [{"stage": "launch", "t0": T0, "t1": T0 + 50.5}, {"stage": "training", "t0": T0 + 60.25, "t1": T0 + 900.0}]
    lanes = [{"node": f"n{k}", "segments": segments_of(k, stages), "marks": []} for k in range(8)]
    return {"t0": T0, "t1": T0 + 900.0, "stages": stages, "lanes": lanes}


def cut(k, stages):
    """As the engine cuts the job's stages to the time in which a node wrote."""
    low, high = T0 + 10.0 * k, T0 + 900.0 - 7.0 * k
    parts = [{**row, "t0": max(row["t0"], low), "t1": min(row["t1"], high)} for row in stages]
    return [row for row in parts if row["t0"] < row["t1"]]


def test_lanes_that_follow_from_the_stages_are_kept_as_their_time_alone_and_come_back():
    timeline = lanes_of(cut)
    kept = fold(timeline)
    assert all("segments" not in lane for lane in kept["lanes"])
    assert len(json.dumps(kept)) < len(json.dumps(timeline)) * 0.6
    assert unfold(json.loads(json.dumps(kept))) == timeline
    assert figure(kept) == figure(timeline)


def test_lanes_of_their_own_are_kept_as_they_are():
    strange = (
        lambda k, stages: [{"stage": "training", "t0": T0 + k, "t1": T0 + 5.0 + k}],
        lambda k, stages: [],
        lambda k, stages: [{"stage": "training", "t0": None, "t1": None}],
        lambda k, stages: None,
    )
    for segments_of in strange:
        timeline = lanes_of(segments_of)
        assert fold(timeline) == timeline
        assert unfold(timeline) == timeline
    assert fold({}) == {}
    assert fold(sample()["logs"]["timeline"])["t0"] == sample()["logs"]["timeline"]["t0"]
