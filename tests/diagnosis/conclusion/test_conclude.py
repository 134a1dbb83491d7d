"""One conclusion from all evidence: its condition, its places, its words, and what it may never say."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from diagnosis.conclusion.category import cap_shares
from diagnosis.conclusion.conclude import conclude
from diagnosis.conclusion.conclusion_records import report_of
from diagnosis.conclusion.invariants import violations
from diagnosis.evidence import FlowFinding, Suspect, decode
from diagnosis.kinds.stacks import finding_of
from diagnosis.model import JobHints
from diagnosis.pipeline import make_advice
from diagnosis.records.report_records import JobRow
from diagnosis.records.result import Attempt, LineRef, LogDiagnosis, LogEvent, Verdict
from diagnosis.records.timeline_rows import IterationRow, Timeline
from diagnosis.taxonomy import load as load_taxonomy
from diagnosis.values.plain import plain

HEALTHY = LogDiagnosis(
    is_failure=False,
    outcome="succeeded",
    verdict=Verdict("none", "none", "none", 0.95),
    symptom="none",
    stage=None,
    iteration=80,
)
ROOT = LogEvent(
    id="r1",
    template="NVRM: Xid (PCI:<PCI>): 79",
    role="root",
    category="hardware.gpu.bus",
    node_names=("node-3",),
    nodes=1,
    of_nodes=4,
    first_at=100.0,
    last_at=100.0,
    example="NVRM: Xid (PCI:0000:9b:00): 79",
    score=0.9,
    lines=(LineRef("logs/node-3.log", 7, node="node-3", rank=12, at=100.0),),
)
WIDE = msgspec.structs.replace(
    ROOT, id="r2", node_names=tuple(f"node-{n}" for n in range(100)), nodes=100, of_nodes=400
)
FAILED = LogDiagnosis(
    is_failure=True,
    outcome="failed",
    verdict=Verdict("hardware.gpu.ecc", "hardware", "gpu_ecc", 0.7, ("hardware.gpu.fault", 0.6)),
    symptom="crash",
    stage="training",
    iteration=12,
    events=(ROOT,),
    lines=ROOT.lines,
)


#: A job of which only the GPUs of a node are known.
JOB = JobRow(
    id="",
    name="",
    family="",
    framework="",
    nodes=0,
    node_names=[],
    world_size=None,
    gpus_per_node=8,
    layout=None,
    scheduler="",
    said_outcome=None,
    attempts=[],
)


def reported(logs: LogDiagnosis | None, *suspects: Suspect, **more: Any) -> dict[str, Any]:
    """The conclusion as a report holds it, with headline and advice."""
    flows, stacks = more.get("flows") or {}, more.get("stacks") or {}
    of_flows, of_stacks = decode(flows, FlowFinding), finding_of(stacks)
    concluded = conclude(logs, of_flows, of_stacks, suspects, **_known(more))
    has_evidence = bool(logs or flows or stacks)
    advice = make_advice(logs, of_flows, of_stacks, concluded, JOB) if has_evidence else None
    told = plain(msgspec.to_builtins(report_of(replace(concluded, advice=advice)), enc_hook=plain))
    return {"headline": told["sentence"], "conclusion": told, "advice": told["advice"]}


def _known(more: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in more.items() if k in ("hints", "gpus", "min_gpu_s")}


def steps(lengths: list[float]) -> dict[str, Any]:
    """A job of flows whose steps take these seconds, with the slow ones marked."""
    at, rows, slow = 0.0, [], []
    for n, seconds in enumerate(lengths):
        rows.append({"start": at, "end": at + seconds})
        if seconds > 1.5:
            slow.append({"kind": "slow_step", "t0": at, "t1": at + seconds, "step": n + 1, "factor": seconds})
        at += seconds
    return {"jobs": [{"id": "a", "members": ["a", "b"], "nodes": ["a", "b"], "steps": rows, "diagnoses": slow}]}


def test_a_job_that_ended_well_and_ran_evenly_is_healthy() -> None:
    report = reported(HEALTHY, flows=steps([1.0] * 40), gpus=8)
    assert report["conclusion"]["condition"] == "healthy"
    assert report["conclusion"]["fault"] == []
    assert violations(report) == []


def test_a_stretch_of_slow_steps_makes_a_completed_job_degraded_with_what_it_cost() -> None:
    report = reported(HEALTHY, flows=steps([1.0] * 20 + [3.0] * 8 + [1.0] * 20), gpus=8)
    told = report["conclusion"]
    assert told["condition"] == "degraded"
    (row,) = told["slowdowns"]
    assert (row["first"], row["last"], row["factor"]) == (21, 28, 3.0)
    assert row["lost_gpu_s"] == 8 * 2.0 * 8
    assert "steps 21 to 28 took 3.00 times as long as usual, which cost 0.04 GPU-hours" in told["sentence"]
    assert violations(report) == []


def test_single_slow_steps_and_a_cheap_stretch_are_noise() -> None:
    lone = reported(HEALTHY, flows=steps([1.0] * 20 + [2.0] + [1.0] * 20), gpus=8)
    cheap = reported(HEALTHY, flows=steps([1.0] * 20 + [1.6] * 3 + [1.0] * 20), gpus=8)
    assert lone["conclusion"]["condition"] == cheap["conclusion"]["condition"] == "healthy"


def test_one_step_in_which_the_job_stood_still_is_degraded() -> None:
    report = reported(HEALTHY, flows=steps([1.0] * 20 + [102.0] + [1.0] * 20), gpus=8)
    assert report["conclusion"]["condition"] == "degraded"
    assert "step 21 took 102 times as long as usual" in report["conclusion"]["sentence"]


def test_the_least_loss_that_is_reported_is_a_setting() -> None:
    report = reported(HEALTHY, flows=steps([1.0] * 20 + [3.0] * 8 + [1.0] * 20), gpus=8, min_gpu_s=500.0)
    assert report["conclusion"]["condition"] == "healthy"


def test_probabilities_of_categories_never_exceed_one() -> None:
    told = reported(FAILED)["conclusion"]
    assert [a["id"] for a in told["alternatives"]] == ["hardware.gpu.ecc", "hardware.gpu.fault"]
    assert sum(a["p"] for a in told["alternatives"]) <= 1.0
    assert cap_shares([("a", 0.4), ("b", 0.9), ("c", 0.9)]) == [("a", 0.4), ("b", 0.4), ("c", 0.2)]


def test_where_it_was_seen_is_reported_though_nobody_is_accused() -> None:
    told = reported(FAILED)["conclusion"]
    assert told["fault"] == []
    assert [(s["kind"], s["name"]) for s in told["seen"]] == [("node", "node-3"), ("rank", "12")]


def test_who_is_accused_is_listed_first_though_more_machines_wrote_the_cause_than_are_listed() -> None:
    last = Suspect("node-399", "node", 0.9, ("stacks",), ("the others wait for it",))
    writer = Suspect("node-50", "node", 0.8, ("logs",))
    report = reported(replace(FAILED, events=(WIDE,)), last, writer)
    seen = report["conclusion"]["seen"]
    assert [(s["name"], s["why"]) for s in seen[:3]] == [
        ("node-399", "the others wait for it"),
        ("node-50", "wrote a line that states the cause"),
        ("node-0", "wrote a line that states the cause"),
    ]
    assert len(seen) == 64
    assert violations(report) == []


def test_the_sentence_names_who_is_accused_first() -> None:
    report = reported(FAILED, Suspect("node-7", "node", 0.6, ("stacks",)), Suspect("node-30", "node", 0.9, ("logs",)))
    told = report["conclusion"]
    assert [f["name"] for f in told["fault"]] == ["node-30", "node-7"]
    assert "node-30" in told["sentence"]
    assert violations(report) == []


def test_an_uploader_who_says_failed_of_a_log_that_ends_well_is_a_disagreement_with_both_sides() -> None:
    (told,) = reported(HEALTHY, hints=JobHints(outcome="failed"))["conclusion"]["disagreements"]
    assert (
        told["text"]
        == "The evidence disagrees: the uploader says that the job failed, the logs say that it ended well."
    )
    assert [side["source"] for side in told["sides"]] == ["the uploader", "the logs"]


def test_logs_and_stacks_that_accuse_different_machines_disagree() -> None:
    stacks = Suspect("node-7", "node", 0.8, ("stacks",), ("its pipeline group waits",))
    logs = Suspect("node-3", "node", 0.9, ("logs",), ("Xid 79 only here",))
    (told,) = reported(FAILED, logs, stacks)["conclusion"]["disagreements"]
    assert "logs accuse node-3, stacks accuse node-7" in told["text"]


def test_evidence_that_shares_a_machine_or_only_ranks_one_does_not_disagree() -> None:
    logs = Suspect("node-3", "node", 0.9, ("logs",))
    same = Suspect("node-3", "node", 0.8, ("stacks",))
    ranked = Suspect("node-7", "node", 0.2, ("flows",), is_suspect=False)
    assert reported(FAILED, logs, same, ranked)["conclusion"]["disagreements"] == []


def test_the_chain_of_a_hung_job_shows_when_each_machine_fell_silent() -> None:
    flows = steps([1.0] * 40)
    row = {"last_at": 41.0, "unanswered_s": 0.5, "by": "b", "owes": True}
    flows["jobs"][0]["ceased"] = [row | {"name": "a"}, row | {"name": "b", "last_at": 41.5, "owes": False}]
    chain = reported(replace(FAILED, symptom="hang"), flows=flows)["conclusion"]["chain"]
    told = [(f["t"], f["places"][0]["name"], f["text"]) for f in chain if f["what"] == "flows_ceased"]
    assert told == [
        (41.0, "a", "a sent its last training message; what b sent to it in the last 500 ms was not answered."),
        (41.5, "b", "b sent its last training message."),
    ]
    chain = reported(HEALTHY, flows=flows)["conclusion"]["chain"]
    assert not [f for f in chain if f["what"] == "flows_ceased"]


def test_a_hung_job_whose_flows_alone_show_who_stopped_answering_has_a_stuck_process_there() -> None:
    flows = steps([1.0] * 40)
    flows["jobs"][0]["ceased"] = [{"name": "a", "last_at": 41.0, "unanswered_s": 0.5, "by": "b", "owes": True}]
    unknown = replace(
        FAILED, symptom="hang", verdict=Verdict("unknown", "unknown", "unknown", 0.0), events=(), lines=()
    )
    reason = "a did not answer what b sent to it in the last 500 ms; then all waited."
    silent = Suspect("a", "node", 0.6, ("flows",), (reason,))
    stacks = {"reason": "No outlier.", "headline": "No outlier can be named.", "suspect_ranks": [], "ranks": []}
    told = reported(unknown, silent, flows=flows, stacks=stacks)["conclusion"]
    assert (told["condition"], told["id"], told["fault"][0]["name"]) == ("hung", "hardware.host.stuck", "a")
    assert "No outlier" not in told["sentence"]


def test_stated_sizes_that_the_flows_contradict_are_a_disagreement_with_both_sides() -> None:
    flows = steps([1.0] * 40)
    flows["jobs"][0] |= {"apart": {"stated": "pp 4", "shown": "pp 2"}}
    (row,) = reported(HEALTHY, flows=flows)["conclusion"]["disagreements"]
    assert row["about"] == "layout"
    assert row["text"] == "The evidence disagrees: the job states pp 4, flows show pp 2."


def test_an_uneven_split_is_an_imbalance_that_is_seen_and_nobodys_fault() -> None:
    flows = steps([1.0] * 40)
    row = {"kind": "slow_group", "measure": "uneven", "culprits": ["a"], "t0": 0.0, "t1": 40.0, "reason": "stage 4"}
    flows["jobs"][0]["diagnoses"] = [row | {"factor": 1.6, "confidence": 0.8}]
    told = reported(None, flows=flows)["conclusion"]
    assert (told["condition"], told["id"], told["fault"]) == ("degraded", "performance.imbalance", [])
    assert [(s["name"], s["why"]) for s in told["seen"]] == [("a", "stage 4")]


def test_planned_pauses_do_not_make_a_job_slow() -> None:
    flows = steps([1.0] * 20 + [30.0] * 10 + [1.0] * 20)
    for measure, condition in (("", "degraded"), ("planned", "healthy")):
        rows = [row | {"measure": measure} for row in flows["jobs"][0]["diagnoses"]]
        told = reported(HEALTHY, flows={"jobs": [flows["jobs"][0] | {"diagnoses": rows}]}, gpus=8)["conclusion"]
        assert (told["condition"], told["slowdowns"] == []) == (condition, measure == "planned")


def test_who_delayed_less_than_half_of_a_slow_stretch_is_not_accused_of_it() -> None:
    slow = Suspect("b", "node", 0.6, ("flows",), ("others waited",), is_suspect=True)
    for until, accused in ((25.0, []), (45.0, ["b"])):
        flows = steps([1.0] * 20 + [3.0] * 10 + [1.0] * 20)
        row = {"kind": "slow_group", "measure": "late", "culprits": ["b"], "t0": 20.0, "t1": until, "reason": "late"}
        flows["jobs"][0]["diagnoses"].append(row | {"factor": 3.0, "confidence": 0.6})
        told = reported(HEALTHY, slow, flows=flows, gpus=8)["conclusion"]
        assert (told["condition"], [f["name"] for f in told["fault"]]) == ("degraded", accused)


def test_the_last_step_has_no_time_if_all_steps_have_that_of_a_line_before_them() -> None:
    rows = [IterationRow(n, 100.0) for n in (10, 20, 30)]
    for own, at in ((rows, None), ([*rows, IterationRow(40, 130.0)], 130.0)):
        told = reported(replace(HEALTHY, timeline=Timeline(iterations=own)))["conclusion"]
        assert [f["t"] for f in told["chain"] if f["what"] == "progress"] == [at]


def test_an_earlier_launch_that_failed_makes_a_completed_job_recovered() -> None:
    tried = (Attempt(0, 0.0, 10.0, "failed", 1, 47), Attempt(1, 20.0, 90.0, "succeeded", 41, 80))
    told = reported(replace(HEALTHY, attempt=1, attempts=tried))["conclusion"]
    assert (told["condition"], told["outcome"]) == ("recovered", "succeeded")
    assert [f["text"] for f in told["chain"] if f["what"] == "restart"] == [
        "Launch 0 ended (failed). 7 iterations had to be run again."
    ]
    assert told["sentence"].endswith("the last one completed. 7 iterations had to be run again.")


def test_a_failed_launch_says_that_a_later_one_completed_and_what_was_lost() -> None:
    tried = (Attempt(0, 0.0, 120.0, "failed", 1, 12), Attempt(1, 200.0, 900.0, "succeeded", 12, 80))
    told = reported(replace(FAILED, attempts=tried))["conclusion"]
    assert told["condition"] == "failed"
    assert "A later launch completed. 1 iteration had to be run again." in told["sentence"]


def test_the_outcome_follows_from_the_condition() -> None:
    slow = steps([1.0] * 20 + [3.0] * 8 + [1.0] * 20)
    assert reported(HEALTHY, flows=slow)["conclusion"]["outcome"] == "succeeded"
    assert reported(replace(FAILED, symptom="hang", outcome="unknown"))["conclusion"]["outcome"] == "failed"
    assert reported(replace(FAILED, outcome="cancelled"))["conclusion"]["outcome"] == "cancelled"
    assert reported(None, flows=steps([1.0] * 40))["conclusion"]["outcome"] == "unknown"


def test_a_hang_is_reported_as_hung_and_a_cancel_as_cancelled() -> None:
    hung = replace(FAILED, symptom="hang")
    cancelled = replace(FAILED, outcome="cancelled")
    assert reported(hung)["conclusion"]["condition"] == "hung"
    assert reported(cancelled)["conclusion"]["condition"] == "cancelled"


LEAVES = st.sampled_from([leaf.id for leaf in load_taxonomy().leaves()])
SHARE = st.floats(0.0, 1.0)
NAMES = st.text("abcxyz0123456789-.", min_size=1, max_size=12)
SUSPECTS = st.builds(
    Suspect,
    entity=NAMES | st.sampled_from(["a", "b", "rank 3", "node-99"]),
    kind=st.sampled_from(["node", "rank", "group", "switch", "code", "data"]),
    score=SHARE,
    sources=st.lists(st.sampled_from(["logs", "flows", "stacks"]), min_size=1, max_size=3, unique=True).map(tuple),
    ranks=st.lists(st.integers(0, 9), max_size=2, unique=True).map(tuple),
    is_suspect=st.booleans(),
)


@st.composite
def log_diagnoses(draw: st.DrawFn) -> LogDiagnosis:
    """What logs may say, whether it makes sense or not."""
    is_failure = draw(st.booleans())
    leaf = load_taxonomy().get(draw(LEAVES) if is_failure else "none")
    other = draw(st.none() | st.tuples(LEAVES, SHARE)) if is_failure else None
    return LogDiagnosis(
        is_failure=is_failure,
        outcome=draw(st.sampled_from(["failed", "succeeded", "running", "cancelled", "unknown"])),
        verdict=Verdict(leaf.id, leaf.category, leaf.subcategory, draw(SHARE), other),
        symptom=draw(st.sampled_from(["launch_failure", "crash", "hang", "slow"])) if is_failure else "none",
        stage=draw(st.sampled_from(["launch", "training"])) if is_failure else None,
        iteration=draw(st.none() | st.integers(0, 10**9)),
        events=draw(st.sampled_from([(), (ROOT,), (WIDE,)])) if is_failure else (),
        slow_phase=draw(st.none() | st.just((3, 9, 2.5))) if not is_failure else None,
        timeline=Timeline(iterations=[IterationRow(n, float(n), 1.0) for n in range(1, 15)]),
    )


def test_a_machine_and_the_rank_on_it_are_one_culprit() -> None:
    node = Suspect("node-3", "node", 0.8, ("stacks",), ("rank 5 is stuck",), ranks=(4, 5))
    rank = Suspect("rank 5", "rank", 0.8, ("stacks",), ("rank 5 is stuck",), ranks=(5,))
    report = reported(replace(FAILED, symptom="hang"), node, rank)
    (fault,) = report["conclusion"]["fault"]
    assert (fault["kind"], fault["name"], fault["rank"], fault["p"]) == ("node", "node-3", 5, 0.8)
    assert "on node-3 (rank 5) in training" in report["headline"]


def test_a_rank_joins_its_machine_by_the_table_of_the_stacks() -> None:
    stacks = {"reason": "Rank 5 waits.", "ranks": [{"rank": 5, "node": "node-3"}, {"rank": 9, "node": "node-4"}]}
    named = [Suspect("node-3", "node", 0.6, ("logs",)), Suspect("rank 5", "rank", 0.7, ("stacks",), ranks=(5,))]
    apart = Suspect("rank 9", "rank", 0.55, ("stacks",), ranks=(9,))
    told = reported(None, *named, apart, stacks=stacks)["conclusion"]
    assert [(f["kind"], f["name"], f["rank"], f["p"]) for f in told["fault"]] == [
        ("node", "node-3", 5, 0.7),
        ("rank", "9", 9, 0.55),
    ]
    assert told["fault"][0]["from"] == ["logs", "stacks"]


def test_slow_machines_of_flows_are_no_part_of_a_story_without_slow_stretch() -> None:
    flows = steps([1.0] * 40)
    row = {"kind": "slow_group", "culprits": ["a"], "t0": 3.0, "t1": 4.0, "reason": "a was late", "measure": "late"}
    flows["jobs"][0]["diagnoses"] = [row]
    told = reported(FAILED, flows=flows, gpus=8)["conclusion"]
    assert [f for f in told["chain"] if f["what"] == "slow"] == []


def test_a_failed_job_never_has_the_category_no_failure() -> None:
    told = reported(replace(FAILED, verdict=Verdict("none", "none", "none", 0.3)))["conclusion"]
    assert (told["condition"], told["id"], told["confidence"]) == ("failed", "unknown", 0.0)


STACKS = st.fixed_dictionaries(
    {
        "reason": st.just("Rank 3 stands elsewhere."),
        "suspect_ranks": st.lists(st.integers(0, 9), max_size=3, unique=True),
        "suspect_nodes": st.lists(st.sampled_from("abc"), max_size=3, unique=True),
        "evict_nodes": st.lists(st.sampled_from("abcdef"), max_size=4, unique=True),
        "is_moving": st.booleans(),
        "rule": st.sampled_from(["", "mismatch"]),
        "ranks": st.just([{"rank": r, "node": "abcdefghij"[r]} for r in range(10)]),
        "groups": st.just([{"ranks": [3], "activity": "compute"}]),
    }
)


@given(
    logs=st.none() | log_diagnoses(),
    suspects=st.lists(SUSPECTS, max_size=6, unique_by=lambda s: (s.kind, s.entity)),
    lengths=st.lists(st.sampled_from([1.0, 1.0, 1.0, 1.1, 3.0, 50.0]), max_size=30),
    stacks=st.none() | STACKS,
    said=st.sampled_from(["", "failed", "succeeded", "running", "cancelled"]),
    gpus=st.none() | st.integers(1, 10_000),
)
def test_no_findings_make_a_conclusion_that_contradicts_itself(
    logs: LogDiagnosis | None,
    suspects: list[Suspect],
    lengths: list[float],
    stacks: dict[str, Any] | None,
    said: str,
    gpus: int | None,
) -> None:
    flows = steps(lengths) if lengths else None
    report = reported(logs, *suspects, flows=flows, stacks=stacks, hints=JobHints(outcome=said), gpus=gpus)
    assert violations(report) == []
