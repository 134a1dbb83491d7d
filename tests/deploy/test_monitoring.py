"""Alert rules and the dashboard use figures that /metrics has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from ingest import figures
from ingest.figures import ProcessFigures, RouteFigures
from tests import yamls
from tests.patience import PATIENCE_S
from triage.places import ROOT
from triage.selectors import health

FOLDER = ROOT / "deploy" / "prometheus"
RULES = yamls.read((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [row["expr"] for panel in PANELS for row in panel["targets"]]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian: apt install prometheus)")
@pytest.mark.parametrize(("act", "file"), [("check", "alerts.yaml"), ("test", "alerts_test.yaml")])
def test_prometheus_accepts_the_rules_and_they_alert(act: str, file: str) -> None:
    argv = ["promtool", act, "rules", file]
    done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_where_it_is_raised_and_where_it_is_silent() -> None:
    cases = yamls.read((FOLDER / "alerts_test.yaml").read_text())["tests"]
    tried = [row for case in cases for row in case["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {row["alertname"] for row in tried if row["exp_alerts"]} == names
    assert {row["alertname"] for row in tried if not row["exp_alerts"]} == names


@pytest.fixture
def lines(db: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All lines of /metrics of an installation with two parts, to which one request came."""
    route = RouteFigures({0.05: 1}, count=1, seconds=0.01, statuses={"2xx": 1})
    told = [ProcessFigures("parse", 10, slots=2, busy=1), ProcessFigures("web", 10)]
    monkeypatch.setattr(health, "broker_answers", lambda: True)
    monkeypatch.setattr(figures, "processes_told", lambda: told)
    monkeypatch.setattr(figures, "requests_told", lambda: {"queue": route})
    monkeypatch.setattr(figures, "queue_memory_bytes", lambda: 10)
    return health.metrics_lines()


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian: apt install prometheus)")
def test_prometheus_finds_no_fault_in_the_figures(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr + done.stdout == ""


def test_every_figure_that_is_used_is_there(lines: list[str]) -> None:
    there = {name for line in lines for name in re.findall(r"^# TYPE (faultline_\w+)", line)}
    used = {re.sub("_bucket$", "", name) for text in EXPRESSIONS for name in re.findall(r"faultline_\w+", text)}
    assert len(used) > 8
    assert used - there == set()


def test_every_figure_is_documented(lines: list[str]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    there = {name for line in lines for name in re.findall(r"^# TYPE (faultline_\w+)", line)}
    assert sorted(name for name in there if not re.search(rf"`{name}\b", page)) == []


def test_every_label_that_is_used_is_there(lines: list[str]) -> None:
    there = {label for line in lines for label in re.findall(r'(\w+)="', line)}
    used = {label for text in EXPRESSIONS for label in re.findall(r"by \(([\w, ]+)\)", text)}
    assert {part.strip() for labels in used for part in labels.split(",")} <= there


def test_every_alert_says_what_to_do() -> None:
    assert all(rule["annotations"]["action"].endswith(".") for rule in RULES)
    tested = (FOLDER / "alerts_test.yaml").read_text()
    assert all(f"alertname: {rule['alert']}" in tested for rule in RULES)


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
