"""The suspects as rows for the fusion with logs and stacks."""

from __future__ import annotations

from typing import Any

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.tell.analysed import JobAnalysis

#: Probability that the member that should have sent next is the one that stopped: right in three of three recordings.
OWING_P = 0.6


def suspects(
    jobs: list[JobAnalysis], fabric: list[SlowReport], capture: Capture, stopped: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The suspects for the fusion with logs and stacks: nodes, else addresses, and switches, with score and reason."""
    best: dict[tuple[str, str], dict[str, Any]] = {}

    def put(kind: str, entity: str, score: float, reason: str) -> None:
        row = best.setdefault(
            (kind, entity), {"entity": entity, "kind": kind, "score": 0.0, "from": ["flows"], "reasons": []}
        )
        row["score"] = max(float(row["score"]), round(score, 3))
        if reason not in row["reasons"]:
            row["reasons"].append(reason)

    for slow in [s for a in jobs for s in a.slow] + fabric:
        if slow.measure == "uneven":
            continue
        if slow.link:
            put("link", slow.link, slow.shares.get(slow.link, slow.confidence), slow.reason)
        for switch in [] if slow.link else slow.candidates[:4]:
            put("switch", switch, min(slow.confidence, slow.shares.get(switch, 1.0)), slow.reason)
        for node in slow.nodes:
            score = slow.confidence / len(slow.nodes) ** 0.5
            put("node", node, slow.shares.get(node, score), slow.reason)
        if not slow.nodes:
            for member in slow.culprits:
                name = capture.names[member]
                score = slow.confidence / len(slow.culprits) ** 0.5
                kind = "group" if len(slow.culprits) > 1 and not slow.shares else "node"
                put(kind, name, slow.shares.get(name, score), slow.reason)
    for found in best.values():
        found["suspect"] = float(found["score"]) >= thresholds.of("localize").accused
    rows = sorted(best.values(), key=lambda row: (-float(row["score"]), str(row["entity"])))
    return rows + [_owing_suspect(row) for silent in stopped for row in silent[:1] if row["owes"]]


def _owing_suspect(row: dict[str, Any]) -> dict[str, Any]:
    sent = f"what {row['by']} sent to it in the last {row['unanswered_s']:.2f} s"
    reason = f"{row['name']} did not answer {sent}; then all waited."
    return {
        "entity": row["name"], "kind": "node", "score": OWING_P,
        "from": ["flows"], "reasons": [reason], "how": "ceased",
    }  # fmt: skip
