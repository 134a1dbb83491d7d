"""From root events to a category with a calibrated confidence, a runner-up, and the right to say "inconclusive".

Rules vote first: each root event gives its category the weight of its rule's strength times its own suspicion. Votes
of one category join as independent hints (noisy or), so that ten lines of one kind do not outvote one fallen GPU.
What no rule knows is asked of the learned model (:mod:`diagnosis.classify_model`), whose word weighs less. The
symptom takes no part: the same crash comes from hardware and from user code (L4, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diagnosis import taxonomy
from diagnosis.logs import signatures
from diagnosis.logs.signatures import SignatureSet
from diagnosis.model import Role
from diagnosis.taxonomy import UNKNOWN, Category

#: A verdict below this confidence is given, but called inconclusive.
CONCLUSIVE = 0.45
#: Further labels need this share of the winner's vote.
MULTI_LABEL = 0.6
#: What weighs against every vote: evidence that was never collected.
DOUBT = 0.08
_ALSO = 0.5
_CONFIRMATION = 0.5
_CASCADE = 0.12


@dataclass(frozen=True, slots=True)
class Hint:
    """One event as far as classification is concerned.

    ``template`` is the masked text; ``rule`` the id of the rule that matched it, if any; ``role`` its role in this
    failure (resolved in context); ``weight`` in [0, 1] how sure the comparisons are that it belongs to the cause;
    ``is_first`` whether it is the earliest of the root events.
    """

    template: str
    rule: str | None = None
    role: Role = Role.ROOT
    weight: float = 1.0
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Classification:
    """The category, how sure we are, and what else it might be."""

    category: Category
    confidence: float
    runner_up: Category | None = None
    runner_up_confidence: float = 0.0
    also: tuple[Category, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_inconclusive(self) -> bool:
        """Whether a human should not rely on it."""
        return self.confidence < CONCLUSIVE or self.category.id == UNKNOWN


def classify(hints: Iterable[Hint], rules: SignatureSet | None = None) -> Classification:
    """The verdict on one failed episode. Without usable hints it is ``unknown`` with confidence 0.

    Raises nothing; a rule id that is not in ``rules`` counts as no rule. O(hints × categories).
    """
    known = rules or signatures.load()
    votes: dict[str, list[tuple[float, str]]] = {}
    for hint in hints:
        for category, weight, reason in _votes(hint, known):
            votes.setdefault(category, []).append((weight, reason))
    return _verdict(votes)


def _votes(hint: Hint, rules: SignatureSet) -> list[tuple[str, float, str]]:
    rule = rules.rule(hint.rule) if hint.rule else None
    if rule is None or rule.category == UNKNOWN:
        return []
    weight = rule.strength.weight * hint.weight
    if hint.role is Role.CONFIRMATION:
        weight *= _CONFIRMATION
    elif hint.role is Role.CASCADE:
        weight *= _CASCADE
    elif hint.role is not Role.ROOT:
        return []
    elif hint.is_first:
        weight = min(1.0, weight * 1.25)
    votes = [(rule.category, weight, rule.title)]
    votes += [(other, weight * _ALSO, rule.title) for other in rule.also]
    return votes


def _verdict(votes: dict[str, list[tuple[float, str]]]) -> Classification:
    tree = taxonomy.load()
    scores = {category: _noisy_or([weight for weight, _ in rows]) for category, rows in votes.items()}
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    if not ranked or ranked[0][1] <= 0:
        return Classification(tree[UNKNOWN], 0.0)
    total = sum(scores.values()) + DOUBT
    best, score = ranked[0]
    confidence = score * score / total
    second = ranked[1] if len(ranked) > 1 else None
    return Classification(
        category=tree.get(best),
        confidence=round(confidence, 4),
        runner_up=tree.get(second[0]) if second else None,
        runner_up_confidence=round(second[1] * second[1] / total, 4) if second else 0.0,
        also=tuple(tree.get(name) for name, value in ranked[1:] if value >= MULTI_LABEL * score),
        reasons=tuple(dict.fromkeys(reason for _, reason in sorted(votes[best], key=lambda row: (-row[0], row[1])))),
    )


def _noisy_or(weights: Sequence[float]) -> float:
    missed = 1.0
    for weight in weights:
        missed *= 1.0 - min(weight, 0.99)
    return 1.0 - missed


__all__ = ["Classification", "Hint", "classify"]
