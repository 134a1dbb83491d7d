"""Which cluster a job belongs to. The form, the API, collectors and health monitors all ask here."""

from __future__ import annotations

from typing import Any

from ingest import selectors
from ingest.models import DEMONSTRATION, Cluster, Team
from ingest.refusals import Refused

#: it is made when it is first needed, and open to everybody unless teams are added to it
DEFAULT_CLUSTER = "default"
_MAX_NAMES = 10


def cluster_choose(*, user: Any, name: str = "", team: Team | None = None) -> Cluster:
    """The cluster with this name; without one, the only cluster of the team, or of all teams of the person.

    Only who has no team gets the default cluster, which is open to everybody: nobody's evidence is shown to other teams
    because a name was left out. ``user`` None: the site itself, which may use all. At most four queries.

    Raises :class:`Refused` (422) with the clusters to choose from.
    """
    visible = Cluster.objects.all() if user is None else selectors.clusters_visible_to(user)
    usable = visible.exclude(slug=DEMONSTRATION)
    if name:
        if (cluster := usable.filter(slug=name).first()) is not None:
            return cluster
        if name == DEFAULT_CLUSTER and not Cluster.objects.filter(slug=name).exists():
            return _default_cluster()
        raise _refusal(f"There is no cluster “{name[:64]}” that you may use", usable)
    teams = Team.objects.filter(pk=team.pk) if team else Team.objects.filter(members=user)
    if user is None or not teams.exists():
        cluster = _default_cluster()
        if not usable.filter(pk=cluster.pk).exists():
            raise _refusal("The default cluster belongs to other teams", usable)
        return cluster
    own = list(usable.filter(teams__in=teams.values("pk")).distinct()[:2])
    if len(own) == 1:
        return own[0]
    whose = f"The team {team.slug} has" if team else "Your teams have"
    raise _refusal(f"{whose} {'several clusters' if own else 'no cluster of their own'}", usable)


def _default_cluster() -> Cluster:
    return Cluster.objects.get_or_create(slug=DEFAULT_CLUSTER, defaults={"title": "Default"})[0]


def _refusal(problem: str, usable: Any) -> Refused:
    """The problem with the names to choose from."""
    names = list(usable.order_by("slug").values_list("slug", flat=True)[: _MAX_NAMES + 1])
    shown = ", ".join(names[:_MAX_NAMES]) + (" …" if len(names) > _MAX_NAMES else "")
    todo = f"name one of {shown}" if names else "ask an administrator for one"
    sentence = f"{problem}: {todo}."
    return Refused(sentence, code="invalid", fields={"cluster": sentence})
