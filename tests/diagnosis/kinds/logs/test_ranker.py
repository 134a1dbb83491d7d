"""The order of the candidates for the first line of a failure, by measures and fitted weights."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl

from diagnosis import report
from diagnosis.files.parsing import parse
from diagnosis.kinds.logs.causes.root_events import candidates, ranker
from diagnosis.model import Kind, ParseHints
from diagnosis.pipeline import diagnose
from tests.diagnosis.made_facts import facts_of, rule

START = "loading tokenizer\nbuilding model\nreading shards\n"


def logs_of(tmp_path: Path, text: str) -> dict[str, Any]:
    """The logs' part of the report on one file."""
    data = text.encode()
    parsed = parse(io.BytesIO(data), "train.log", ParseHints(kind=Kind.LOG), tmp_path)
    found = report.to_json(diagnose([parsed], read=lambda path, at, size: data[at : at + size]))
    return dict(found["logs"])


def measures(*events: dict[str, Any], **more: Any) -> pl.DataFrame:
    return candidates.candidates(facts_of(*events, **more))


def test_each_measure_has_a_weight() -> None:
    assert set(ranker.weights()) == set(candidates.NAMES)
    assert {name for name, weight in ranker.weights().items() if weight > 0} <= set(ranker.MEANINGS)


def test_the_strength_of_a_rule_adds_up() -> None:
    table = measures(*(rule("root", strength=strength) for strength in ("weak", "strong", "decisive")))
    assert table.select("rule", "rule_strong", "rule_decisive").rows() == [(1, 0, 0), (1, 1, 0), (1, 1, 1)]


def test_order_is_measured_within_each_file() -> None:
    first, second = (rule("root", is_exception=True, first_line=line, file=0) for line in (5, 9))
    other = rule("root", is_exception=True, first_line=7, file=1)
    assert measures(first, second, other)["first_exception"].to_list() == [1.0, 0.0, 1.0]


def test_a_program_that_prints_new_ordinary_lines_went_on() -> None:
    plain = [{"level": 2, "first_line": line, "file": 0} for line in (20, 21)]
    table = measures(rule("root", first_line=10, file=0), rule("root", first_line=30, file=0), *plain)
    went_on = table["went_on"].to_list()
    assert went_on[0] > went_on[1] == 0.0


def test_a_warning_of_kubernetes_is_as_loud_as_an_error() -> None:
    told = "2026-04-10T02:27:21Z   Warning  Evicted   pod/train-0   The node was low on resource: memory."
    table = measures(rule("root", level=3, example=told), rule("root", level=3, example="WARNING: low on memory"))
    assert table.select("error", "mild").rows() == [(1.0, 0.0), (0.0, 1.0)]


def test_a_complaint_of_a_script_after_the_traceback_does_not_lead(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'
    raised = "ValueError: File data/prefs.json not found."
    text = f"{START}{trace}{raised}\nsrun: error: gh034: task 0: Exited with exit code 2\nrun.sh: Stale file handle\n"
    logs = logs_of(tmp_path, text)
    assert [line["line"] for line in logs["lines"]][:1] == [6]
    assert "It comes first because" in logs["clues"][0]["reason"]


def test_an_earlier_warning_does_not_lead_where_an_exception_ends_the_program(tmp_path: Path) -> None:
    warned = "Failed to load generation config for /m/vlm: /m/vlm does not appear to have a file named config.json\n"
    went_on = "".join(f"prepared {name}\n" for name in ("vocabulary", "sampler", "optimizer", "mesh"))
    trace = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'
    logs = logs_of(tmp_path, f"{START}{warned}{went_on}{trace}ImportError: this needs accelerate\n")
    assert [line["line"] for line in logs["lines"]][:1] == [11]


def test_the_reasons_are_those_that_add_most() -> None:
    table = measures(rule("root", is_exception=True, first_line=9, file=0))
    found = ranker.reasons(table, 0)
    assert found[0] == ranker.MEANINGS["rule"]
    assert len(found) == ranker.LIMITS.reasons
    assert ranker.reasons(table, 7) == ()
