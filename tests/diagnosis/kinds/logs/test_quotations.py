"""Names that a program gave lend no words to rules for machines."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning.signatures.quotations import RuleTexts


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("    return table['oom_killer']", "oom_killer"),
        ("[rank3]:     link_down_rate = rates.link_down_rate", "link_down_rate"),
        ("RuntimeError: Error(s) in loading state_dict for PowerBrakeNet: missing keys", "PowerBrake"),
        ("TypeError: instance of 'DeadNode' cannot be added", "DeadNode"),
    ],
)
def test_a_name_in_code_or_of_a_class_is_the_programs(line: str, name: str) -> None:
    texts = RuleTexts.of(pl.Series([line]))
    assert name in texts.certain[0]
    assert name not in texts.of_machines[0]


def test_a_message_of_a_machine_keeps_its_words() -> None:
    line = "kernel: oom_kill_process: Out of memory: Killed process 41 (python3)"
    assert RuleTexts.of(pl.Series([line])).of_machines[0] == line


def test_counters_that_count_nothing_are_silent_and_others_are_not() -> None:
    texts = RuleTexts.of(
        pl.Series(["  0 lost carrier 0 no carrier 0 babble", "  3 lost carrier 0 no carrier 0 babble"])
    )
    assert "carrier" not in texts.certain[0]
    assert texts.certain[1].split() == ["3", "lost", "carrier"]
