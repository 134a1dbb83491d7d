"""Alert rules and the dashboard use figures that /metrics has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.patience import PATIENCE_S
from triage.places import ROOT
from triage.selectors.health import metrics_lines

FOLDER = ROOT / "deploy" / "prometheus"
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [row["expr"] for panel in PANELS for row in panel["targets"]]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian: apt install prometheus)")
@pytest.mark.parametrize(("act", "file"), [("check", "alerts.yaml"), ("test", "alerts_test.yaml")])
def test_prometheus_accepts_the_rules_and_they_alert(act: str, file: str) -> None:
    argv = ["promtool", act, "rules", file]
    done = subprocess.run(argv, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.django_db
def test_every_figure_that_is_used_is_there() -> None:
    there = {name for line in metrics_lines() for name in re.findall(r"^# TYPE (faultline_\w+)", line)}
    used = {name for text in EXPRESSIONS for name in re.findall(r"faultline_\w+", text)}
    assert len(used) > 8
    assert used - there == set()


@pytest.mark.django_db
def test_every_label_that_is_used_is_there() -> None:
    there = {label for line in metrics_lines() for label in re.findall(r'(\w+)="', line)}
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
