"""Classifies root events: a category with a calibrated confidence, and a runner-up.

Rules vote first: each root event gives its category the weight of its rule's strength times its own
suspicion. Votes of one category join as independent hints (noisy or), so that ten lines of one kind
do not outvote one fallen GPU. Messages without a rule go to the learned model
(:mod:`classify_model`), whose votes weigh less. The symptom is not used: the same crash
comes from hardware and from user code (L4, section 3).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.classifying.classify_model import Model
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import Signature, SignatureSet
from diagnosis.model import Role
from diagnosis.taxonomy import NONE, UNKNOWN, Category
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("classify")

#: Weight of a hint of each role; other roles do not show the cause.
_ROLES = (Role.ROOT, Role.CONFIRMATION, Role.CASCADE, Role.TEARDOWN)
#: Used only without any root hint: they show that something failed, not what.
_CONSEQUENCES = frozenset({Role.CASCADE, Role.TEARDOWN})
_WITHOUT_CAUSE = frozenset({UNKNOWN, NONE})


class Hint(msgspec.Struct, frozen=True):
    """One event as far as classification is concerned.

    ``template`` is the masked text, ``rule`` the id of the rule that matched it, if any, ``role``
    its role in this failure. ``weight`` in [0, 1]: probability by the comparisons that it belongs
    to the cause. ``is_wide``: more than a few machines report it; ``is_lone``: one alone does.
    """

    template: str
    rule: str | None = None
    role: Role = Role.ROOT
    weight: float = 1.0
    is_wide: bool = False
    is_lone: bool = False


class Classification(msgspec.Struct, frozen=True):
    """The category, its confidence, and the alternatives."""

    category: Category
    confidence: float
    runner_up: Category | None = None
    runner_up_confidence: float = 0.0
    also: tuple[Category, ...] = ()
    reasons: tuple[str, ...] = ()


def classify(hints: Iterable[Hint], rules: SignatureSet | None = None, model: Model | None = None) -> Classification:
    """The verdict on one failed episode. Without usable hints it is ``unknown`` with confidence 0.

    ``model`` classifies messages without a rule; the more incidents are confirmed, the more its
    votes count beside a rule. An unknown rule id counts as no rule. O(hints × categories).
    """
    known = rules or signatures.load()
    votes: dict[str, list[tuple[float, str]]] = {}
    rows = [(hint, known.rule(hint.rule or "")) for hint in hints]
    has_root = any(hint.role is Role.ROOT and _votes(hint, rule) for hint, rule in rows)
    for hint, rule in rows:
        if has_root and hint.role in _CONSEQUENCES:
            continue
        for category, weight, reason in _votes(hint, rule):
            votes.setdefault(category, []).append((weight, reason))
        for category, weight, reason in _model_votes(hint, rule, model):
            votes.setdefault(category, []).append((weight, reason))
    return _verdict(votes, model, 1.0 if has_root else THRESHOLDS.uncaused)


def _votes(hint: Hint, rule: Signature | None) -> list[tuple[str, float, str]]:
    if rule is None or rule.category in _WITHOUT_CAUSE:
        return []
    weight = rule.strength.weight * _role_weight(hint)
    first, *others = (rule.category, *rule.also)
    if hint.is_wide or (hint.is_lone and "shared" in taxonomy.load().get(first).traits):
        first, *others = _ordered_by_spread(first, others, is_wide=hint.is_wide)
    further = [(other, weight * THRESHOLDS.also, rule.title) for other in others]
    return [(first, weight, rule.title), *further]


def _ordered_by_spread(category: str, also: Sequence[str], *, is_wide: bool) -> list[str]:
    """A rule's categories: what machines share comes first where many report it, else last."""
    tree = taxonomy.load()

    def is_second(name: str) -> bool:
        return (tree.get(name).category == "hardware") == is_wide

    return sorted((category, *also), key=is_second)


def _model_votes(hint: Hint, rule: Signature | None, model: Model | None) -> list[tuple[str, float, str]]:
    """Votes of the model: full where no rule tells of the cause, else by its trust."""
    share = _model_share(hint, rule, model) if model else 0.0
    if model is None or not share:
        return []
    weight = share * _role_weight(hint) * THRESHOLDS.model
    own = signatures.without_names(hint.template)
    if model.coverage(own) < THRESHOLDS.model_covered:
        return []
    found = list(model.predict(own).items())[: THRESHOLDS.model_guesses]
    source = "confirmed incidents" if model.confirmed else "known messages"
    reason = f"Its words are those of {source} of this category"
    causes = [(leaf, p) for leaf, p in found if leaf not in _WITHOUT_CAUSE]
    votes = [(leaf, weight * p, reason) for leaf, p in causes if p >= THRESHOLDS.model_least]
    if signatures.is_program_error(hint.template):
        return [vote for vote in votes if vote[0].startswith(signatures.PROGRAM)]
    return votes


def _model_share(hint: Hint, rule: Signature | None, model: Model) -> float:
    """The share of its weight that the model has beside a rule."""
    if rule is None:
        return 1.0
    if rule.role in {Role.ADVICE, Role.BENIGN}:
        return 0.0
    is_open = rule.category in _WITHOUT_CAUSE or (rule.is_form and hint.role is Role.ROOT)
    return 1.0 if is_open else model.trust


def _role_weight(hint: Hint) -> float:
    """The share of its weight that a hint has by its role."""
    return hint.weight * float(getattr(THRESHOLDS, hint.role.value) if hint.role in _ROLES else 0.0)


def _verdict(votes: dict[str, list[tuple[float, str]]], model: Model | None, most: float) -> Classification:
    tree = taxonomy.load()
    scores: dict[str, float] = {}
    for category, rows in votes.items():
        scores[category] = stats.fuse(weight for weight, _ in rows)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    if not ranked or ranked[0][1] <= 0:
        return Classification(tree[UNKNOWN], 0.0)
    total = sum(scores.values()) + THRESHOLDS.doubt
    best, score = ranked[0]
    second = ranked[1] if len(ranked) > 1 else None
    rival = second[1] / (score + second[1]) if second else 0.0
    probable = probability({"score": score, "share": score / total, "rival": rival})
    # of two equal candidates neither is likelier than not; further apart the fitted weight of the
    # rival is enough
    bound = 1.0 - (2 * rival) ** THRESHOLDS.equals / 2
    confidence = round(min(most, bound, model.calibrate(probable) if model else probable), 4)
    # the candidates exclude each other: what the first leaves is shared by the others and by what
    # nobody collected
    left = min(confidence, (1.0 - confidence) * second[1] / (total - score)) if second else 0.0
    others = [name for name, value in ranked[1:] if value >= THRESHOLDS.multi_label * score]
    strongest = sorted(votes[best], key=lambda row: (-row[0], row[1]))
    return Classification(
        category=tree.get(best),
        confidence=confidence,
        runner_up=tree.get(second[0]) if second else None,
        runner_up_confidence=round(left, 4),
        also=tuple(map(tree.get, others)),
        reasons=tuple(dict.fromkeys(text for _, text in strongest)),
    )


def probability(features: Mapping[str, float]) -> float:
    """The chance that the winner is right: a logistic function of its ``score``, its ``share`` of
    all votes and how near a ``rival`` is, fitted on messages that no rule was written from
    (``category_probability.json`` says by which command).
    """
    fitted = _fitted_weights()
    weighted = sum(fitted["weights"][name] * value for name, value in features.items())
    return 1 / (1 + math.exp(-fitted["intercept"] - weighted))


@cache
def _fitted_weights() -> dict[str, Any]:
    stored = resources.files("diagnosis").joinpath("category_probability.json")
    return dict(json.loads(stored.read_text(encoding="utf-8")))
