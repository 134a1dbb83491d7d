"""Why incidents are in one group or apart: the parts of their fingerprint, and people's rules for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triage.domain.finding_facts import FindingFacts, findings_of
from triage.models import GroupRule, Incident
from triage.selectors.incidents import incidents_visible_to

MAX_RULES = 10


@dataclass(frozen=True, slots=True)
class Grouping:
    """``roots``: the events whose texts make the fingerprint; ``rules``: people's rules for it, the latest first."""

    roots: list[FindingFacts]
    rules: list[GroupRule]
    similar_count: int

    @property
    def rule(self) -> GroupRule | None:
        """The rule that counts for new incidents."""
        return self.rules[0] if self.rules else None


def grouping_of(user: Any, incident: Incident) -> Grouping:
    """Two queries."""
    roots = [row for row in findings_of(incident.diagnosis.report) if row.role == "root"]
    if not incident.fingerprint:
        return Grouping(roots, [], 0)
    all_rules = GroupRule.objects.filter(cluster=incident.cluster_id, fingerprint=incident.fingerprint)
    rules = all_rules.select_related("made_by").order_by("-pk")
    similar = incidents_visible_to(user).filter(fingerprint=incident.fingerprint, is_withdrawn=False)
    return Grouping(roots, list(rules[:MAX_RULES]), similar.exclude(pk=incident.pk).count())
