"""Which of the rules that match in one failure says its cause, and which only what followed.

A root stays one unless another root explains it: one that it names (``yields_to``), or any strong one if it is weak. A
confirmation is a root only beside a root of the same category. So a process that was killed (``elastic.exit_killed``, a
confirmation) yields to a line about memory (``kernel.oom_kill``, a root), and is the cause where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning.signatures.model import Signature, Strength
from diagnosis.model import Role


def roles_of(rules: Sequence[Signature]) -> dict[str, Role]:
    """The role of each rule beside the others. O(rules squared)."""
    roots = [rule for rule in rules if rule.role is Role.ROOT]
    yielding = _yielding(roots)
    roles = {rule.id: rule.role for rule in rules} | dict.fromkeys(yielding, Role.CASCADE)
    causes = {_pair(rule.category) for rule in roots if rule.id not in yielding}
    confirmed = [rule.id for rule in rules if _confirms(rule, causes)]
    return roles | dict.fromkeys(confirmed, Role.ROOT)


def _yields(rule: Signature, other: Signature) -> bool:
    return any(name == other.id or (name.endswith(".") and other.id.startswith(name)) for name in rule.yields_to)


def _yielding(roots: Sequence[Signature]) -> set[str]:
    """The roots that others explain: a stronger one, or one that they name and that does not name them."""
    has_strong = any(rule.strength is not Strength.WEAK for rule in roots)
    weak = {rule.id for rule in roots if has_strong and rule.strength is Strength.WEAK}
    return weak | {rule.id for rule in roots if any(_yields_alone(rule, other) for other in roots)}


def _yields_alone(rule: Signature, other: Signature) -> bool:
    return other is not rule and _yields(rule, other) and not _yields(other, rule)


def _confirms(rule: Signature, causes: Set[tuple[str, str]]) -> bool:
    """Whether a rule is evidence of one of these categories with their subcategories."""
    if rule.role is not Role.CONFIRMATION or rule.is_form:
        return False
    return any(_pair(category) in causes for category in (rule.category, *rule.also))


def _pair(category: str) -> tuple[str, str]:
    leaf = taxonomy.load().get(category)
    return leaf.category, leaf.subcategory
