"""Who delayed slow steps: a ring of four machines with transfers and acknowledgements, in which one thing at a time is
slow.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from diagnosis.kinds.flows import parse_flow
from diagnosis.kinds.flows.capture.capture import Capture, Flows, Place
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.slow.delays import (
    EVIDENCE,
    THRESHOLDS,
    Candidate,
    Delays,
    find_raised_stretches,
    measure_delays,
)
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.slow.stragglers import (
    StragglerResult,
    Stretch,
    _smallest_set,
    drop_unexplained,
    find_stragglers,
    join_findings,
    join_stretches,
    probabilities,
    stretches,
)
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.waiting import _thinking_s
from diagnosis.kinds.flows.tell.suspects import suspects
from diagnosis.model import ParseHints
from tests.diagnosis.kinds.reports import flows_json

RECORDINGS = Path(__file__).with_name("recordings")

NODES = 4
STEPS = 24
SLOW = range(10, 16)
LOST_S = 0.5


def capture(
    late: int | None = None, hangs: frozenset[tuple[int, int]] = frozenset(), silent: int | None = None
) -> tuple[JobFlows, Steps, Capture]:
    """A ring 0 → 1 → 2 → 3 → 0, two machines a leaf. In the slow steps: ``late`` sends late, transfers on ``hangs``
    are answered late, ``silent`` answers nothing for so long."""
    rows: list[tuple[float, float, int, int, float, bool, bool]] = []
    begins, now = [], 0.0
    dice = np.random.default_rng(1)
    for k in range(STEPS):
        begins.append(now)
        is_slow = k in SLOW
        ends = []
        for m in range(NODES):
            to = (m + 1) % NODES
            wait = 0.1 + 0.01 * dice.random() + (LOST_S if is_slow and m == late else 0.0)
            hang = LOST_S if is_slow and ((m, to) in hangs or to == silent) else 0.0
            sent = now + wait
            rows.append((sent, sent + 0.05, m, to, 1e6, False, False))
            if is_slow and to == silent:
                rows += [(sent + 0.1, sent + 0.1, m, to, 300.0, True, False)]
            answered = sent + 0.05 + hang
            rows.append((sent + 0.01 if not hang else answered, answered + 0.001, to, m, 120.0, True, True))
            ends.append(answered + 0.001)
            if hang:  # the receiver goes on once all is there
                rows.append((answered + 0.002, answered + 0.003, to, m, 100.0, True, False))
        now = max(ends) + 0.02
    begins.append(now)
    table = sorted(rows)
    start, end, src, dst, size, control, empty = (np.array(column) for column in zip(*table, strict=True))
    ids = (src.astype(np.int32), dst.astype(np.int32))
    port = (1000 + np.minimum(*ids) * NODES + np.maximum(*ids)).astype(np.int32)
    flows = Flows(start, end, *ids, size, port, np.full(len(start), -1, dtype=np.int32), control, empty)
    edges = np.array(begins)
    steps = Steps(edges[:-1], edges[1:], edges, np.ones(STEPS), "dp", "gaps")
    places = {m: Place(f"n{m}", "", f"leaf{m // 2}") for m in range(NODES)}
    names = [f"10.0.0.{m}" for m in range(NODES)]
    data = flows.take(~control)
    return JobFlows(np.arange(NODES), data), steps, Capture(flows, names, [], 0.0, places=places)


def named(job: JobFlows, steps: Steps, whole: Capture) -> list[SlowReport]:
    return find_stragglers(job, steps, whole).found


def test_whoever_sends_late_in_every_slow_step_is_named_with_its_machine() -> None:
    job, steps, whole = capture(late=2)
    (found,) = named(job, steps, whole)
    assert (found.kind, found.nodes, found.measure) == ("slow_group", ["n2"], "late")
    assert found.confidence > 0.9
    assert found.reason == "n2: the others waited for it (90\u00a0% of the lost time)."
    assert (found.t0, found.t1) == (steps.start[SLOW[0]], steps.end[SLOW[-1]])


def test_a_receiver_is_named_when_what_all_send_to_it_and_it_sends_hangs() -> None:
    (found,) = named(*capture(hangs=frozenset({(1, 2), (2, 3)})))
    assert (found.nodes, found.measure) == (["n2"], "transfers")


def test_transfers_that_hang_both_ways_between_leaves_blame_the_uplink_and_no_machine() -> None:
    (found,) = named(*capture(hangs=frozenset({(1, 2), (3, 0)})))
    assert (found.kind, found.candidates, found.nodes) == ("slow_switch", ["leaf0", "leaf1"], [])
    assert (found.link, list(found.shares)) == ("leaf0-leaf1", ["leaf0-leaf1"])
    assert found.reason.startswith("the link between leaf0 and leaf1: what crosses it came through late")


def test_the_only_link_between_two_leaves_is_one_suspect_and_not_two_switches() -> None:
    job, steps, whole = capture(hangs=frozenset({(1, 2), (3, 0)}))
    rows = suspects([], named(job, steps, whole), whole, [])
    assert [(row.kind, row.entity) for row in rows] == [("link", "leaf0-leaf1")]


def test_without_an_inventory_the_first_switch_of_what_a_machine_sends_is_its_leaf() -> None:
    job, steps, whole = capture(hangs=frozenset({(1, 2), (3, 0)}))
    way = (whole.flows.src // 2).astype(np.int32)
    blind = replace(whole, places={}, paths=[("leaf0",), ("leaf1",)], flows=replace(whole.flows, path=way))
    (found,) = named(job, steps, blind)
    assert (found.link, found.culprits) == ("leaf0-leaf1", [])


def test_if_only_one_pair_across_the_uplink_hangs_the_uplink_explains_it_as_well_as_the_port_of_the_receiver() -> None:
    job, steps, whole = capture(hangs=frozenset({(3, 0)}))
    held = measure_delays(job, steps, whole)
    assert held is not None
    evidence = held.evidence(SLOW)
    assert evidence is not None
    uplink, receiver = evidence[NODES], evidence[0]
    assert uplink[EVIDENCE.index("across")] == 0.0
    assert uplink[EVIDENCE.index("into")] == pytest.approx(receiver[EVIDENCE.index("into")], rel=0.1)


def test_a_set_of_more_than_half_of_the_candidates_says_nothing() -> None:
    assert _smallest_set(np.array([0.3, 0.2, 0.2, 0.0, 0.3]), np.ones(4)) == []
    assert _smallest_set(np.array([0.4, 0.3, 0.0, 0.0, 0.3]), np.ones(4)) == [(0, 0.4), (1, 0.3)]


def test_a_steady_job_names_nobody() -> None:
    assert named(*capture()) == []


def test_slow_steps_that_all_machines_share_name_nobody() -> None:
    job, steps, whole = capture()
    edges = steps.edges + np.cumsum(np.isin(np.arange(-1, STEPS), SLOW)) * LOST_S
    moved = np.interp(whole.flows.start, steps.edges, edges)
    flows = replace(whole.flows, start=moved, end=moved + (whole.flows.end - whole.flows.start))
    slow = Steps(edges[:-1], edges[1:], edges, np.ones(STEPS), "dp", "gaps")
    assert named(replace(job, flows=flows.take(~flows.control)), slow, replace(whole, flows=flows)) == []


def test_without_an_inventory_addresses_are_named() -> None:
    job, steps, whole = capture(late=1)
    (found,) = named(job, steps, replace(whole, places={}))
    assert (found.nodes, found.culprits) == ([], [1])
    assert "10.0.0.1" in found.reason


def test_shares_of_one_step_never_exceed_what_counts_at_most() -> None:
    held = measure_delays(*capture(late=0))
    assert held is not None
    shares = held.shares(SLOW)
    assert shares is not None
    assert np.abs(shares).max() <= THRESHOLDS.most
    assert held.shares([10**6]) is None


def made(seconds: dict[int, float], *, steps: int = 40, lost: range | None = None) -> Delays:
    """One machine that is late by these seconds in these steps, and a second one that never is; steps of 1 s."""
    table = np.zeros((steps, 2, len(EVIDENCE)))
    excess = np.zeros(steps)
    for k, late in seconds.items():
        table[k, 0, 0] = excess[k] = late
    for k in lost or ():
        table[k, 0, EVIDENCE.index("lost")] = 1.0
    both = (Candidate("node", ("a",), (0,)), Candidate("node", ("b",), (1,)))
    return Delays(both, tuple(range(steps)), table, np.full((2, len(EVIDENCE)), 0.01), excess, 0.05)


def test_a_machine_that_is_a_little_late_in_step_after_step_makes_a_stretch_without_slow_steps() -> None:
    assert find_raised_stretches(made(dict.fromkeys(range(10, 20), 0.08)), 1.0) == [tuple(range(10, 20))]
    assert find_raised_stretches(made(dict.fromkeys(range(10, 13), 0.08)), 1.0) == []
    assert find_raised_stretches(made({}), 1.0) == []


def test_bytes_that_are_repeated_make_a_stretch_only_if_steps_lose_time() -> None:
    slow = dict.fromkeys(range(10, 20, 2), 0.3)
    assert find_raised_stretches(made(slow, lost=range(10, 20)), 1.0) == [tuple(range(10, 20))]
    assert find_raised_stretches(made({}, lost=range(10, 20)), 1.0) == []


def test_of_two_that_delay_at_the_same_time_the_one_with_the_longer_delays_shows_the_stretch() -> None:
    held = made(dict.fromkeys(range(10, 16), 0.4))
    held.seconds[12:24, 1, EVIDENCE.index("into")] = 0.06
    held.excess[16:24] = 0.06
    (longest, *rest) = find_raised_stretches(held, 1.0)
    assert longest == tuple(range(10, 16))
    assert join_stretches([], [longest, *rest]) == [Stretch(longest)]


def test_delays_that_explain_little_of_what_was_lost_make_no_stretch() -> None:
    held = made(dict.fromkeys(range(10, 20), 0.06))
    held.excess[10:20] = 0.8
    assert find_raised_stretches(held, 1.0) == []


def test_a_stretch_of_slow_steps_comes_before_one_of_a_single_machine() -> None:
    assert join_stretches([Stretch((4, 5, 6))], [(5, 6, 7, 8, 9), (20, 21, 22)]) == [
        Stretch((4, 5, 6)),
        Stretch((20, 21, 22)),
    ]


def test_steps_of_one_delaying_machine_show_where_the_slow_ones_among_them_began_and_ended() -> None:
    assert join_stretches([Stretch((4, 5, 6)), Stretch((8, 9))], [(3, 4, 5, 6, 7, 8, 9, 10)]) == [
        Stretch((3, 4, 5, 6, 7, 8, 9, 10))
    ]


def test_what_one_machine_lost_in_few_of_many_steps_counts_in_full() -> None:
    held = made({12: 0.5, 15: 0.4})
    shares = held.shares(range(10, 20))
    assert shares is not None
    assert shares[0, 0] > 0.9
    assert shares[1, 0] == 0.0


def test_what_delayed_one_long_step_does_not_outweigh_the_other_slow_steps_of_its_stretch() -> None:
    excess = dict.fromkeys(range(10, 20), 0.1)
    steady, accident = made(excess), made(excess | {15: 1.0})
    accident.seconds[10:20, 0] = 0.0
    accident.seconds[15, 0, EVIDENCE.index("late")] = 1.0  # late in the long step alone
    evidence = [held.evidence(range(10, 20)) for held in (steady, accident)]
    usual, outweighed = (rows[0, 0] for rows in evidence if rows is not None)
    assert outweighed < 0.2 * usual


def test_evidence_that_cannot_separate_two_gives_both_the_same_probability() -> None:
    evidence = np.zeros((3, len(EVIDENCE)))
    evidence[:2, 0] = 2.0
    p = probabilities(evidence)
    assert p[0] == pytest.approx(p[1])
    assert p.sum() == pytest.approx(1.0)


def test_no_evidence_means_nobody_however_many_there_are() -> None:
    for count in (2, 50, 4000):
        assert probabilities(np.zeros((count, len(EVIDENCE))))[-1] > 0.9


def test_slow_steps_with_few_usual_ones_between_are_one_stretch() -> None:
    slow = np.isin(np.arange(20), [3, 4, 6, 12])
    assert [s.steps for s in stretches(slow)] == [(3, 4, 6), (12,)]


def test_a_named_machine_replaces_the_group_of_which_one_is_meant_and_is_reported_once() -> None:
    ring = SlowReport("slow_group", 0.0, 10.0, "one ring", culprits=[1, 2, 3], nodes=["a", "b", "c"])
    one = SlowReport("slow_group", 2.0, 9.0, "answers late", culprits=[2], nodes=["b"], confidence=0.9)
    assert join_findings([ring], StragglerResult([one], shows_turns=False)) == [one]
    assert join_findings([one], StragglerResult([one], shows_turns=False)) == [one]


def test_of_two_that_contradict_each_other_the_surer_one_is_reported() -> None:
    switch = SlowReport("slow_switch", 2.0, 9.0, "leaf", switch="leaf0", candidates=["leaf0"], confidence=0.9)
    doubtful = SlowReport("slow_group", 2.0, 9.0, "held", culprits=[2], nodes=["b"], confidence=0.6)
    sure = replace(doubtful, confidence=0.95)
    assert join_findings([switch], StragglerResult([doubtful], shows_turns=False)) == [switch]
    assert join_findings([switch], StragglerResult([sure], shows_turns=False)) == [sure]


def test_a_finding_about_the_whole_capture_stands_next_to_a_stretch() -> None:
    uneven = SlowReport("slow_group", 0.0, 100.0, "uneven split", culprits=[3], nodes=["c"], confidence=0.8)
    one = SlowReport("slow_group", 40.0, 50.0, "late", culprits=[2], nodes=["b"], confidence=0.7)
    assert join_findings([uneven], StragglerResult([one], shows_turns=False)) == [uneven, one]


def test_who_was_late_in_a_stretch_that_nobody_explains_is_not_accused_by_sums() -> None:
    late = SlowReport("slow_group", 2.0, 9.0, "late", culprits=[2], nodes=["b"], measure="late", confidence=0.9)
    slow = replace(late, measure="transfers")
    elsewhere = replace(late, t0=20.0, t1=30.0)
    nobody = StragglerResult([], shows_turns=True, unnamed=((2.0, 8.0),))
    assert drop_unexplained([late, slow, elsewhere], nobody) == [slow, elsewhere]
    assert join_findings([late, slow], nobody) == [slow]
    assert join_findings([late], StragglerResult([], shows_turns=True)) == [late]


def test_delays_by_chance_in_a_few_steps_of_a_stretch_count_less_than_the_same_in_each() -> None:
    steady = made(dict.fromkeys(range(10, 20), 0.2))
    chance = made(dict.fromkeys(range(10, 20), 0.2))
    chance.seconds[10:20, 0, 0] = [0.05, 0.1, 0.1, 0.2, 0.2, 0.2, 0.25, 0.3, 0.3, 0.3]
    shares = [held.shares(range(10, 20)) for held in (steady, chance)]
    assert shares[0] is not None and shares[1] is not None
    assert shares[0][0, 0] == pytest.approx(0.97, abs=0.01)
    assert chance.seconds[10:20, 0, 0].mean() == pytest.approx(0.2)
    assert shares[1][0, 0] < 0.7


def test_who_had_said_a_word_and_sends_when_the_other_does_only_waited() -> None:
    begun = np.arange(4.0)
    turns = ((0.1, 0, False), (0.7, 0, True), (0.701, 1, True))
    rows = [(t + at, t, src, data) for t in begun for at, src, data in turns]
    start, step, src, data = (list(column) for column in zip(*rows, strict=True))
    said = pl.DataFrame({"start": start, "end": start, "until": start, "begun": step, "src": src, "data": data})
    said = said.with_columns(dst=1 - pl.col("src"), low=1, step=pl.col("begun").cast(pl.Int64))
    seconds = dict(_thinking_s(said, 0.0).group_by("src").agg(pl.col("seconds").sum()).iter_rows())
    assert seconds[0] == pytest.approx(4 * 0.1)
    silent = said.filter(pl.col("data"))
    seconds = dict(_thinking_s(silent, 0.0).group_by("src").agg(pl.col("seconds").sum()).iter_rows())
    assert seconds[0] == pytest.approx(4 * 0.7)


def test_a_candidate_knows_whether_its_name_is_a_machine() -> None:
    assert not Candidate("node", ("10.0.0.1",), (1,)).is_machine


def test_a_capture_of_whole_transfers_alone_proves_nothing_about_turns() -> None:
    job, steps, whole = capture(late=2)
    assert named(job, steps, replace(whole, flows=whole.flows.take(~whole.flows.control))) == []


def test_where_turns_are_seen_a_ring_of_which_one_is_meant_is_no_finding_of_its_own() -> None:
    assert find_stragglers(*capture()).shows_turns
    ring = SlowReport("slow_group", 2.0, 9.0, "one ring", culprits=[1, 2, 3], nodes=["a", "b", "c"], confidence=0.6)
    assert join_findings([ring], StragglerResult([], shows_turns=True)) == []
    assert join_findings([ring], StragglerResult([], shows_turns=False)) == [ring]


@pytest.mark.parametrize(
    ("name", "nodes", "kind", "who"),
    [
        ("rate_p5_pp", 8, "slow_group", ["gpu-node-05"]),
        ("uplink_rate_ddp", 4, "slow_switch", ["leaf0", "leaf1"]),
    ],
)
def test_a_limited_port_and_a_limited_uplink_of_real_training_are_distinguished(
    name: str, nodes: int, kind: str, who: list[str], tmp_path: Path
) -> None:
    inventory = [
        {"ip": f"10.77.0.{10 + n}", "node": f"gpu-node-{n:02d}", "switch": f"leaf{n // (nodes // 2)}"}
        for n in range(nodes)
    ]
    with (RECORDINGS / f"{name}.parquet").open("rb") as stream:
        parsed = parse_flow(stream, "flows.parquet", ParseHints(), tmp_path)
    told = flows_json([parsed], inventory=inventory)
    found = [d for d in [*told["jobs"][0]["diagnoses"], *told["diagnoses"]] if d["kind"] != "slow_step"]
    assert [d["kind"] for d in found] == [kind]
    named = found[0].get("candidates") or [c for c in found[0]["culprits"] if c.startswith("gpu-")]
    assert named == who
    without = flows_json([parsed], inventory=inventory, without=frozenset({"stragglers"}))
    assert not any(who[0] in str(d.get("culprits")) for d in without["jobs"][0]["diagnoses"])
