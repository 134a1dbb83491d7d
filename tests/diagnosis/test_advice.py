"""The ladder of actions: which rule fires, which nearly did, and what would decide."""

from __future__ import annotations

import msgspec
import pytest

from diagnosis.advising import advice, advice_facts, ladder
from diagnosis.advising.advice_facts import AdviceEvidence
from diagnosis.evidence import decode


def advise(parts):
    """The advice for the parts of a report, as the report states it."""
    return msgspec.to_builtins(advice.advise(decode(parts, AdviceEvidence)))


def logs(**more):
    return {
        "is_failure": True,
        "symptom": "crash",
        "category": "unknown",
        "subcategory": "unknown",
        "confidence": 0.9,
        **more,
    }


def node(name, score=0.9):
    return {"entity": name, "kind": "node", "score": score, "from": ["logs"], "reasons": []}


def hang(**more):
    """The logs' part of a hang whose cause the stacks show."""
    return logs(symptom="hang", category="hardware", subcategory="process_stuck", confidence=0.5, **more)


def hang_stacks(**more):
    everyone = [{"rank": r, "node": f"n{r // 2}"} for r in range(32)]
    return {
        "suspect_ranks": [3],
        "suspect_nodes": ["n1"],
        "evict_nodes": ["n0", "n1"],
        "ranks": everyone,
        "tie": [],
        "groups": [{"ranks": [3], "activity": "compute"}, {"ranks": [0, 1, 2], "activity": "comm"}],
        **more,
    }


def test_one_machine_event_is_enough_to_evict_without_checks():
    got = advise({"logs": logs(category="hardware", subcategory="gpu_ecc"), "suspects": [node("gpu-7")]})
    assert (got["action"], got["rule"], got["targets"]) == ("evict", "evict.machine_event", ["gpu-7"])
    assert "scontrol update NodeName=gpu-7 State=DRAIN" in got["command"]
    assert got["commands"]["kubernetes"].startswith("kubectl cordon gpu-7")


def test_what_helps_against_the_cause_that_a_line_states_is_said_instead_of_what_its_category_advises():
    stated = logs(category="framework", subcategory="rendezvous_timeout", id="framework.rendezvous", help="End it.")
    assert advise({"logs": stated})["next"] == "End it."
    corrected = {"logs": stated, "conclusion": {**stated, "condition": "failed", "id": "user.config.invalid"}}
    assert "End it." not in advise(corrected)["next"]


def test_a_request_that_the_platform_refused_is_mended_before_it_is_sent_again():
    refused = logs(category="platform", subcategory="scheduler", symptom="launch_failure")
    assert advise({"logs": refused})["rule"] == "resubmit.outside", "no conclusion denies that it worked"
    answer = {name: refused[name] for name in ("category", "subcategory", "confidence")}
    moment = {"stage": "launch", "iteration": None}
    got = advise({"logs": refused, "conclusion": {**answer, "condition": "failed", "moment": moment}})
    assert (got["rule"], got["action"]) == ("fix.request", "fix_input")


def test_one_network_alert_is_tolerated_and_two_within_five_minutes_evict():
    def event(*times):
        lines = [{"node": "n1", "time": t} for t in times]
        return [{"template": "link down", "signature": "network.link_down", "lines": lines}]

    base = logs(category="network", subcategory="link_down", confidence=0.6)
    once = advise({"logs": {**base, "events": event(1000.0)}, "suspects": [node("n1")]})
    twice = advise({"logs": {**base, "events": event(1000.0, 1200.0)}, "suspects": [node("n1")]})
    apart = advise({"logs": {**base, "events": event(1000.0, 2000.0)}, "suspects": [node("n1")]})
    assert twice["rule"] == "evict.network_twice"
    assert once["rule"] != "evict.network_twice" != apart["rule"]
    near = {n["rule"]: n["missing"] for n in once["nearly"]}
    assert "fewer than two network alerts" in near["evict.network_twice"][0]
    assert any("port counters" in x for x in once["would_decide"])


def test_alerts_of_different_nodes_do_not_add_up():
    events = [
        {
            "template": "x",
            "signature": "network.link_down",
            "lines": [{"node": f"n{i}", "time": 1000.0 + i} for i in range(5)],
        }
    ]
    assert advice_facts.Known(decode({"logs": logs(events=events)}, AdviceEvidence), ladder.load()).network_alerts == 1


@pytest.mark.parametrize(
    ("more", "action"),
    [
        ({"category": "user", "subcategory": "user_code_exception"}, "rollback"),
        ({"category": "user", "subcategory": "bad_argument"}, "fix_input"),
        ({"category": "user", "subcategory": "cuda_oom"}, "use_less_memory"),
        ({"category": "hardware", "subcategory": "disk_full"}, "free_space"),
        ({"category": "user", "subcategory": "nan_divergence"}, "stop_time_check"),
        ({"category": "platform", "subcategory": "preemption"}, "resubmit"),
        ({"category": "unknown", "subcategory": "unknown"}, "collect"),
        ({"category": "unknown", "subcategory": "unknown", "symptom": "hang"}, "stop_time_check"),
        ({"category": "framework", "subcategory": "rendezvous_timeout"}, "collect"),
        ({"is_failure": False, "symptom": "none"}, "none"),
    ],
)
def test_each_kind_of_failure_gets_its_rung(more, action):
    assert advise({"logs": logs(**more)})["action"] == action


def test_where_nothing_shows_how_the_job_went_more_evidence_is_asked_for_and_no_command_given():
    got = advise({"conclusion": {"condition": "unknown", "category": "none"}})
    assert (got["rule"], got["action"], got["commands"]) == ("collect.course", "collect", {})


def test_nan_adds_the_bitwise_alignment_test_to_the_checks():
    ids = [c["id"] for c in advise({"logs": logs(category="user", subcategory="nan_divergence")})["checks"]]
    assert ids[-1] == "bitwise_alignment"
    assert "bitwise_alignment" not in [c["id"] for c in advise({"logs": logs()})["checks"]]


def test_the_ladder_is_climbed_as_cheaper_actions_fail():
    climbed = []
    tried: list[str] = []
    for step in ("stop_time_check", "reattempt", "rollback", "replay"):
        climbed.append(advise({"logs": logs(symptom="hang"), "tried": tried})["action"])
        tried.append(step)
    assert climbed == ["stop_time_check", "reattempt", "rollback", "replay"]


def broken(**more):
    return {
        "logs": logs(category="hardware", subcategory="gpu_off_bus", confidence=0.9),
        "suspects": [node("n3")],
        **more,
    }


def test_an_eviction_without_success_leads_to_checks_of_the_whole_job():
    first = advise(broken())
    assert (first["action"], first["targets"], first["passed_over"]) == ("evict", ["n3"], [])
    then = advise(broken(tried=[{"action": "evict", "targets": ["n3"]}], job={"nodes": 16}))
    assert (then["rule"], then["targets"]) == ("check.after_eviction", [])
    assert "evict.machine_event" in [row["rule"] for row in then["passed_over"]]
    assert then["because"][0] == "Already tried without success: Evict (n3). This is the next action."
    assert then["commands"]["slurm"].startswith("srun -N 16 ")


def test_another_machine_may_still_be_evicted_after_one_was():
    got = advise(broken(tried=[{"action": "evict", "targets": ["n7"]}]))
    assert (got["action"], got["targets"]) == ("evict", ["n3"])


def test_the_whole_group_may_go_after_its_suspect_went_but_not_the_other_way_round():
    stuck = {"logs": hang(), "stacks": hang_stacks(), "suspects": [node("n1")]}
    assert advise({**stuck, "tried": [{"action": "evict", "targets": ["n1"]}]})["action"] == "over_evict"
    later = advise({**stuck, "tried": [{"action": "over_evict", "targets": ["n0", "n1"]}]})
    assert (later["action"], later["rule"]) == ("stop_time_check", "check.after_eviction")


def test_a_rollback_without_success_is_not_advised_again():
    user = {"logs": logs(category="user", subcategory="type_error", confidence=0.9)}
    assert advise(user)["action"] == "rollback"
    assert advise({**user, "tried": ["rollback"]})["action"] == "stop_time_check"


def test_at_the_end_of_the_ladder_a_human_decides():
    every = [{"action": "evict", "targets": ["n3"]}, "stop_time_check", "reattempt", "rollback", "replay"]
    climbed = [advise(broken(tried=every[:n]))["action"] for n in range(len(every) + 1)]
    assert climbed == ["evict", "stop_time_check", "reattempt", "rollback", "replay", "ask_human"]
    assert "No further action is known." in advise(broken(tried=every))["because"][0]


def test_of_a_group_only_the_accused_are_evicted_until_that_was_without_success():
    stuck = {"logs": hang(), "stacks": hang_stacks(), "suspects": [node("n1")], "job": {"gpus_per_node": 8}}
    first = advise(stuck)
    assert (first["action"], first["targets"]) == ("evict", ["n1"])
    near = {n["rule"]: n["missing"] for n in first["nearly"]}
    assert "only some machines of the group are accused" in near["over_evict.hang_group"][0]
    assert advise({**stuck, "suspects": [node("n1"), node("n0", 0.6)]})["action"] == "over_evict"
    got = advise({**stuck, "tried": [{"action": "evict", "targets": ["n1"]}]})
    assert (got["action"], got["targets"]) == ("over_evict", ["n0", "n1"])
    assert got["cost"] == {"machines": 2, "gpus": 16, "healthy": 1, "text": got["cost"]["text"]}
    assert "probably healthy" in got["cost"]["text"]


def test_ranks_that_split_cleanly_over_two_collectives_are_a_matter_of_code():
    split = [{"ranks": [3], "activity": "comm"}, {"ranks": [0, 1, 2], "activity": "comm", "dominant": True}]
    got = advise({"logs": hang(), "stacks": hang_stacks(rule="mismatch", groups=split)})
    assert got["action"] == "rollback"
    chain = [*split, {"ranks": [4], "activity": "comm"}]
    assert advise({"logs": hang(), "stacks": hang_stacks(rule="mismatch", groups=chain)})["action"] == "evict"


def test_code_is_rolled_back_only_if_the_job_made_progress_with_some_code():
    crash = {"condition": "failed", "category": "user", "subcategory": "user_code_exception", "confidence": 0.9}
    begun = {**crash, "chain": [{"source": "logs", "what": "progress"}]}
    assert advise({"logs": logs(), "conclusion": begun})["rule"] == "rollback.user_exception"
    assert advise({"logs": logs(), "conclusion": crash})["rule"] == "fix.user_exception"


def test_nobody_is_evicted_while_the_cause_is_unknown():
    got = advise({"logs": logs(symptom="hang"), "stacks": hang_stacks(), "suspects": [node("n1")]})
    assert (got["action"], got["targets"]) == ("stop_time_check", ["n1"])


def test_a_tie_between_groups_goes_no_further_than_the_suspect():
    got = advise({"logs": hang(), "stacks": hang_stacks(tie=[{"kind": "dp"}]), "suspects": [node("n1")]})
    assert got["rule"] == "evict.stack_suspect"
    near = {n["rule"]: n["missing"] for n in got["nearly"]}
    assert "two groups explain the outliers equally well" in near["over_evict.hang_group"]


def test_logs_and_stacks_that_disagree_evict_nobody():
    accused = logs(symptom="hang", nodes=[{"node": "n9", "suspect": True}])
    got = advise({"logs": accused, "stacks": hang_stacks(), "suspects": [node("n9"), node("n1")]})
    assert got["action"] == "stop_time_check"
    assert any("Flight Recorder" in x for x in got["would_decide"])


def test_a_group_of_a_third_of_the_job_is_not_evicted():
    got = advise({"logs": logs(symptom="hang"), "stacks": hang_stacks(evict_nodes=[f"n{i}" for i in range(8)])})
    assert got["action"] != "over_evict"


def test_a_rank_that_waits_for_its_data_costs_a_restart_before_it_costs_a_machine():
    waits = hang() | {"subcategory": "dataloader_hang"}
    stuck = {"logs": waits, "stacks": hang_stacks(groups=[{"ranks": [3], "activity": "host"}])}
    first = advise(stuck)
    assert (first["action"], first["rule"], first["targets"]) == ("reattempt", "reattempt.data_loader", [])
    again = advise({**stuck, "tried": [{"action": "reattempt", "targets": []}]})
    assert (again["action"], again["targets"]) == ("evict", ["n1"])
    assert advise({"logs": waits, "stacks": hang_stacks()})["action"] == "evict"


def test_a_culprit_stuck_in_its_host_code_does_not_cost_its_whole_group():
    stacks = hang_stacks(groups=[{"ranks": [3], "activity": "host"}])
    assert advise({"logs": hang(), "stacks": stacks})["targets"] == ["n1"]


def test_a_switch_behind_a_more_probable_machine_is_not_the_place_to_act():
    def told(*fault):
        rows = [{"kind": kind, "name": name, "p": p} for kind, name, p in fault]
        return {"conclusion": {"condition": "degraded", "category": "performance", "fault": rows}}

    both = ("node", "n1", 0.4), ("switch", "leaf-1", 0.2)
    assert "leaf-1" not in (advise(told(*both)) or {}).get("targets", [])
    assert advise(told(("switch", "leaf-1", 0.6), ("node", "n1", 0.2)))["targets"] == ["leaf-1"]


def test_a_machine_that_slows_a_finished_job_is_tested_before_the_next_one():
    slow = {
        "conclusion": {
            "condition": "degraded",
            "category": "performance",
            "fault": [{"kind": "node", "name": "n1", "p": 0.85}],
        }
    }
    got = advise(slow)
    assert (got["rule"], got["action"], got["targets"]) == ("check.slow_machine", "stop_time_check", ["n1"])
    assert got["because"][0].startswith("Slow steps waited for n1")
    assert advise(slow | {"tried": ["stop_time_check"]})["rule"] != "check.slow_machine"
    assert advise({"conclusion": {**slow["conclusion"], "fault": []}})["rule"] == "inspect.slow"


def test_a_slow_switch_is_a_matter_for_humans():
    got = advise({"logs": logs(symptom="slow"), "flows": {"diagnoses": [{"kind": "slow_switch", "switch": "spine-2"}]}})
    assert (got["action"], got["targets"], got["command"]) == ("ask_human", ["spine-2"], "")


def test_hostile_names_never_enter_a_command():
    bad = 'n1"; rm -rf / #'
    got = advise({"logs": logs(category="hardware", subcategory="gpu_ecc"), "suspects": [node(bad), node("n2")]})
    assert "rm -rf" not in got["command"]
    assert "n2" in got["command"]
    assert any("left out" in x for x in got["because"])
    only = advise({"logs": logs(category="hardware", subcategory="gpu_ecc"), "suspects": [node(bad)]})
    assert only["commands"] == {}


def test_a_rule_about_something_else_is_not_near():
    got = advise({"logs": logs(category="hardware", subcategory="gpu_ecc"), "suspects": [node("n1")]})
    assert not {"fix.input", "rollback.user_exception", "check.nan"} & {n["rule"] for n in got["nearly"]}


def test_nothing_known_still_gives_an_advice():
    got = advise({})
    assert got["action"] in advice.ACTIONS
    assert got["because"]


def test_an_advice_says_the_cause_by_the_title_of_its_category():
    told = logs(id="hardware.gpu.ecc", category="hardware", subcategory="gpu_ecc")
    got = advise({"logs": told, "suspects": [node("gpu-7")]})
    assert got["because"] == ["GPU memory error: a fault of the machine itself. One event is enough."]


def test_stacks_alone_that_name_nobody_ask_for_more_of_them():
    got = advise({"stacks": {"reason": "All 16 ranks are in the same collective.", "ranks": [{"rank": 0}]}})
    assert (got["action"], got["rule"]) == ("collect", "collect.stacks")
    assert got["because"] == ["All 16 ranks are in the same collective."]
    told = advise({"stacks": {"reason": "x"}, "job": {"id": "77"}})["commands"]["slurm"]
    assert told.startswith("srun --jobid=77 ")
    assert "py-spy dump" in told


def test_slurm_is_never_given_a_name_for_a_job_number():
    by_name = advise({"stacks": {"reason": "x"}, "job": {"id": "llama-70b"}})["commands"]
    assert "--jobid=<job id> " in by_name["slurm"]
    assert "job-name=llama-70b " in by_name["kubernetes"]


def test_a_sentence_that_begins_with_a_machine_keeps_its_name():
    filled = advice._fill("{culprit_nodes} is suspected.", {"culprit_nodes": ["gpu-node-02"]})
    assert filled == "gpu-node-02 is suspected."
    assert advice._fill("{scope} is suspected.", {"scope": "one node"}) == "One node is suspected."


def test_nodes_that_are_set_up_otherwise_are_made_equal_and_not_tested():
    text = "gpu-2 uses another network than the other nodes (network of NCCL Socket, but IB on 3 of 4 nodes)."
    differs = {"source": "check", "what": "setup", "category": "performance.network", "text": text}
    answer = {
        "condition": "degraded",
        "id": "performance.network",
        "category": "performance",
        "subcategory": "slow_network",
        "confidence": 0.5,
        "fault": [{"kind": "node", "name": "gpu-2", "p": 0.51}],
        "chain": [differs],
    }
    got = advise({"conclusion": answer})
    assert (got["rule"], got["action"], got["targets"]) == ("fix.setup", "fix_setup", ["gpu-2"])
    assert got["because"] == [text]
    of_other_cause = advise({"conclusion": {**answer, "chain": [{**differs, "category": "user.environment"}]}})
    assert of_other_cause["rule"] != "fix.setup"


def test_ranks_that_entered_different_collectives_are_a_matter_of_code_also_if_only_logs_say_so():
    got = advise({"logs": logs(category="framework", subcategory="collective_mismatch", confidence=0.84)})
    assert got["rule"] == "rollback.collective_mismatch"


def test_a_rank_without_a_machine_is_looked_up_before_all_machines_are_tested():
    answer = {"condition": "hung", "category": "framework", "subcategory": "nccl_internal", "confidence": 0.9}
    accused = [{"kind": "rank", "name": "1", "p": 0.7}]
    got = advise({"conclusion": {**answer, "fault": accused}})
    assert (got["rule"], got["because"][-1][:7]) == ("collect.rank", "Rank 1:")
    assert advise({"conclusion": answer})["rule"] == "check.no_culprit"


def test_a_running_job_with_a_slow_rank_goes_on_while_its_machine_is_looked_up():
    answer = {"condition": "degraded", "category": "performance", "subcategory": "straggler", "confidence": 0.5}
    slow = logs(symptom="slow", category="performance", subcategory="slow_step", nodes=[])
    got = advise({"logs": slow, "conclusion": {**answer, "fault": [{"kind": "rank", "name": "4", "p": 0.51}]}})
    assert (got["rule"], got["action"]) == ("collect.slow_rank", "collect")
    assert "rank 4" in got["because"][0]


def test_a_job_whose_logs_count_steps_without_times_has_worked():
    answer = {"condition": "failed", "category": "user", "subcategory": "user_code_exception", "confidence": 0.9}
    rule_at = {
        count: advise({"conclusion": {**answer, "moment": {"iteration": count}}})["rule"] for count in (None, 1, 5_501)
    }
    assert rule_at == {
        None: "fix.user_exception",
        1: "fix.user_exception",
        5_501: "rollback.user_exception",
    }


def test_a_wrong_input_is_corrected_as_its_own_category_says():
    got = advise({"logs": logs(id="user.config.argument", category="user", subcategory="bad_argument")})
    assert got["next"].startswith("Fix the command line")
