"""Names of a program, quoted source and values that say no lend no words to rules and to the learned model."""

import pytest

from diagnosis.classify import Hint, classify
from diagnosis.classify_model import starter
from diagnosis.kinds.logs.meaning import signatures


def category_of(message: str) -> str:
    rule_id = signatures.load().match_texts([message])[0]
    return classify([Hint(message, rule_id)], model=starter()).category.id


NAMES = (
    "ecc",
    "completion",
    "switch",
    "warmup_steps",
    "gpu_fell_off_bus",
    "node_lost",
    "preempted",
    "pcie_bandwidth",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["KeyError: '{}'", "AttributeError: 'Config' object has no attribute '{}'"])
def test_a_name_of_the_program_is_no_fault_of_a_machine(form: str, name: str) -> None:
    assert category_of(form.format(name)).startswith(("user.", "framework."))


def test_an_error_of_the_language_is_an_exception_of_the_program_and_nothing_else() -> None:
    assert category_of("KeyError: 'completion'") == "user.code.exception"


def test_a_quoted_name_says_nothing_in_an_exception_of_any_class() -> None:
    assert category_of("RuntimeError: mapping of 'dimm' to 'socket' failed validation").startswith("user.")


def test_a_joined_name_without_quotes_is_the_programs_too() -> None:
    assert category_of("RuntimeError: switch_case 'rdma' has no handler").startswith("user.")
    assert category_of("Exception: node_lost flag was not parsed").startswith("user.")


def test_what_an_exception_says_outside_quotes_still_counts() -> None:
    assert category_of("RuntimeError: CUDA error: uncorrectable ECC error encountered") == "hardware.gpu.ecc"


def test_an_error_of_the_system_may_tell_a_fault_of_a_machine() -> None:
    assert category_of("OSError: [Errno 5] Input/output error").startswith(("platform.", "hardware."))


def test_numbered_source_is_no_event() -> None:
    lines = ['    104     #     raise ImportError("update it")', "--> 105     import tunekit_zoo"]
    assert signatures.load().match_texts(lines) == [None, None]
    assert signatures.load().match_texts(["ImportError: no module named x"]) != [None]


@pytest.mark.parametrize("value", ["Not Active", "N/A", "disabled"])
def test_a_value_that_says_no_is_no_event(value: str) -> None:
    assert signatures.load().match_texts([f"GPU fell off the bus : {value}"]) == [None]


@pytest.mark.parametrize("end", ["RST: No, D-RST: No", "Contained: L2. Reset: No", "name=python3, Uncontained: No"])
def test_a_property_at_the_end_of_an_event_does_not_silence_it(end: str) -> None:
    line = f"NVRM: Xid (PCI:0000:ba:00): 94, pid=33342, {end}"
    assert signatures.load().match_texts([line]) == ["nvidia.xid.94"]


def test_a_count_of_zero_is_no_event() -> None:
    assert signatures.load().match_texts(["gpu 3 uncorrectable ECC errors: 0"]) == [None]
    assert signatures.load().match_texts(["gpu 3 uncorrectable ECC errors: 14"]) != [None]


def test_confirmed_incidents_are_named_only_where_there_are_any() -> None:
    reasons = classify([Hint("the cable of rail 3 was pulled")], model=starter()).reasons
    assert all("confirmed incidents" not in reason for reason in reasons)


def test_words_that_nobody_knows_show_no_category() -> None:
    assert category_of("wibble wobble failed with status purple") == "unknown"
    assert category_of("optic module of the transceiver lost its light").startswith("hardware.network")
