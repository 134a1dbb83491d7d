"""The tables and limits by which a conclusion decides, one at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from diagnosis.conclusion import category
from diagnosis.conclusion.conclude import (
    MAX_CHAIN,
    _chain,
    _covers_a_stretch,
    _findings_in_stretches,
    _span,
)
from diagnosis.conclusion.conclusion_records import report_of
from diagnosis.conclusion.condition import Situation, condition, outcome
from diagnosis.conclusion.model import Conclusion, Fault, Slowdown
from diagnosis.conclusion.sentences.sentence import sentence
from diagnosis.evidence import (
    SETUP_CHECK,
    Check,
    Finding,
    FlowFinding,
    Outcome,
    Place,
    Result,
    StackFinding,
    Suspect,
    decode,
)
from diagnosis.model import AlarmNote
from diagnosis.records.result import NO_LOGS, Attempt, LogDiagnosis, Verdict

ENDED = LogDiagnosis(False, "succeeded", Verdict("none", "none", "none", 0.95), "none", "training", 80)
FAILED = LogDiagnosis(
    True, "failed", Verdict("hardware.gpu.ecc", "hardware", "gpu_ecc", 0.7, ("hardware.gpu.fault", 0.6)), "crash",
    "training", 12,
)  # fmt: skip
STRETCH = Slowdown("flows", (3, 6), 4, 2.0, 9.0, 72.0, at=100.0, until=140.0)
HANG = AlarmNote("hang", "no progress", 50.0)
NODE = (Place("node", "n1"),)
CHECK = Check("memory", "Memory", "", "", 0.0, "node", (), (), ())
BROKEN = Result(CHECK, Outcome("bad", "has bad memory", 1000.0, adds="hardware.gpu.ecc"), "gpu.txt", 1, "bad")
FORMER = replace(BROKEN, is_former=True)
ENDED_SO = replace(BROKEN, is_end=True)
BEHIND = replace(BROKEN, outcome=replace(BROKEN.outcome, adds="framework.collective.timeout"))
OTHER_VERSION = replace(BROKEN, check=replace(CHECK, id=SETUP_CHECK))
SLOW_PLACE = replace(BROKEN, outcome=replace(BROKEN.outcome, adds="performance.straggler"))
STILL = StackFinding(reason="they wait", rule="waiting")
LONE = StackFinding(reason="one dump", rule="none")
LONE_WITH_SUSPECT = StackFinding(reason="one dump", rule="none", suspects=(Suspect("n1"),))
MOVING = StackFinding(reason="they move", is_moving=True)


def situation(logs: LogDiagnosis | None = None, **more: Any) -> Situation:
    flows = decode(more.pop("flows", {}), FlowFinding)
    given = {"flows": flows, "stacks": StackFinding(), "slowdowns": ()} | more
    return Situation(logs or NO_LOGS, **given)


def shown(outcome: str) -> LogDiagnosis:
    return replace(ENDED, outcome=outcome)


def slow(t: float, until: float, **more: Any) -> Finding:
    return Finding("flows", "slow", "n1 is slow", at=t, until=until, places=NODE, **more)


@pytest.mark.parametrize(
    ("given", "name", "ended"),
    [
        (situation(replace(FAILED, symptom="hang")), "hung", "failed"),
        (situation(replace(FAILED, symptom="hang", outcome="unknown")), "hung", "failed"),
        (situation(replace(FAILED, symptom="slow")), "degraded", "failed"),
        (situation(replace(FAILED, outcome="cancelled")), "cancelled", "cancelled"),
        (situation(FAILED), "failed", "failed"),
        (situation(replace(FAILED, outcome="unknown"), alarms=(HANG,)), "failed", "failed"),
        (situation(shown("running"), alarms=(HANG,)), "hung", "running"),
        (situation(shown("running"), alarms=(replace(HANG, until=60.0),)), "degraded", "running"),
        (situation(shown("unknown"), alarms=(replace(HANG, ended_at=60.0),)), "hung", "failed"),
        (situation(ENDED, alarms=(replace(HANG, ended_at=60.0),)), "healthy", "succeeded"),
        (situation(shown("running"), alarms=(replace(HANG, kind="disk"),)), "degraded", "running"),
        (situation(ENDED, alarms=(replace(HANG, kind="disk", ended_at=60.0),)), "healthy", "succeeded"),
        (situation(replace(FAILED, symptom="hang", outcome="cancelled")), "hung", "cancelled"),
        (situation(None, results=(BEHIND,)), "hung", "failed"),
        (situation(ENDED, results=(BEHIND,)), "degraded", "succeeded"),
        (situation(None, stacks=STILL), "hung", "failed"),
        (situation(None, stacks=MOVING), "degraded", "unknown"),
        (situation(None, stacks=LONE), "unknown", "unknown"),
        (situation(None, stacks=LONE_WITH_SUSPECT), "hung", "failed"),
        (situation(ENDED, stacks=STILL), "healthy", "succeeded"),
        (situation(ENDED, stacks=MOVING), "healthy", "succeeded"),
        (situation(ENDED, slowdowns=(STRETCH,)), "degraded", "succeeded"),
        (situation(None, flows={"jobs": [{"diagnoses": [{"kind": "slow_group"}]}]}), "degraded", "unknown"),
        (situation(None, flows={"diagnoses": [{"kind": "slow_switch"}]}), "degraded", "unknown"),
        (situation(None, flows={"jobs": [{"diagnoses": [{"kind": "slow_step"}]}]}), "unknown", "unknown"),
        (situation(ENDED, flows={"diagnoses": [{"kind": "slow_switch"}]}), "healthy", "succeeded"),
        (situation(shown("cancelled")), "cancelled", "cancelled"),
        (situation(shown("running")), "running", "running"),
        (situation(shown("running"), stated_outcome="failed"), "unknown", "unknown"),
        (situation(shown("unknown")), "unknown", "unknown"),
        (situation(None, results=(OTHER_VERSION,)), "degraded", "unknown"),
        (situation(shown("unknown"), results=(BROKEN,)), "failed", "unknown"),
        (situation(ENDED, results=(BROKEN,)), "degraded", "succeeded"),
        (situation(shown("running"), results=(BROKEN,)), "degraded", "running"),
        (situation(shown("running"), results=(FORMER,)), "running", "running"),
        (situation(shown("running"), results=(ENDED_SO,)), "failed", "failed"),
        (situation(ENDED, results=(ENDED_SO,)), "degraded", "succeeded"),
        (situation(shown("unknown"), results=(SLOW_PLACE,)), "degraded", "unknown"),
        (situation(shown("unknown"), results=(replace(BROKEN, is_of_run=True),)), "failed", "failed"),
        (situation(None), "unknown", "unknown"),
    ],
)
def test_the_first_row_that_holds_is_the_condition_and_gives_the_outcome(
    given: Situation, name: str, ended: str
) -> None:
    assert (condition(given)[0], outcome(name, given)) == (name, ended)


@pytest.mark.parametrize(
    ("attempts", "name"),
    [
        ((Attempt(1, 0.0, 5.0, "failed"), Attempt(2, 6.0, 9.0, "succeeded")), "recovered"),
        ((Attempt(1, 0.0, 5.0, "succeeded"), Attempt(2, 6.0, 9.0, "succeeded")), "healthy"),
        ((Attempt(2, 0.0, 5.0, "failed"),), "healthy"),  # not an earlier one
    ],
)
def test_a_job_has_recovered_if_an_earlier_launch_failed_and_the_last_ended_well(
    attempts: tuple[Attempt, ...], name: str
) -> None:
    given = situation(replace(ENDED, attempt=2, attempts=attempts))
    assert (condition(given)[0], outcome(name, given)) == (name, "succeeded")
    assert condition(situation(replace(given.logs, outcome="unknown")))[0] == "unknown"  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("condition", "logs", "findings", "expected"),
    [
        ("failed", FAILED, [], [("hardware.gpu.ecc", 0.7), ("hardware.gpu.fault", 0.3)]),
        ("healthy", ENDED, [], [("none", 0.95)]),
        ("healthy", None, [], [("none", 0.5)]),
        ("cancelled", None, [], [("platform.scheduler.cancelled", 0.6)]),
        ("failed", None, [], [("unknown", 0.0)]),
        ("degraded", ENDED, [], [("performance.step", 0.8)]),
        ("degraded", ENDED, [slow(1, 2, p=0.9, category="performance.network")],
         [("performance.network", 0.9), ("performance.step", 0.1)]),
        ("degraded", ENDED, [slow(1, 2, p=0.2, category="performance.network"), slow(1, 2, p=0.1)],
         [("performance.network", 0.5), ("performance.step", 0.5)]),
        ("degraded", ENDED, [slow(1, 2, p=0.9)], [("performance.step", 0.9)]),
        ("degraded", ENDED, [Finding("flows", "slow", "a step", category="performance.network")],
         [("performance.step", 0.8)]),
        ("degraded", ENDED, [Finding("watch", "slow", "alarm", category="hardware.disk.full")],
         [("hardware.disk.full", 0.5)]),
        ("degraded", ENDED, [Finding("watch", "slow", "alarm", category="unknown")], [("unknown", 0.0)]),
        ("degraded", ENDED, [Finding("watch", "slow", "a", category="unknown"), Finding("logs", "slow", "b")],
         [("performance.step", 0.8)]),
    ],
)  # fmt: skip
def test_the_category_follows_from_the_condition_and_the_surest_finding(
    condition: str, logs: LogDiagnosis | None, findings: list[Finding], expected: list[tuple[str, float]]
) -> None:
    assert category.shares(condition, logs or NO_LOGS, findings, StackFinding()) == [
        (name, pytest.approx(p)) for name, p in expected
    ]


def test_a_failure_without_a_cause_is_what_stopped_answering_in_the_flows() -> None:
    unread = replace(FAILED, verdict=Verdict("unknown", "unknown", "unknown", 0.0))
    silent = Finding("flows", "flows_ceased", "n1 stopped", category="hardware.host.stuck")
    assert category.shares("failed", unread, [], StackFinding()) == [("unknown", 0.0)]
    assert category.shares("failed", unread, [silent], StackFinding()) == [("hardware.host.stuck", 0.35)]
    assert category.shares("failed", FAILED, [silent], StackFinding())[0][0] == "hardware.gpu.ecc"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", 0.7), ("b", 0.6)], [("a", 0.7), ("b", 0.3)]),
        ([("a", 0.3), ("b", 0.6)], [("a", 0.3), ("b", 0.3)]),
        ([("a", 0.3), ("a", 0.6), ("b", 0.2)], [("a", 0.3), ("b", 0.2)]),
        ([("a", 1.4), ("b", 0.2)], [("a", 1.0)]),
        ([("a", -0.2), ("b", 0.0)], [("a", 0.0)]),
        ([("a", 0.33333), ("b", 0.2)], [("a", 0.3333), ("b", 0.2)]),
        ([], []),
    ],
)
def test_shares_fall_and_are_one_together(rows: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    assert category.cap_shares(rows) == [(name, pytest.approx(p)) for name, p in expected]


@pytest.mark.parametrize(
    ("rows", "stretches", "is_covered"),
    [
        ([slow(100, 120)], [STRETCH], True),  # half of it
        ([slow(100, 119)], [STRETCH], False),
        ([slow(90, 119), slow(95, 118)], [STRETCH], False),  # time that two share counts once
        ([slow(100, 110), slow(130, 140)], [STRETCH], True),
        ([slow(130, 200)], [STRETCH], False),
        ([slow(0, 90)], [STRETCH], False),
        ([slow(0, 90)], [STRETCH, replace(STRETCH, at=50.0, until=90.0)], True),  # one of them
        ([slow(0, 90)], [replace(STRETCH, source="logs")], True),
        ([slow(0, 90)], [replace(STRETCH, at=None)], True),
        ([slow(0, 90)], [replace(STRETCH, until=None)], True),
        ([], [STRETCH], True),
        ([slow(0, 90)], [], True),
    ],
)
def test_who_delayed_half_of_a_stretch_made_the_job_slow(
    rows: list[Finding], stretches: list[Slowdown], is_covered: bool
) -> None:
    assert _covers_a_stretch(rows, stretches) is is_covered


@pytest.mark.parametrize(
    ("condition", "stretches", "kept"),
    [
        ("degraded", [STRETCH], [1, 2, 3]),
        ("failed", [STRETCH], [1, 2, 3]),
        ("degraded", [replace(STRETCH, at=None)], [0, 1, 2, 3, 4]),
        ("failed", [replace(STRETCH, at=None)], []),
        ("healthy", [], []),
        ("degraded", [], [0, 1, 2, 3, 4]),
        ("degraded", [replace(STRETCH, until=None)], [1, 2]),
    ],
)
def test_slow_machines_count_within_the_stretches_that_are_reported(
    condition: str, stretches: list[Slowdown], kept: list[int]
) -> None:
    rows = [slow(50, 99), slow(90, 100), slow(100, 110), slow(140, 150), slow(141, 150)]
    assert _findings_in_stretches(rows, condition, stretches) == [rows[k] for k in kept]


ROOT = Finding("logs", "root", "Xid 79", at=100.0)
POINT = Finding("logs", "progress", "Last progress", at=90.0)


def test_the_chain_ends_with_the_outcome_and_leaves_out_what_the_uploader_says() -> None:
    said = Finding("uploader", "outcome", "failed", at=1.0)
    end = Finding("logs", "outcome", "succeeded", at=200.0)
    assert [f.text for f in _chain([said, end, ROOT], "failed")] == ["Xid 79", "failed"]
    assert len(_chain([replace_at(ROOT, k) for k in range(MAX_CHAIN + 5)], "failed")) == MAX_CHAIN == 40


def replace_at(finding: Finding, at: float) -> Finding:
    return Finding(finding.source, finding.what, f"{finding.text} {at}", at=at)


ALARM = Finding("watch", "silent", "a part is silent")
ECC_FOUND = replace(BROKEN, outcome=replace(BROKEN.outcome, categories={"hardware.gpu": 9.0}))


@pytest.mark.parametrize(
    ("condition", "findings", "results", "is_only_shown"),
    [
        ("degraded", [], (BROKEN,), True),
        ("degraded", [], (), False),
        ("failed", [], (BROKEN,), False),
        ("degraded", [slow(0, 90)], (BROKEN,), False),
        ("degraded", [ALARM], (BROKEN,), False),
        ("degraded", [Finding("logs", "progress", "step 9")], (BROKEN,), True),
    ],
)
def test_a_broken_part_alone_degrades_a_job_where_nothing_is_slow(
    condition: str, findings: list[Finding], results: tuple[Result, ...], is_only_shown: bool
) -> None:
    assert category._is_only_shown(condition, findings, results) is is_only_shown


@pytest.mark.parametrize(("condition", "p"), [("failed", 0.6961), ("cancelled", 0.7), ("running", 0.7)])
def test_checks_move_the_categories_of_problems_that_nobody_decided(condition: str, p: float) -> None:
    assert category.shares(condition, FAILED, [], StackFinding(), (ECC_FOUND,))[0] == ("hardware.gpu.ecc", p)


def test_who_ended_a_cancelled_job_is_what_a_report_says() -> None:
    verdict = Verdict("platform.scheduler.cancelled", "platform", "cancelled", 0.9)
    stopped = replace(FAILED, verdict=verdict)
    leaf = "platform.scheduler.preemption"
    gave_way = replace(BROKEN, outcome=replace(BROKEN.outcome, ratio=9.0, adds=leaf))
    told = category.shares("cancelled", stopped, [], StackFinding(), (ECC_FOUND, gave_way))
    assert told == [(leaf, 0.9), ("platform.scheduler.cancelled", 0.1)]
    others = category.shares("cancelled", stopped, [], StackFinding(), (ECC_FOUND,))
    assert others[0][0] == verdict.id


def test_the_cause_that_a_report_names_comes_before_its_consequence_in_the_logs() -> None:
    told = situation(FAILED, results=(BEHIND,))
    said = {leaf: sentence(told, "failed", (), leaf) for leaf in (BEHIND.outcome.adds, "")}
    agreed = sentence(situation(FAILED, results=(BROKEN,)), "failed", (), BROKEN.outcome.adds)
    assert said[BEHIND.outcome.adds] == f"{BEHIND.headline} Then: {said['']}"
    assert agreed == said[""]


def test_without_logs_the_stacks_give_the_category() -> None:
    shown = StackFinding(category="framework.dataloader", category_p=0.6)
    assert category.shares("hung", NO_LOGS, [], shown) == [("framework.dataloader", 0.6)]


def test_how_sure_no_failure_is_has_four_digits() -> None:
    sure = replace(ENDED, verdict=replace(ENDED.verdict, confidence=0.956789))
    assert category.shares("healthy", sure, [], StackFinding()) == [("none", 0.9568)]


def test_a_result_that_speaks_against_a_part_is_a_doubt_and_one_that_clears_it_is_none() -> None:
    clear = replace(BROKEN, outcome=replace(BROKEN.outcome, ratio=0.1, adds=""))
    assert situation(None, results=(clear, BROKEN)).doubts == [BROKEN]


def test_flows_alone_show_no_good_end() -> None:
    assert condition(situation(shown("unknown"), flows={"jobs": [{}]}))[0] == "unknown"
    assert condition(situation(None, flows={"jobs": [{}]}))[0] == "unknown"
    assert condition(replace(situation(None, flows={"jobs": [{}]}), stated_outcome="succeeded"))[0] == "healthy"


@pytest.mark.parametrize(
    ("at", "until", "expected"),
    [(None, None, (0.0, 0.0)), (3.0, None, (3.0, 3.0)), (3.0, 5.0, (3.0, 5.0)), (None, 5.0, (0.0, 5.0))],
)
def test_a_finding_without_an_end_lasts_a_moment(
    at: float | None, until: float | None, expected: tuple[float, float]
) -> None:
    assert _span(Finding("flows", "slow", "slow", at=at, until=until)) == expected


def told_of(**more: Any) -> dict[str, Any]:
    concluded = Conclusion("degraded", "performance.step", "performance", "step", 0.7, "It was slow.", **more)
    return dict(msgspec.to_builtins(report_of(concluded)))


def test_a_report_states_a_stretch_in_three_digits_and_its_cost_only_if_it_is_known() -> None:
    known = replace(STRETCH, factor=1.23456, lost_s=2.34567, lost_gpu_s=3.45678)
    rows = told_of(slowdowns=(known, replace(known, lost_gpu_s=None)))["slowdowns"]
    assert [(row["factor"], row["lost_s"], row["lost_gpu_s"]) for row in rows] == [
        (1.235, 2.346, 3.457),
        (1.235, 2.346, None),
    ]


def test_a_report_has_no_category_and_no_steps_of_a_finding_without_them() -> None:
    bare, full = told_of(chain=(POINT, Finding("flows", "slow", "slow", category="performance.network", steps=(3, 6))))[
        "chain"
    ]
    assert (bare["category"], bare["steps"], bare["places"]) == (None, None, [])
    assert (full["category"], full["steps"]) == ("performance.network", (3, 6))


def test_a_report_gives_the_first_reason_of_each_accusation() -> None:
    accused = (Fault(NODE[0], 0.9, ("it is hot", "it is late"), ("logs",)), Fault(Place("rank", "3", 3), 0.5))
    rows = told_of(fault=accused)["fault"]
    assert [(row["kind"], row["name"], row["rank"], row["why"]) for row in rows] == [
        ("node", "n1", None, "it is hot"),
        ("rank", "3", 3, ""),
    ]


@pytest.mark.parametrize(("owes", "expected"), [(False, "healthy"), (True, "unknown")])
def test_a_stated_good_end_counts_unless_a_member_stopped_in_an_exchange(owes: bool, expected: str) -> None:
    job = {"members": ["n1"], "ceased": [{"name": "n1", "owes": owes}]}
    flows = decode({"jobs": [job]}, FlowFinding)
    assert condition(Situation(NO_LOGS, flows, StackFinding(), (), "succeeded"))[0] == expected
