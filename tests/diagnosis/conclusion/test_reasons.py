"""The reasons name the cause and the culprits of the conclusion, not those of one kind of evidence."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from diagnosis.command import terminal
from diagnosis.conclusion.model import Conclusion, Fault
from diagnosis.conclusion.sentences.reasons import reasons
from diagnosis.evidence import Place
from diagnosis.records.result import LogDiagnosis, Verdict

LOGS = LogDiagnosis(
    True, "failed", Verdict("unknown", "unknown", "unknown", 0.0), "hang", None, None, answer="cannot say"
)
NODE = Fault(Place("node", "gpu-7"), 0.92)
RANK = Fault(Place("rank", "5", 5), 0.5)


def concluded(condition: str = "hung", *fault: Fault, **given: Any) -> Conclusion:
    shares = given.pop("alternatives", (("framework.dataloader", 0.69),))
    return Conclusion(condition, shares[0][0], "", "", shares[0][1], "It hung.", shares, fault=fault, **given)


def test_culprits_of_other_evidence_replace_what_the_logs_cannot_say() -> None:
    assert reasons(concluded("hung", NODE, RANK), LOGS)[-1] == "Who: gpu-7 (92\u00a0%), or rank 5 (50\u00a0%)."
    assert reasons(concluded("hung"), LOGS)[-1] == "Who: cannot say."


def test_more_than_three_culprits_are_counted() -> None:
    many = [Fault(Place("node", f"gpu-{n}"), 0.2) for n in range(5)]
    assert reasons(concluded("degraded", *many), None)[-1].endswith("or gpu-2 (20\u00a0%), or one of 2 others.")


@pytest.mark.parametrize(("p", "begins"), [(0.97, "Cause: "), (0.6, "Probable cause: "), (0.2, "Not conclusive")])
def test_the_words_of_a_cause_match_its_probability(p: float, begins: str) -> None:
    assert reasons(concluded(alternatives=(("framework.dataloader", p),)), LOGS)[0].startswith(begins)


def test_without_a_cause_no_category_is_named() -> None:
    assert reasons(concluded(alternatives=(("unknown", 0.0),)), LOGS)[0] == "No evidence names the cause."


def test_two_categories_of_one_group_say_how_probable_the_group_is() -> None:
    shares = (("hardware.host.killed", 0.87), ("hardware.host.oom", 0.09))
    assert "either way it belongs to Hardware, Host (96\u00a0%)" in reasons(concluded(alternatives=shares), LOGS)[1]


def test_a_job_without_a_failure_has_no_cause() -> None:
    assert reasons(concluded("healthy", alternatives=(("none", 0.95),)), None) == ()


def test_the_terminal_prints_the_condition_and_category_of_the_conclusion() -> None:
    told = {
        "condition": "degraded",
        "alternatives": [{"id": "performance.network", "p": 0.97}],
        "slowdowns": [{"factor": 9.9}],
        "moment": {"stage": "training", "iteration": 25},
    }
    out = Console(file=io.StringIO(), width=120)
    logs = {"outcome": "succeeded", "id": "none", "confidence": 0.95, "answer": "no failure, so nobody is at fault"}
    terminal.summarise({"headline": "Slow.", "conclusion": told, "logs": logs}, out)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert "degraded · performance.network (97\u00a0%) · slow · training · iteration 25" in printed
    assert "nobody is at fault" not in printed
