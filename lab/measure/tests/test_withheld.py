"""Rules that know a cause can be removed."""

from __future__ import annotations

from diagnosis.kinds.logs.meaning.signatures import load
from lab.measure.withheld import rules_without_cause


def test_rules_withheld_are_those_that_know_the_cause() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4243, name=python3, GPU has fallen off the bus."
    left = rules_without_cause({"templates": [{"role": "root", "examples": [line]}]})
    assert left is not None and left.match_texts([line]) == [None]
    assert load().match_texts([line]) != [None]
    nothing = rules_without_cause({"templates": [{"role": "root", "examples": ["an ordinary word"]}]})
    assert nothing is None
