"""The ``job`` object of a report."""

from msgspec import UNSET

from diagnosis.evidence import FlowFinding
from diagnosis.evidence.inventory import Inventory
from diagnosis.joining.job_description import MAX_SWITCH_NAME, describe_job
from diagnosis.model import JobHints


def switches_of(**leaves: str):
    known = Inventory(nodes=("n1", "n2"), leaf_of=leaves)
    return describe_job(known, JobHints(), None, None, FlowFinding(), []).switch_of


def test_the_switch_of_each_named_machine_is_told_where_a_description_states_it():
    assert switches_of(n1="leaf0", elsewhere="leaf7") == {"n1": "leaf0"}
    assert switches_of() is UNSET


def test_the_name_of_a_switch_is_bounded():
    assert switches_of(n1="x" * 10_000) == {"n1": "x" * MAX_SWITCH_NAME}
