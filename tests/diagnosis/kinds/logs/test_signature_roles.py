"""Roles depend on what else happened in the same failure."""

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.model import Role

RULES = signatures.load()


def test_a_root_alone_stays_a_root() -> None:
    assert RULES.resolve(["code.exception"]) == {"code.exception": Role.ROOT}


def test_a_weak_root_gives_way_to_a_stronger_one() -> None:
    roles = RULES.resolve(["code.exception", "nvidia.xid.79"])
    assert roles == {"code.exception": Role.CASCADE, "nvidia.xid.79": Role.ROOT}


def test_a_cleanup_code_is_a_consequence_even_alone() -> None:
    assert RULES.resolve(["nvidia.xid.45"])["nvidia.xid.45"] is Role.CASCADE


def test_a_cancellation_gives_way_to_the_limit_that_caused_it() -> None:
    roles = RULES.resolve(["slurm.cancelled", "slurm.time_limit"])
    assert roles == {"slurm.cancelled": Role.CASCADE, "slurm.time_limit": Role.ROOT}


def test_a_confirmation_joins_the_root_that_it_confirms() -> None:
    roles = RULES.resolve(["nvidia.xid.63", "nvidia.xid.94", "kernel.memory_corrected"])
    assert roles["nvidia.xid.63"] is Role.ROOT
    assert roles["kernel.memory_corrected"] is Role.CONFIRMATION


def test_a_killed_worker_belongs_to_the_kernel_that_killed_it() -> None:
    assert RULES.resolve(["elastic.exit_killed", "kernel.oom_kill"])["elastic.exit_killed"] is Role.ROOT
    assert RULES.resolve(["elastic.exit_killed"])["elastic.exit_killed"] is Role.CONFIRMATION


def test_two_that_name_each_other_both_stay() -> None:
    text = """
    [[signature]]
    id = "a"
    title = "A"
    role = "root"
    pattern = "aaaa"
    advice = "Do."
    source = "made up"
    example = "aaaa"
    counter = "bbbb"
    yields_to = ["b."]
    """
    twin = text.replace('"a"', '"b.c"').replace('["b."]', '["a"]').replace('"aaaa"', '"cccc"')
    rules = signatures.load_with([text, twin])
    assert set(rules.resolve(["a", "b.c"]).values()) == {Role.ROOT}


def test_rules_that_do_not_exist_are_left_out() -> None:
    assert RULES.resolve(["no.such.rule"]) == {}
