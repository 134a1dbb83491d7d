"""Who else an incident stopped: the other nodes of the job, in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from triage.domain.finding_facts import FindingFacts
from triage.models import Incident


def affected_words(incident: Incident, findings: Sequence[FindingFacts], accused: Sequence[str]) -> str:
    """``the other 7 nodes wait``, ``3 other nodes failed after it``; empty if the evidence shows none.

    A hung job stops all its nodes. Of a job that failed, the consequence on most nodes counts; its lines name only
    some of them, so the number of others is what is left beside those where it began. Linear in the findings.
    """
    nodes = incident.node_count or 0
    if incident.condition == "hung" and accused:
        others, verb = nodes - len(accused), "wait"
    else:
        others, verb = _followers(findings, nodes), "failed after it"
    if others < 1:
        return ""
    who = f"{others:,} other {'node' if others == 1 else 'nodes'}"
    return f"{who} {'waits' if (verb, others) == ('wait', 1) else verb}"


def _followers(findings: Sequence[FindingFacts], nodes: int) -> int:
    roots = [row for row in findings if row.role == "root"]
    began = set(itertools.chain.from_iterable(row.node_names for row in roots))
    consequences = [row for row in findings if row.role == "cascade"]
    widest = max(consequences, key=lambda row: row.nodes, default=None)
    if widest is None or not began:
        return 0
    followers = widest.nodes - len(began.intersection(widest.node_names))
    return min(followers, nodes - len(began)) if nodes else followers
