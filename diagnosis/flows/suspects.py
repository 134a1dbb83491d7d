"""The suspects as rows for the fusion with logs and stacks."""

from __future__ import annotations

from typing import Any

from diagnosis.flows.analysed import Analysed
from diagnosis.flows.capture import Capture
from diagnosis.flows.slowness import Slow

#: Probability that the member that should have sent next is the one that stopped: right in three of three recordings.
OWING = 0.6


def suspects(
    jobs: list[Analysed], fabric: list[Slow], capture: Capture, stopped: list[list[dict[str, Any]]]
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
        if slow.kind == "slow_switch":
            for candidate in slow.candidates[:4]:
                put("switch", candidate, min(slow.confidence, slow.shares.get(candidate, 1.0)), slow.reason)
        elif slow.nodes:
            for node in slow.nodes:
                score = slow.confidence / len(slow.nodes) ** 0.5
                put("node", node, min(score, slow.shares.get(node, 1.0)), slow.reason)
        elif slow.culprits:
            for member in slow.culprits:
                put(
                    "group" if len(slow.culprits) > 1 else "node",
                    capture.names[member],
                    slow.confidence / len(slow.culprits) ** 0.5,
                    slow.reason,
                )
    rows = sorted(best.values(), key=lambda row: (-float(row["score"]), str(row["entity"])))
    return rows + [_owing(row) for silent in stopped for row in silent[:1] if row["owes"]]


def _owing(row: dict[str, Any]) -> dict[str, Any]:
    reason = (
        f"{row['by']} went on for {row['unanswered_s']:.2f} s after the last answer of {row['name']}; then all waited."
    )
    return {
        "entity": row["name"], "kind": "node", "score": OWING, "from": ["flows"], "reasons": [reason], "how": "ceased",
    }  # fmt: skip
