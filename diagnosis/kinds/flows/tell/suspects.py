"""The suspects as rows for the fusion with logs and stacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence import SilentMember
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.slow.slowness import SlowReport
from diagnosis.kinds.flows.tell.analysed import JobAnalysis
from diagnosis.kinds.flows.tell.report_rows import FlowSuspectRow
from diagnosis.values.plain import duration

#: Switches of one finding that are ranked.
_MAX_SWITCHES: Final = 4


class _Ranking:
    """The suspects, each once, with the best score and all reasons."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], FlowSuspectRow] = {}

    def add(self, kind: str, entity: str, score: float, reason: str) -> None:
        row = self._rows.setdefault((kind, entity), FlowSuspectRow(entity, kind, 0.0, ["flows"], []))
        row.score = max(row.score, round(float(score), 3))
        if reason not in row.reasons:
            row.reasons.append(reason)

    def rows(self) -> list[FlowSuspectRow]:
        """The most suspect first."""
        for row in self._rows.values():
            row.is_suspect = row.score >= thresholds.of("joined_suspects").accused
        return sorted(self._rows.values(), key=lambda row: (-row.score, row.entity))


def suspects(
    jobs: Sequence[JobAnalysis],
    fabric: Sequence[SlowReport],
    capture: Capture,
    silent: Iterable[Sequence[SilentMember]],
) -> list[FlowSuspectRow]:
    """The suspects for the fusion with logs and stacks: nodes, else addresses, and switches, with score and reason.
    ``silent``: of each job, who fell silent first.
    """
    ranking = _Ranking()
    of_jobs = chain.from_iterable(job.slow for job in jobs)
    for slow in [*of_jobs, *fabric]:
        if slow.measure != "uneven":
            _add_network(ranking, slow)
            _add_members(ranking, slow, capture)
    owing = [members[0] for members in silent if members and members[0].owes]
    return [*ranking.rows(), *map(_owing_suspect, owing)]


def _add_network(ranking: _Ranking, slow: SlowReport) -> None:
    """The link, else the switches, of a finding."""
    if slow.link:
        ranking.add("link", slow.link, slow.shares.get(slow.link, slow.confidence), slow.reason)
        return
    for switch in slow.candidates[:_MAX_SWITCHES]:
        ranking.add("switch", switch, min(slow.confidence, slow.shares.get(switch, 1.0)), slow.reason)


def _add_members(ranking: _Ranking, slow: SlowReport, capture: Capture) -> None:
    """The nodes, else the addresses, of a finding; several share its confidence."""
    for node in slow.nodes:
        score = slow.confidence / len(slow.nodes) ** 0.5
        ranking.add("node", node, slow.shares.get(node, score), slow.reason)
    if slow.nodes:
        return
    is_group = len(slow.culprits) > 1 and not slow.shares
    for member in slow.culprits:
        name = capture.names[member]
        score = slow.confidence / len(slow.culprits) ** 0.5
        ranking.add("group" if is_group else "node", name, slow.shares.get(name, score), slow.reason)


def _owing_suspect(member: SilentMember) -> FlowSuspectRow:
    lasted = duration(member.unanswered_s)
    score = thresholds.of("tell").owing_p
    if member.by:
        sent = f"what {member.by} sent to it in the last {lasted}"
        reason = f"{member.name} did not answer {sent}; then all waited."
        return FlowSuspectRow(member.name, "node", score, ["flows"], [reason], how="ceased")
    still = "Other messages of it still came" if member.lives else "Nothing came from it any more"
    reason = (
        f"{member.name} fell silent first, in the middle of a step; the others waited for {lasted}. "
        f"{still}. Flows do not show why."
    )
    return FlowSuspectRow(member.name, "node", score, ["flows"], [reason], how="overdue")
