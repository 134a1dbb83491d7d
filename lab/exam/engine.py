"""The engine takes the exam by its command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.exam.papers import ALARMS, Answer

_TIMEOUT_S = 600


def answer_by_engine(job: Path, checkout: Path) -> Answer:
    """What the engine of a checkout says; ``unknown`` where it gives no report."""
    command = [sys.executable, "-m", "diagnosis", str(job), "--json"]
    process = subprocess.run(command, cwd=checkout, capture_output=True, check=False, timeout=_TIMEOUT_S)
    try:
        report = json.loads(process.stdout)
    except ValueError:
        return Answer(sentence=process.stderr.decode(errors="replace")[-400:])
    return answer_of_report(report)


def answer_of_report(report: Mapping[str, Any]) -> Answer:
    """A report of the engine as an answer of the exam."""
    conclusion = report["conclusion"]
    return Answer(
        condition=conclusion["condition"],
        category=conclusion["id"],
        suspects=_suspects(report),
        sentence=_texts(report),
        first_line=_first_line(report.get("logs") or {}),
        confidence=conclusion["confidence"],
    )


def _suspects(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that the conclusion accuses; else the places where it saw the problem, if there is one."""
    conclusion = report["conclusion"]
    accused = [_name(fault["kind"], fault["name"]) for fault in conclusion["fault"]]
    if accused or conclusion["condition"] not in ALARMS:
        return tuple(accused)
    return tuple(_name(suspect["kind"], suspect["entity"]) for suspect in report["suspects"])


def _name(kind: str, name: str) -> str:
    return f"rank {name}" if kind == "rank" and name.isdecimal() else name


def _texts(report: Mapping[str, Any]) -> str:
    """What a person reads first: the headline, what was seen and concluded, and what is missing."""
    reasons = [reason for suspect in report["suspects"] for reason in suspect["reasons"]]
    parts = [report["headline"], *report["observed"], *report["inferred"], *report["missing"]]
    return " ".join(map(str, [*parts, *reasons]))


def _first_line(logs: Mapping[str, Any]) -> tuple[str, int] | None:
    """File and number of the line that the report shows first."""
    for line in (logs.get("lines") or ())[:1]:
        return str(line["file"]), int(line["line"])
    return None
