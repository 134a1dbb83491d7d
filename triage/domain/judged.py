"""What people decided, in place of what the machine concluded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from diagnosis import taxonomy
from triage.domain.standing import category_of, latest_by_claim
from triage.models import Decision


def judged_report(report: Mapping[str, Any], decisions: Iterable[Decision]) -> dict[str, Any]:
    """The report with the category and the accused as people left them; equal to it where they changed nothing.

    A person's word is certain: a confirmed or named suspect gets the probability 1, a corrected category too. A
    rejected category is unknown, a rejected suspect leaves. A report without a conclusion stays as it is.
    """
    conclusion = report.get("conclusion")
    if not conclusion:
        return dict(report)
    words = list(decisions)
    judged = {**conclusion, **_category(conclusion, words), "fault": _fault(conclusion, words)}
    return {**report, "conclusion": judged}


def changes_the_advice(decisions: Iterable[Decision]) -> bool:
    """Whether people contradicted what the machine's own advice was made from."""
    contradictions = (Decision.Word.CORRECT, Decision.Word.REJECT)
    claims = (Decision.Claim.CATEGORY, Decision.Claim.SUSPECT)
    last = latest_by_claim(decisions)
    return any(claim in claims and word.word in contradictions for (claim, _), word in last.items())


def _category(conclusion: Mapping[str, Any], decisions: list[Decision]) -> dict[str, Any]:
    machine = str(conclusion.get("id") or taxonomy.UNKNOWN)
    standing = category_of(machine, decisions)
    if standing == machine or standing not in taxonomy.load():
        return {}
    leaf = taxonomy.load().get(standing)
    is_named = standing != taxonomy.UNKNOWN
    return {
        "id": standing,
        "category": leaf.category,
        "subcategory": leaf.subcategory,
        "confidence": 1.0 if is_named else 0.0,
    }


def _fault(conclusion: Mapping[str, Any], decisions: list[Decision]) -> list[dict[str, Any]]:
    """The accused after review, those that people named first."""
    last = latest_by_claim(decisions)
    words = {subject: word for (claim, subject), word in last.items() if claim == Decision.Claim.SUSPECT}
    named: list[dict[str, Any]] = []
    accused: list[dict[str, Any]] = []
    for row in conclusion.get("fault") or []:
        word = words.pop(_entity(row), None)
        if word is None or word.word == Decision.Word.INCONCLUSIVE:
            accused.append(row)
        elif word.word == Decision.Word.CONFIRM:
            named.append({**row, "p": 1.0})
        elif word.word == Decision.Word.CORRECT:
            named.append(_named_node(word.value))
    others = [word for word in words.values() if word.word in (Decision.Word.CONFIRM, Decision.Word.CORRECT)]
    named += [_named_node(word.value or word.subject) for word in others]
    return [*named, *accused]


def _entity(row: Mapping[str, Any]) -> str:
    return f"rank {row['name']}" if row.get("kind") == "rank" else str(row.get("name"))


def _named_node(name: str) -> dict[str, Any]:
    if name.startswith("rank "):
        return {"kind": "rank", "name": name.removeprefix("rank "), "p": 1.0}
    return {"kind": "node", "name": name, "p": 1.0}
