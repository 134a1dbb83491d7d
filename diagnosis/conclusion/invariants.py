"""The invariants of a conclusion. ``diagnosis.report.to_json`` checks every report and logs
violations; tests and measuring commands fail on such a line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec

from diagnosis.conclusion.category import CONDITIONS_WITHOUT_PROBLEM, NONE
from diagnosis.conclusion.conclusion_records import ConclusionReport
from diagnosis.conclusion.model import CONDITIONS, EPSILON
from diagnosis.conclusion.sentences.sentence import contains_name
from diagnosis.evidence import PLACE_KINDS
from diagnosis.evidence.decoding import ReportPart
from diagnosis.records.advice_records import Advice
from diagnosis.records.tried import EVICTING_ACTIONS
from diagnosis.taxonomy import UNKNOWN


class Answered(msgspec.Struct, frozen=True):
    """What a report says to people: its headline, its conclusion, its advice."""

    headline: str = ""
    conclusion: ConclusionReport | None = None
    advice: Advice | None = None


def violations(report: ReportPart) -> list[str]:
    """The contradictions in a report of version 2, as sentences; empty for a valid one. Linear in
    the conclusion. Raises ``msgspec.ValidationError`` for what is no report.
    """
    answered = msgspec.convert(report, Answered)
    if answered.conclusion is None:
        return ["the report holds no conclusion"]
    return [text for rule in RULES for text in rule(answered.conclusion, answered)]


def _vocabulary(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    if c.condition not in CONDITIONS:
        yield f"{c.condition!r} is no condition"
    kinds = [row.kind for row in (*c.seen, *c.fault)]
    yield from (f"{kind!r} is no kind of place" for kind in kinds if kind not in PLACE_KINDS)


def _probabilities(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    shares = [alternative.p for alternative in c.alternatives]
    ranked = [accused.p for accused in c.fault]
    every = (*shares, *ranked, c.confidence)
    if min(every) < 0.0 or max(every) > 1.0:
        yield "a probability is outside 0 to 1"
    if sum(shares) > 1.0 + EPSILON:
        yield f"the categories' probabilities sum to {sum(shares):.3f}"
    if shares != sorted(shares, reverse=True):
        yield "the categories are not in the order of their probability"
    if ranked != sorted(ranked, reverse=True):
        yield "the accused are not in the order of their probability"


def _first_alternative(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    for first in c.alternatives[:1]:
        difference = abs(first.p - c.confidence)
        if first.id != c.id or difference > EPSILON:
            yield "the first alternative is not the category"


def _sentence(c: ConclusionReport, report: Answered) -> Iterator[str]:
    if report.headline != c.sentence:
        yield "the headline is not the conclusion's sentence"
    for first in c.fault[:1]:
        if not contains_name(c.sentence, first.name):
            yield f"the sentence does not name {first.name}, who is accused first"


def _problem(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    has_problem = c.condition not in CONDITIONS_WITHOUT_PROBLEM
    if has_problem and c.id == NONE:
        yield f"a job that {c.condition} has the category “no failure”"
    if c.fault and not has_problem:
        yield f"somebody is accused though the job is {c.condition}"


def _healthy(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    if c.condition != "healthy":
        return
    if c.slowdowns:
        yield "the job is called healthy though steps were slow"
    if "root" in {finding.what for finding in c.chain}:
        yield "the job is called healthy although a line states an unexplained cause"


def _advice(c: ConclusionReport, report: Answered) -> Iterator[str]:
    advice = c.advice
    if advice is None:
        return
    targets = advice.targets
    unknown = set(targets) - {accused.name for accused in c.fault}
    if report.advice not in (None, advice):
        yield "the report's advice is not the conclusion's"
    if targets and c.condition in CONDITIONS_WITHOUT_PROBLEM:
        yield "machines are named in the advice though nothing is wrong"
    if unknown:
        yield f"the advice names {min(unknown)}, who is not accused"
    if c.id == UNKNOWN and advice.action in EVICTING_ACTIONS:
        yield "the advice takes out machines though the cause is unknown"


def _places(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    seen = {(row.kind, row.name) for row in c.seen}
    for accused in c.fault:
        if (accused.kind, accused.name) not in seen:
            yield f"{accused.name} is accused but was seen nowhere"


def _duplicates(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    named = Counter((row.kind, row.name) for row in c.fault)
    most = named.most_common(1)
    yield from (f"{name} is accused twice" for (_, name), times in most if times > 1)
    ranks_of: dict[str, set[int]] = defaultdict(set)
    for row in c.fault:
        if row.rank is not None:
            ranks_of[row.kind].add(row.rank)
    twice = ranks_of["node"] & ranks_of["rank"]
    yield from (f"rank {rank} is accused once with its node and once alone" for rank in sorted(twice))


def _stretches(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    """Slow steps below the least cost are not reported."""
    is_shown = c.condition == "degraded" or bool(c.slowdowns)
    if not is_shown and "slow" in {finding.what for finding in c.chain}:
        yield "the chain has slow steps that no stretch covers"


def _disagreements(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    for row in c.disagreements:
        if len(row.sides) != 2:
            yield f"a disagreement about {row.about} shows only one side"


#: Outcomes that each condition allows; the others allow all.
_OUTCOMES: Final = {
    "failed": ("failed", "unknown"),  # unknown: only a report shows a broken part
    "hung": ("failed", "cancelled", "running"),
    "recovered": ("succeeded",),
    "cancelled": ("cancelled",),
    "running": ("running",),
    "healthy": ("succeeded", "running", "unknown"),
}


def _outcome(c: ConclusionReport, _report: Answered) -> Iterator[str]:
    ended = c.outcome
    if ended not in _OUTCOMES.get(c.condition, (ended,)):
        yield f"the job is {c.condition} and its outcome is {ended}"


RULES: Final = (
    _vocabulary, _probabilities, _first_alternative, _outcome, _sentence, _problem, _healthy,
    _advice, _places, _duplicates, _stretches, _disagreements,
)  # fmt: skip
