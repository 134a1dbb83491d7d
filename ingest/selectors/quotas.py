"""How much evidence the jobs of a team hold, and how much they may.

A file counts with its own bytes in each job that has it, and an upload with what has arrived. Counted a few times a
minute at most: several uploads at once may pass a quota by what they bring meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.core.cache import cache
from django.db.models import Sum

from ingest.models import Artifact, Job, Team, Upload

_COUNTED_S: Final = 20
_ARRIVING: Final = (Upload.State.RECEIVING, Upload.State.RECEIVED)


class Quota(NamedTuple):
    """What the jobs of the team with this name hold and may hold, in bytes."""

    team: str
    held: int
    most: int


def quota_of(job_id: int) -> Quota | None:
    """The quota of the job's team; None if it has no team, or that has no quota."""

    def read() -> tuple[int, str, int] | tuple[()]:
        team = Team.objects.filter(jobs=job_id).first()
        return (team.pk, str(team), _most(team)) if team is not None and _most(team) else ()

    known = _remembered(f"quota:job:{job_id}", read)
    return Quota(known[1], _held(known[0]), known[2]) if known else None


def quotas_of(teams: Iterable[Team]) -> list[Quota]:
    """The quotas of those of these teams that have one."""
    return [Quota(str(team), _held(team.pk), _most(team)) for team in teams if _most(team)]


def _most(team: Team) -> int:
    return settings.TEAM_MAX_BYTES if team.max_bytes is None else team.max_bytes


def _held(team_id: int) -> int:
    return int(_remembered(f"quota:team:{team_id}", lambda: _counted(team_id)))


def _counted(team_id: int) -> int:
    jobs = Job.objects.filter(team=team_id).order_by().values("pk")
    files = Artifact.objects.filter(attempt__job__in=jobs, is_superseded=False).exclude(state=Artifact.State.REMOVED)
    coming = Upload.objects.filter(job__in=jobs, state__in=_ARRIVING)
    sums = files.aggregate(n=Sum("blob__size_bytes")), coming.aggregate(n=Sum("offset_bytes"))
    return sum(row["n"] or 0 for row in sums)


def _remembered(key: str, read: Callable[[], Any]) -> Any:
    """What was read within the last seconds. Without a cache it is read again."""
    with contextlib.suppress(Exception):  # any error of the cache's client
        if (known := cache.get(key)) is not None:
            return known
    found = read()
    with contextlib.suppress(Exception):
        cache.set(key, found, _COUNTED_S)
    return found
