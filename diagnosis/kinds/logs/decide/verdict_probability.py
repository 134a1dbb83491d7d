"""How sure a verdict of the logs is: the share of such verdicts that were right in jobs labelled by
reading.

A logistic function of few measured columns, one for jobs with a failure and one for those without.
``python -m lab.measure calibration --write`` fits both on public jobs and made-up worlds, and
prints how right it is about sources that were left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case

THRESHOLDS: Final = thresholds.of("verdict_probability")


def of_failure(case: Case, votes: float) -> dict[str, float]:
    """The columns of a verdict about a failure. ``votes``: its confidence by the votes of rules
    alone, as log odds. ``rivalled``: a line of another category scores nearly as high as the first
    one. ``several_files``: of one machine.
    """
    rule = case.rules.rules.get(case.lead.signature or "")
    lead = _lead_over_others(case)
    return {
        "votes": _log_odds(votes),
        "by_form": float(rule is not None and rule.is_form),
        "rivalled": float(lead is not None and lead < THRESHOLDS.rivalled),
        "several_files": float(len(case.table.files) > 1 and case.total <= 1),
        "several_machines": float(case.total > 1),
    }


def of_no_failure(case: Case) -> dict[str, float]:
    """The columns of a verdict that nothing failed. ``problem``: the best score of a line."""
    worst = max(case.roots.scores.values(), default=0.0)
    is_open = pl.col("is_exception") & ~case.is_survived & (pl.col("jobs_with_it") == 0)
    return {
        "succeeded": float(case.ending.outcome == "succeeded"),
        "running": float(case.ending.outcome == "running"),
        "problem": min(max(worst, 0.0) / THRESHOLDS.largest, 1.0),
        "open_exception": float(case.events.filter(is_open).height > 0),
        "several_files": float(len(case.table.files) > 1),
    }


def probability(kind: str, columns: Mapping[str, float]) -> float:
    """The chance in [0, 1] that a verdict is right. ``kind``: failure or no_failure."""
    fitted = _fits()[kind]
    weights: dict[str, float] = fitted["weights"]
    total = float(fitted["intercept"]) + sum(weights[name] * value for name, value in columns.items())
    return round(1 / (1 + math.exp(-total)), 4)


@cache
def _fits() -> dict[str, dict[str, Any]]:
    text = resources.files("diagnosis").joinpath("verdict_probability.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["fits"])


def _lead_over_others(case: Case) -> float | None:
    """By how much the leader's score exceeds that of each line of another category; None without
    such a line, and where candidates have no scores.
    """
    scores = case.roots.scores
    if case.lead.event not in scores:
        return None
    of_others = case.events.filter(pl.col("category").ne_missing(case.lead.category))["event"]
    others = [scores[event] for event in of_others if event in scores]
    return scores[case.lead.event] - max(others) if others else None


def _log_odds(p: float) -> float:
    bounded = min(max(p, THRESHOLDS.least), 1.0 - THRESHOLDS.least)
    return math.log(bounded / (1.0 - bounded))
