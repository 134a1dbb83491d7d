"""How often each machine was accused, and what that cost: summed once an hour, then kept by change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q, QuerySet, Sum

from ingest.models import Node
from triage.metrics import LEMON_DAYS
from triage.models import Activity, Decision, Incident, Suspect
from triage.selectors.access import visible_cluster_ids
from triage.selectors.memory import acts_since, newest_acts, updated_result
from triage.selectors.sums import may_change_many


class Tally(NamedTuple):
    """The accusations of one machine, without those that a person rejected (the incident's verdict
    or this suspect).
    """

    accusations: int = 0
    recent: int = 0
    recent_confirmed: int = 0
    recent_imported: int = 0
    #: the sum of the probabilities of those that nobody judged
    recent_unreviewed: float | None = None
    #: of diagnosed incidents in which it was the only accused: how many of them people confirmed,
    #: and the sum of the other probabilities
    alone_confirmed: int = 0
    alone_unreviewed: float | None = None
    confirmed: int = 0
    gpu_hours: float | None = None
    last_at: datetime | None = None


NO_ACCUSATIONS = Tally()
type Tallies = dict[int, Tally]


@dataclass(slots=True)
class _Kept:
    """The tallies of all machines that a person may see. ``since``: from when on an accusation is
    recent; ``acts``: ids of the counted acts, as far back as a late one may still commit.
    """

    since: datetime
    tallies: Tallies
    acts: set[int] = field(default_factory=set)


def fleet_tallies(user: Any, now: datetime) -> Tallies:
    """The tallies of all accused machines that the user may see.

    All are summed once an hour; then one query of new acts, and one of the machines in the jobs
    that these are about.
    """
    kept = updated_result(
        "fleet tallies",
        user=user,
        parts=(),
        now=now,
        renew=lambda former: _renewed(user, former, now),
    )
    return kept.tallies


def _renewed(user: Any, former: _Kept | None, now: datetime) -> _Kept:
    """What is true now; ``former`` itself if nothing changed. A diagnosis may change the costs of
    all incidents of its job.
    """
    acts = Activity.objects.all()
    if former is None:
        return _sum_all(user, now, newest_acts(acts))
    columns = ("kind", "job", "incident", "incident__week", "data__former_nodes")
    fresh, known = acts_since(acts, former.acts, columns)
    if not fresh:
        return former
    if any(may_change_many(kind, job, week) for kind, job, _, week, _ in fresh):
        return _sum_all(user, now, known)
    jobs = {job for kind, job, *_ in fresh if kind == "diagnosed"}
    incidents = {incident for _, _, incident, *_ in fresh if incident}
    changed = set(chain.from_iterable(nodes for *_, nodes in fresh if nodes))
    # two queries: the database walks all rows to answer both at once
    changed |= _accused_in(incident__in=incidents) | _accused_in(incident__job__in=jobs)
    visible = _visible_nodes(user).filter(pk__in=changed).values("pk")
    others = {node: tally for node, tally in former.tallies.items() if node not in changed}
    return _Kept(former.since, others | tallies_of(visible, former.since), known)


def _accused_in(**incidents: Any) -> set[int]:
    accused = Suspect.objects.filter(is_accused=True, node__isnull=False, **incidents)
    return set(accused.order_by().values_list("node", flat=True))


def _sum_all(user: Any, now: datetime, acts: set[int]) -> _Kept:
    since = now - timedelta(days=LEMON_DAYS)
    return _Kept(since, tallies_of(_visible_nodes(user).order_by().values("pk"), since), acts)


def _visible_nodes(user: Any) -> QuerySet[Node]:
    return Node.objects.filter(cluster__in=visible_cluster_ids(user))


def valid_accusations(nodes: Any) -> QuerySet[Suspect]:
    """Accusations of ``nodes`` (ids, or a query of them) in incidents that were neither withdrawn
    nor rejected, unordered; the same evidence accuses once.
    """
    accused = Suspect.objects.filter(is_accused=True, node__in=nodes, incident__is_withdrawn=False)
    standing = accused.exclude(word__in=Suspect.CLEARED).filter(incident__duplicate_of=None)
    return standing.exclude(incident__state=Incident.State.REJECTED).order_by()


def tallies_of(nodes: Any, since: datetime) -> Tallies:
    """The tally of each accused machine among ``nodes`` (ids, or a query of them). One query."""
    is_recent = Q(incident__happened_at__gte=since)
    # of this machine: a decision on the category is none on it
    is_confirmed = Q(word=Decision.Word.CONFIRM)
    is_diagnosed = Q(incident__is_imported=False)
    is_alone = Q(incident__accused__1__isnull=True)
    rows = (
        valid_accusations(nodes)
        .values_list("node")
        .annotate(
            accusations=Count("pk"),
            recent=Count("pk", filter=is_recent),
            recent_confirmed=Count("pk", filter=is_recent & is_confirmed),
            recent_imported=Count("pk", filter=is_recent & ~is_confirmed & ~is_diagnosed),
            recent_unreviewed=Sum("score", filter=is_recent & ~is_confirmed & is_diagnosed),
            alone_confirmed=Count("pk", filter=is_recent & is_confirmed & is_diagnosed & is_alone),
            alone_unreviewed=Sum("score", filter=is_recent & ~is_confirmed & is_diagnosed & is_alone),
            confirmed=Count("pk", filter=is_confirmed),
            gpu_hours=Sum("incident__gpu_hours"),
            last_at=Max("incident__happened_at"),
        )
    )
    return {row[0]: Tally(*row[1:]) for row in rows}
