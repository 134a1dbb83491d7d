"""The basis of a verdict: every clue with its detector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.classifying.classify import Classification
from diagnosis.kinds.logs.compare import detectors
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.meaning.catalogue import EventRow
from diagnosis.kinds.logs.rows import events as tables
from diagnosis.records.result import Clue, Verdict
from diagnosis.values import quotes

LIMITS: Final = thresholds.limits("explain")


def clues(
    case: Case, roots: Sequence[int], classification: Classification, where: Place, verdict: Verdict
) -> tuple[Clue, ...]:
    """About the root events, the nodes and the category, each heaviest first."""
    return (
        *islice(_of_events(case, roots), LIMITS.listed),
        *_of_nodes(where)[: LIMITS.listed],
        *_of_category(classification, verdict),
    )


def _of_events(case: Case, roots: Sequence[int]) -> Iterator[Clue]:
    fallback = {rule.id: rule.why for rule in fallbacks.FALLBACKS}
    for event in roots:
        row = case.event(event)
        detector, why = ("rule", f"rule {row.signature} knows it") if row.signature else ("unknown", "no rule knows it")
        if event == case.roots.leader and case.roots.by in fallback:
            detector, why = case.roots.by, fallback[case.roots.by]
        subject = tables.event_id(row.template, row.signature or "")
        line = quotes.quote(row.example, row.template, LIMITS.chars)
        text = f"“{line}”: {', '.join(_comparisons(case, row))}."
        if event == case.roots.leader and case.roots.reasons:
            text += f" It comes first because {'; '.join(case.roots.reasons)}."
        weight = round(case.roots.weights.get(event, 0.0), 4)
        yield Clue(detector, "event", subject, weight, text, why)


def _comparisons(case: Case, row: EventRow) -> Iterator[str]:
    """The results of the comparisons of one event."""
    if row.strength:
        yield f"a {row.strength} sign"
    if row.n_nodes:
        yield f"on {row.n_nodes} of {case.total} nodes"
    if case.pool.jobs:
        yield f"in {row.jobs_with_it} of {len(case.pool.jobs)} healthy jobs"
    if row.event in case.survived:
        yield "training continued after it"
    elif case.pace.last_at is not None:
        yield "training did not continue after it"


def _of_nodes(where: Place) -> list[Clue]:
    """Each once: two root lines of one fault are two clues with the same words."""
    why = {d.id: d.why for d in detectors.ALL}
    ordered = sorted(where.clues, key=lambda c: (-c.weight, c.node, c.reason))
    rows: dict[Clue, None] = {}
    for c in ordered:
        why_so = why.get(c.detector, "")
        rows[Clue(c.detector, "node", c.node, round(c.weight, 4), f"{c.reason}.", why_so)] = None
    return list(rows)


def _of_category(classification: Classification, verdict: Verdict) -> Iterator[Clue]:
    weight = round(verdict.confidence, 4)
    if verdict.id != classification.category.id:
        title = taxonomy.load().get(verdict.id).title
        yield Clue("structure", "category", verdict.id, weight, f"{title}: from silence and order alone.")
        return
    for reason in classification.reasons[: LIMITS.listed]:
        yield Clue("votes", "category", verdict.id, weight, f"{reason}.", "root events vote for categories")
