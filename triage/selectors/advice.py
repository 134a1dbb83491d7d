"""The current advice: it follows what people decided, and passes over actions that were tried and did not help."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db.models import Q

from diagnosis.advising.advice import advise
from diagnosis.advising.advice_facts import AdviceEvidence
from diagnosis.evidence import decode
from diagnosis.records.tried import ACTIONS, EVICTING_ACTIONS, EXECUTABLE_ACTIONS
from triage import metrics
from triage.charts.stacks import unfold
from triage.domain.judged import changes_the_advice, judged_report
from triage.domain.report_facts import suspects_of
from triage.models import Activity, Decision, Diagnosis, Incident

TRIED_KINDS = ("tried", "untried")
OUTCOMES = {"failed_again": "failed again", "helped": "helped", "open": "not known yet"}
#: Candidate groups shown; the report keeps 24.
MAX_CANDIDATES = 6


@dataclass(frozen=True, slots=True)
class TriedAct:
    """One recorded action. ``is_here``: recorded on this incident, not on an earlier attempt's."""

    row: Activity
    is_here: bool

    @property
    def title(self) -> str:
        return ACTIONS.get(str(self.row.data.get("action")), "An action")

    @property
    def targets(self) -> list[str]:
        return list(self.row.data.get("targets") or [])

    @property
    def outcome(self) -> str:
        return OUTCOMES.get(str(self.row.data.get("outcome")), "not known yet")

    @property
    def failed(self) -> bool:
        return bool(self.row.data.get("outcome") == "failed_again")


@dataclass(frozen=True, slots=True)
class Eviction:
    """The cost of evicting one set of machines. ``healthy``: machines in it that nothing accuses."""

    title: str
    nodes: tuple[str, ...]
    ranks: int
    gpus: int
    healthy: int
    coverage: float | None = None
    is_advised: bool = False

    @property
    def standbys(self) -> int:
        """Machines that must join for the job to keep its size."""
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class AdviceView:
    """What the incident shows: the advice, recorded actions, and what evictions would remove."""

    advice: dict[str, Any]
    #: made from what people decided, against the machine
    is_after_review: bool = False
    tried: list[TriedAct] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    nodes: int = 0
    #: standbys that a job of this size should have (99 % quantile of a day); None for an unknown size
    standbys: int | None = None
    choices: tuple[tuple[str, str], ...] = tuple((name, ACTIONS[name]) for name in EXECUTABLE_ACTIONS)
    outcomes: tuple[tuple[str, str], ...] = tuple(OUTCOMES.items())

    @property
    def record_action(self) -> str:
        """The preselected action of the form: the advice."""
        return str(self.advice.get("action") or "")


def tried_words(kind: str, data: dict[str, Any]) -> str:
    """A record, or its undo, as the rest of a sentence that begins with the person."""
    title = ACTIONS.get(str(data.get("action")), "an action").lower()
    names = [str(name) for name in data.get("targets") or []]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    what = f"{title} ({listed})" if names else title
    if kind == "untried":
        return f"undid the record of {what}"
    return f"recorded {what}: {OUTCOMES.get(str(data.get('outcome')), 'not known yet')}"


def advice_view(
    incident: Incident, report: dict[str, Any], activities: Iterable[Activity], decisions: Iterable[Decision]
) -> AdviceView:
    """The panel of one incident; ``activities``: its own, and what was tried before it (``IncidentView.activities``).

    No query; linear in the ranks of the report's stacks.
    """
    tried, words = tried_acts(incident, activities), list(decisions)
    advice = advice_now(report, tried, words)
    named_nodes = {row["node"] for row in (report.get("stacks") or {}).get("ranks") or [] if row.get("node")}
    nodes = incident.node_count or len(named_nodes)
    return AdviceView(
        advice=advice,
        is_after_review=changes_the_advice(words),
        tried=tried,
        evictions=evictions(report, advice, incident.job.cluster.gpus_per_node),
        nodes=nodes,
        standbys=metrics.standbys(nodes) if nodes else None,
    )


def tried_acts(incident: Incident, activities: Iterable[Activity]) -> list[TriedAct]:
    """Recorded actions that were not undone: here, and on earlier attempts of the job with the same failure."""
    rows = [row for row in activities if row.kind in TRIED_KINDS]
    undone = {row.data.get("of") for row in rows if row.kind == "untried"}
    return [
        TriedAct(row, row.incident_id == incident.pk) for row in rows if row.kind == "tried" and row.pk not in undone
    ]


def advice_now(report: dict[str, Any], tried: Iterable[TriedAct], decisions: Iterable[Decision] = ()) -> dict[str, Any]:
    """The stored advice; if people contradicted its grounds or an action failed again, the advice after that."""
    stored: dict[str, Any] = report.get("advice") or {}
    failed: list[Any] = [{"action": act.row.data.get("action"), "targets": act.targets} for act in tried if act.failed]
    words = list(decisions)
    is_contradicted = changes_the_advice(words)
    if not stored or not (failed or is_contradicted):
        return stored
    known = judged_report(report, words) if is_contradicted else report
    advice = advise(decode({**known, "tried": failed}, AdviceEvidence))
    now: dict[str, Any] = msgspec.to_builtins(advice)
    return now


def tried_earlier(incident: Incident) -> Q:
    """Actions on earlier attempts of its job with the same failure."""
    return Q(
        job=incident.job_id,
        kind__in=TRIED_KINDS,
        incident__attempt__number__lt=incident.attempt.number,
        incident__standing_category=incident.standing_category,
        incident__is_withdrawn=False,
    )


def standing_advice(incident: Incident, decisions: Iterable[Decision] | None = None) -> dict[str, Any]:
    """The advice as on its page, for messages, tickets and programs.

    Three queries, two with its ``decisions`` given; one more reads the whole report, where people
    contradicted it or an action failed.
    """
    which = Q(incident=incident, kind__in=TRIED_KINDS)
    if incident.attempt.number > 0:
        which |= tried_earlier(incident)
    tried = tried_acts(incident, Activity.objects.filter(which).order_by("at", "pk"))
    words = list(incident.decisions.all() if decisions is None else decisions)
    if changes_the_advice(words) or any(act.failed for act in tried):
        return advice_now(incident.diagnosis.report, tried, words)
    stored = Diagnosis.objects.filter(pk=incident.diagnosis_id)
    return stored.values_list("report__advice", flat=True).first() or {}


def evictions(report: dict[str, Any], advice: dict[str, Any], gpus_per_node: int) -> list[Eviction]:
    """What each way of evicting removes: only the suspects, then the candidate groups of the stacks, best first."""
    stacks = report.get("stacks") or {}
    node_of = {row["rank"]: row["node"] for row in stacks.get("ranks") or [] if row.get("node")}
    accused = {row.entity for row in suspects_of(report) if row.is_accused and row.kind == "node"}
    advised = set(advice.get("targets") or []) if advice.get("action") in EVICTING_ACTIONS else set()
    machines = _Machines(Counter(node_of.values()), accused, advised, gpus_per_node)
    alone = [machines.evicted("The suspects alone", sorted(accused))] if accused else []
    rows = _of_groups(stacks.get("candidates") or [], node_of, machines)
    # of two names for the same machines the advice's own one is kept
    if advice.get("action") == "over_evict" and any(eviction.is_advised for eviction in rows):
        alone = [eviction for eviction in alone if not eviction.is_advised]
    rows = [*alone, *rows]
    if advised and not any(eviction.is_advised for eviction in rows):
        rows.insert(0, machines.evicted("As advised", sorted(advised)))
    by_nodes: dict[frozenset[str], Eviction] = {}
    for eviction in rows:
        if eviction.nodes:
            by_nodes.setdefault(frozenset(eviction.nodes), eviction)
    return list(by_nodes.values())


@dataclass(frozen=True, slots=True)
class _Machines:
    """What is known of the machines: how many ranks each has, whom the evidence accuses, whom the advice removes."""

    ranks_on: Mapping[str, int]
    accused: set[str]
    advised: set[str]
    gpus_per_node: int

    def evicted(self, title: str, nodes: Iterable[str], coverage: float | None = None) -> Eviction:
        names = tuple(dict.fromkeys(nodes))
        return Eviction(
            title=title,
            nodes=names,
            ranks=sum(self.ranks_on.get(name, 0) for name in names),
            gpus=len(names) * self.gpus_per_node,
            healthy=len(set(names) - self.accused),
            coverage=coverage,
            is_advised=bool(names) and set(names) == self.advised,
        )


def _of_groups(
    candidates: Sequence[Mapping[str, Any]], node_of: Mapping[int, str], machines: _Machines
) -> list[Eviction]:
    """One row for each candidate of the stacks whose groups the report names in full."""
    rows = []
    for candidate in candidates[:MAX_CANDIDATES]:
        groups = list(candidate.get("groups") or [])
        ranks = list(itertools.chain.from_iterable(map(unfold, groups)))
        if len(ranks) < int(candidate.get("ranks") or 0):  # the report names only the first groups of a long union
            continue
        kind = str(candidate.get("kind") or "").upper()
        title = f"{kind} group {groups[0]}" if len(groups) == 1 else f"{len(groups)} {kind} groups"
        nodes = [node_of[rank] for rank in ranks if rank in node_of]
        rows.append(machines.evicted(title, nodes, candidate.get("coverage")))
    return rows
