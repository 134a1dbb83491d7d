"""The invariants of a conclusion. ``diagnosis.report.to_json`` checks every report and logs violations; tests and
measuring commands fail on such a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from diagnosis.conclusion.category import CONDITIONS_WITHOUT_PROBLEM, NONE
from diagnosis.conclusion.model import CONDITIONS
from diagnosis.conclusion.sentence import contains_name
from diagnosis.evidence import PLACE_KINDS
from diagnosis.taxonomy import UNKNOWN
from diagnosis.tried import EVICTING_ACTIONS

EPSILON: Final = 1e-6


def violations(report: Mapping[str, Any]) -> list[str]:
    """The contradictions in a report of version 2, as sentences; empty for a valid one. Linear in the conclusion."""
    c = report.get("conclusion")
    if not isinstance(c, Mapping):
        return ["the report holds no conclusion"]
    return [text for rule in RULES for text in rule(c, report)]


def _vocabulary(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    out = [] if c["condition"] in CONDITIONS else [f"{c['condition']!r} is no condition"]
    rows = [*c["seen"], *c["fault"]]
    return out + [f"{row['kind']!r} is no kind of place" for row in rows if row["kind"] not in PLACE_KINDS]


def _probabilities(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    out = []
    shares = [float(a["p"]) for a in c["alternatives"]]
    every = [*shares, float(c["confidence"]), *(float(f["p"]) for f in c["fault"])]
    if any(not 0.0 <= p <= 1.0 for p in every):
        out.append("a probability is outside 0 to 1")
    if sum(shares) > 1.0 + EPSILON:
        out.append(f"the categories' probabilities sum to {sum(shares):.3f}")
    if shares != sorted(shares, reverse=True):
        out.append("the categories are not in the order of their probability")
    if c["alternatives"] and (
        c["alternatives"][0]["id"] != c["id"] or abs(shares[0] - float(c["confidence"])) > EPSILON
    ):
        out.append("the first alternative is not the category")
    ranked = [float(f["p"]) for f in c["fault"]]
    if ranked != sorted(ranked, reverse=True):
        out.append("the accused are not in the order of their probability")
    return out


def _sentence(c: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    out = []
    if report.get("headline") != c["sentence"]:
        out.append("the headline is not the conclusion's sentence")
    if c["fault"] and not contains_name(c["sentence"], c["fault"][0]["name"]):
        out.append(f"the sentence does not name {c['fault'][0]['name']}, who is accused first")
    return out


def _without_problem(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    if c["condition"] not in CONDITIONS_WITHOUT_PROBLEM:
        return [] if c["id"] != NONE else [f"a job that {c['condition']} has the category “no failure”"]
    out = []
    if c["fault"]:
        out.append(f"somebody is accused though the job is {c['condition']}")
    if c["condition"] == "healthy" and c["slowdowns"]:
        out.append("the job is called healthy though steps were slow")
    if c["condition"] == "healthy" and any(f["what"] == "root" for f in c["chain"]):
        out.append("the job is called healthy although a line states an unexplained cause")
    return out


def _advice(c: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    advice = c.get("advice") or {}
    if not advice:
        return []
    out = [] if report.get("advice", advice) == advice else ["the report's advice is not the conclusion's"]
    targets = advice.get("targets") or ()
    if c["condition"] in CONDITIONS_WITHOUT_PROBLEM and targets:
        out.append("machines are named in the advice though nothing is wrong")
    named = {f["name"] for f in c["fault"]}
    out += [f"the advice names {t}, who is not accused" for t in targets if t not in named][:1]
    if advice.get("action") in EVICTING_ACTIONS and c["id"] == UNKNOWN:
        out.append("the advice takes out machines though the cause is unknown")
    return out


def _places(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    seen = {(s["kind"], s["name"]) for s in c["seen"]}
    return [f"{f['name']} is accused but was seen nowhere" for f in c["fault"] if (f["kind"], f["name"]) not in seen]


def _duplicates(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    named = [(f["kind"], f["name"]) for f in c["fault"]]
    out = [f"{name} is accused twice" for kind, name in named if named.count((kind, name)) > 1][:1]
    on_nodes = {f["rank"] for f in c["fault"] if f["kind"] == "node" and f["rank"] is not None}
    twice = [f for f in c["fault"] if f["kind"] == "rank" and f["rank"] in on_nodes]
    return out + [f"rank {f['rank']} is accused once with its node and once alone" for f in twice]


def _stretches(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    """Slow steps below the least cost are not reported."""
    if c["condition"] == "degraded" or c["slowdowns"] or all(f["what"] != "slow" for f in c["chain"]):
        return []
    return ["the chain has slow steps that no stretch covers"]


def _disagreements(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    return [
        f"a disagreement about {d['about']} shows only one side" for d in c["disagreements"] if len(d["sides"]) != 2
    ]


#: Outcomes that each condition allows; the others allow all.
_OUTCOMES: Final = {
    "failed": ("failed", "unknown"),  # unknown: only a report shows a broken part
    "hung": ("failed", "cancelled", "running"),
    "recovered": ("succeeded",),
    "cancelled": ("cancelled",),
    "running": ("running",),
    "healthy": ("succeeded", "running", "unknown"),
}


def _outcome(c: Mapping[str, Any], _report: Mapping[str, Any]) -> list[str]:
    ended = c.get("outcome")
    if ended is None or ended in _OUTCOMES.get(c["condition"], (ended,)):
        return []
    return [f"the job is {c['condition']} and its outcome is {ended}"]


RULES: Final = (
    _vocabulary, _probabilities, _outcome, _sentence, _without_problem,
    _advice, _places, _duplicates, _stretches, _disagreements,
)  # fmt: skip
