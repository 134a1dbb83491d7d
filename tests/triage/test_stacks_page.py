"""The Stacks tab of a job and the replay planner."""

import pytest
from django.urls import reverse

from tests.factories import make_attempt, make_job, make_user
from tests.pages import page_text
from triage.charts import stacks
from triage.charts.stacks import _OUTLIER, _SUSPECT, icicle_chart, unfold
from triage.models import Diagnosis
from triage.selectors.stacks import stacks_view

ICICLE = [
    {"id": 0, "parent": None, "label": "all ranks", "value": 4, "ranks": "0-3", "lacks": ""},
    {"id": 1, "parent": 0, "label": "main (train.py)", "value": 4, "ranks": "0-3", "lacks": ""},
    {"id": 2, "parent": 1, "label": "all_reduce (comm.py)", "value": 3, "ranks": "0-2", "lacks": "3"},
    {"id": 3, "parent": 1, "label": "get_batch (<data>.py)", "value": 1, "ranks": "3", "lacks": "0-2"},
]
STACKS = {
    "headline": "Rank 3 is waiting for its data loader (n1).",
    "reason": "Rank 3 is waiting for its data loader.",
    "suspect_ranks": [3],
    "suspect_nodes": ["n1"],
    "evict_ranks": [2, 3],
    "evict_nodes": ["n1"],
    "outlier_ranks": [3],
    "missing_ranks": [],
    "failed_ranks": [],
    "rounds": 2,
    "is_moving": False,
    "explained_by": None,
    "tie": [],
    "votes": [],
    "collectives": None,
    "notes": ["Half of the dumps hold no native frames."],
    "candidates": [{"kind": "pp", "groups": ["2-3"], "ranks": 2, "score": 0.9, "coverage": 1.0, "precision": 0.5}],
    "layout": {"tp": 2, "order": "tp-pp-dp", "world_size": 4, "source": "layout.json"},
    "icicle": ICICLE,
    "groups": [
        {"ranks": [0, 1, 2], "folded": "0-2", "frames": ["all_reduce (comm.py)", "main (train.py)"], "dominant": True},
        {"ranks": [3], "folded": "3", "frames": ["get_batch (<data>.py)", "main (train.py)"], "dominant": False},
    ],
    "ranks": [{"rank": 3, "node": "n1", "path": "stacks/3.txt", "line": 7, "round": 0, "status": "ok"}],
}


@pytest.mark.parametrize(("text", "ranks"), [("0-2/5", [0, 1, 2, 5]), ("7", [7]), ("", [])])
def test_folded_ranks_unfold(text, ranks):
    assert unfold(text) == ranks


def test_children_stand_below_their_parent_and_next_to_each_other():
    chart = icicle_chart(ICICLE, {3}, {3: "/dump"}, suspects={3})
    boxes = {
        text: (base, x, y)
        for trace in chart["data"]
        for text, base, x, y in zip(trace["text"], trace["base"], trace["x"], trace["y"], strict=True)
    }
    assert boxes["main (train.py)"] == (0, 4, 1)
    assert boxes["all_reduce (comm.py)"] == (0, 3, 2)
    assert boxes["get_batch (<data>.py)"] == (3, 1, 2)


def test_of_endless_stacks_the_outermost_frames_are_drawn(monkeypatch):
    monkeypatch.setattr(stacks, "MAX_FRAMES", 2)
    chart = icicle_chart(ICICLE, set(), {}, suspects=set())
    assert [text for trace in chart["data"] for text in trace["text"]] == ["all ranks", "main (train.py)"]


def test_frames_of_outliers_alone_are_hatched_and_open_their_dump():
    hatched = [
        t for t in icicle_chart(ICICLE, {3}, {3: "/dump"}, suspects={3})["data"] if t["marker"]["pattern"]["shape"]
    ]
    assert [trace["text"] for trace in hatched] == [["get_batch (<data>.py)"]]
    assert hatched[0]["customdata"] == ["/dump"]


def test_rank_and_node_of_a_suspect_stand_beneath_its_frames():
    names = icicle_chart(ICICLE, {3}, {}, suspects={3}, machines={3: "n<1"})["layout"]["annotations"]
    assert [(one["text"], one["x"], one["y"]) for one in names] == [("rank 3 on n&lt;1", 3.5, 2.5)]


def test_suspects_that_share_frames_are_named_once_and_many_are_counted():
    wide = [{**row, "ranks": "0-9"} for row in ICICLE[:2]]
    names = icicle_chart(wide, set(), {}, suspects=set(range(10)))["layout"]["annotations"]
    assert [one["text"] for one in names] == ["ranks 0, 1, 2, 3 and 6 more"]


def test_the_group_of_the_suspect_is_the_first_row():
    view = stacks_view({"stacks": STACKS}, words="", link=lambda path, line: path)
    assert view
    assert [group["folded"] for group in view.groups] == ["3", "0-2"]


def test_a_rank_that_only_waits_elsewhere_never_looks_like_the_culprit():
    """Before, a victim was as red as the rank that it waited for."""
    looks = {
        text: (trace["marker"]["color"], trace["marker"]["pattern"]["shape"])
        for trace in icicle_chart(ICICLE, {0, 1, 2}, {}, suspects={3})["data"]
        for text in trace["text"]
    }
    assert looks["get_batch (<data>.py)"] == _SUSPECT
    assert looks["all_reduce (comm.py)"] == _OUTLIER
    assert _SUSPECT[0] != _OUTLIER[0]


@pytest.fixture
def job(client, db):
    client.force_login(make_user("eng", "engineer"))
    job = make_job("hung")
    attempt = make_attempt(job)
    Diagnosis.objects.create(job=job, attempt=attempt, revision=1, engine="t", report={"stacks": STACKS})
    return job


def test_the_tab_names_the_suspect_shows_groups_and_links_dumps(client, job):
    page = page_text(client.get(reverse("job-stacks", args=["hung"])))
    assert "Rank 3 is waiting for its data loader (n1)." in page
    assert "/jobs/hung/logs/0/stacks/3.txt" in page
    assert "outlier" in page
    assert "get_batch (&lt;data&gt;.py)" in page
    assert "<data>" not in page.replace("\\u003Cdata\\u003E", "")


def test_frames_are_searched_without_a_script(client, job):
    page = page_text(client.get(reverse("job-stacks", args=["hung"]), {"frames": "GET_BATCH"}))
    rows = page.partition('data-testid="stack-groups"')[2].partition("</table>")[0]
    assert "get_batch" in rows
    assert "all_reduce" not in rows
    empty = page_text(client.get(reverse("job-stacks", args=["hung"]), {"frames": "nowhere"}))
    assert "No group has “nowhere”" in empty


def test_a_job_without_stacks_says_what_to_add(client, job):
    Diagnosis.objects.update(report={})
    assert "Add py-spy" in page_text(client.get(reverse("job-stacks", args=["hung"])))


@pytest.fixture
def planner(client, db):
    client.force_login(make_user("eng", "engineer"))
    machines = " ".join(f"m{n:02d}" for n in range(24))
    return lambda **given: client.get(reverse("replay"), {"machines": machines, "pp": 4, "dp": 6, **given})


def test_the_papers_example_names_machine_13(planner):
    page = page_text(planner(h=3, v=1))
    named = page.partition('data-testid="named"')[2].partition("</div>")[0]
    assert "<b>m13</b>" in named


def test_both_groupings_are_shown_before_anything_failed(planner):
    page = page_text(planner())
    assert "m00 m01 m02 m03" in page
    assert "m01 m07 m13 m19" in page
    assert 'data-testid="named"' not in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k": 4}, "does not divide"),
        ({"pp": "x"}, "give a whole number"),
        ({"h": 99, "v": 0}, "no horizontal group 99"),
    ],
)
def test_sizes_that_do_not_fit_are_explained(planner, given, said):
    assert said in page_text(planner(**given))


def test_a_machine_listed_twice_is_named(client, planner):
    assert "listed twice" in page_text(client.get(reverse("replay"), {"machines": "a a"}))
