"""Votes of rules, runner-up, several labels, and the right to be inconclusive."""

from diagnosis.kinds.logs.classifying.classify import THRESHOLDS, Hint, classify
from diagnosis.kinds.logs.classifying.classify_model import Level, Model
from diagnosis.model import Role


def hint(rule: str | None, role: Role = Role.ROOT, weight: float = 1.0) -> Hint:
    return Hint("text", rule, role, weight)


def test_nothing_known_is_unknown_and_inconclusive() -> None:
    verdict = classify([])
    assert (verdict.category.id, verdict.confidence, verdict.runner_up) == ("unknown", 0.0, None)
    assert verdict.confidence < THRESHOLDS.conclusive


def test_one_decisive_event_is_enough() -> None:
    verdict = classify([hint("nvidia.xid.79")])
    assert verdict.category.id == "hardware.gpu.off_bus"
    assert verdict.confidence > 0.8
    assert verdict.reasons == ("The GPU has fallen off the bus",)


def test_consequences_do_not_outvote_a_cause() -> None:
    crowd = [hint("nccl.watchdog.timeout", Role.CASCADE)] * 50
    verdict = classify([*crowd, hint("storage.full")])
    assert verdict.category.id == "hardware.disk.full"


def test_consequences_next_to_a_cause_take_nothing_from_its_confidence() -> None:
    crowd = [hint("nccl.peer_gone", Role.CASCADE), hint("slurm.step_cancelled", Role.TEARDOWN)] * 9
    assert classify([*crowd, hint("elastic.exit_killed")]) == classify([hint("elastic.exit_killed")])


def test_where_only_consequences_are_seen_they_give_a_doubtful_answer() -> None:
    verdict = classify([hint("nccl.watchdog.timeout", Role.CASCADE)])
    assert verdict.category.id == "framework.collective.timeout"
    assert verdict.confidence < THRESHOLDS.conclusive


def test_a_lone_exception_is_the_users_but_less_sure_than_a_named_cause() -> None:
    weak = classify([hint("code.exception")])
    strong = classify([hint("code.shape")])
    assert weak.category.id == "user.code.exception"
    assert weak.confidence < strong.confidence


def test_confirmations_raise_the_confidence_of_what_they_confirm() -> None:
    alone = classify([hint("data.missing")])
    other = classify([hint("data.missing"), hint("storage.nfs", Role.CONFIRMATION)])
    more = classify([hint("kernel.hung_task")])
    joined = classify([hint("kernel.hung_task"), hint("storage.retry", Role.CONFIRMATION)])
    assert other.confidence < alone.confidence
    assert joined.category.id == more.category.id == "platform.storage.outage"
    assert joined.confidence > more.confidence


def test_alternatives_are_shares_of_one_whole() -> None:
    equals = classify([hint("nvidia.xid.79"), hint("storage.full")])
    assert equals.runner_up
    assert equals.confidence + equals.runner_up_confidence <= 1.0
    for rule in ("code.shape", "data.missing", "elastic.exit_killed", "kernel.hung_task"):
        verdict = classify([hint("nvidia.xid.79"), hint(rule)])
        assert verdict.confidence + verdict.runner_up_confidence <= 1.0


def test_words_that_come_from_two_causes_name_both() -> None:
    verdict = classify([hint("cuda.illegal_access")])
    assert verdict.category.id == "hardware.gpu.kernel"
    assert verdict.runner_up is not None
    assert verdict.runner_up.id == "user.code.exception"
    assert 0 < verdict.runner_up_confidence < verdict.confidence


def test_the_same_symptom_follows_its_company() -> None:
    with_fault = classify([hint("cuda.launch_failure"), hint("nvidia.xid.79")])
    assert with_fault.category.id == "hardware.gpu.off_bus"


def test_two_causes_of_equal_weight_are_both_labels() -> None:
    verdict = classify([hint("nvidia.xid.79"), hint("storage.full")])
    assert {verdict.category.id, *(label.id for label in verdict.also)} >= {
        "hardware.gpu.off_bus",
        "hardware.disk.full",
    }
    assert verdict.confidence < 0.6


def test_what_more_probably_belongs_to_the_cause_decides_in_any_order() -> None:
    rows = [hint("storage.nfs", weight=0.48), hint("nvidia.ecc", weight=0.6)]
    assert classify(rows).category.id == "hardware.gpu.ecc"
    assert classify(rows[::-1]).category.id == "hardware.gpu.ecc"


def test_advice_and_noise_have_no_vote() -> None:
    rows = [hint("noise.cuda_launch_blocking", Role.ADVICE), hint("noise.omp_threads", Role.BENIGN), hint("no.such")]
    assert classify(rows).category.id == "unknown"


def test_an_end_without_a_cause_is_a_cancellation_with_doubt() -> None:
    verdict = classify([hint("slurm.step_cancelled", Role.TEARDOWN)])
    assert verdict.category.id == "platform.scheduler.cancelled"
    assert verdict.confidence < THRESHOLDS.conclusive


def model(confirmed: int = 0, calibration: tuple[tuple[float, float], ...] = ()) -> Model:
    leaves = Level(("hardware.disk.io", "user.config.invalid"), (0.0, 0.0), {"flux": {0: 6.0}, "typo": {1: 6.0}})
    return Model({"flux": 1.0, "capacitor": 1.0, "typo": 1.0}, leaves, confirmed, calibration=calibration)


def test_the_model_decides_where_no_rule_does() -> None:
    said = classify([Hint("flux capacitor")], model=model())
    assert said.category.id == "hardware.disk.io"
    assert classify([Hint("flux capacitor")]).category.id == "unknown"


def test_the_words_of_an_exception_that_only_its_form_gives_away_are_the_models() -> None:
    said = classify([Hint("flux capacitor", "code.exception")], model=model())
    assert said.category.id == "hardware.disk.io"
    assert classify([Hint("nobody knows", "code.exception")], model=model()).category.id == "user.code.exception"


def test_a_model_that_nobody_taught_does_not_argue_with_rules() -> None:
    row = Hint("typo", "nvidia.xid.79")
    assert classify([row], model=model()) == classify([row])


def test_a_model_taught_by_many_may_argue_but_not_win_alone() -> None:
    verdict = classify([Hint("typo", "nvidia.xid.79")], model=model(confirmed=500))
    assert verdict.category.id == "hardware.gpu.off_bus"
    assert verdict.runner_up is not None
    assert verdict.runner_up.id == "user.config.invalid"


def test_past_decisions_correct_the_confidence() -> None:
    shy = model(calibration=((0.0, 0.02), (1.0, 0.4)))
    assert classify([hint("nvidia.xid.79")], model=shy).confidence < THRESHOLDS.conclusive


def test_the_shares_of_the_two_candidates_are_at_most_the_whole() -> None:
    verdict = classify([hint("elastic.exit_killed"), hint("python.host_memory"), hint("storage.full")])
    assert verdict.runner_up is not None and 0 < verdict.runner_up_confidence <= verdict.confidence
    assert verdict.confidence + verdict.runner_up_confidence <= 1


def test_what_many_machines_report_alike_is_a_fault_that_they_share() -> None:
    one = classify([Hint("link down", "nic.link_down")])
    many = classify([Hint("link down", "nic.link_down", is_wide=True)])
    assert (one.category.id, many.category.id) == ("hardware.network.link_flap", "network.link_down")


def test_what_one_of_many_machines_reports_of_a_shared_thing_is_that_machines_own() -> None:
    full = "storage.shared_full"
    assert classify([Hint("full", full)]).category.id == "platform.storage.quota"
    assert classify([Hint("full", full, is_wide=True)]).category.id == "platform.storage.quota"
    assert classify([Hint("full", full, is_lone=True)]).category.id == "hardware.disk.full"
    alone = Hint("verbs", "rdma.locked_memory", is_lone=True)  # not shared: its first category stays
    assert classify([alone]).category.id == "user.config.invalid"
