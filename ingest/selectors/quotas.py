"""How much evidence the jobs of a team hold, and how much they may.

A file counts with its own bytes in each job that has it, and an upload with what has arrived. Counted a few times a
minute at most: several uploads at once may pass a quota by what they bring meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import Sum

from ingest.models import Artifact, Job, Team, Upload
from ingest.selectors.short_memory import cached

_CACHED_S: Final = 20
_ARRIVING_STATES: Final = (Upload.State.RECEIVING, Upload.State.RECEIVED)


class Quota(NamedTuple):
    """What the jobs of the team with this name hold and may hold, in bytes."""

    team: str
    held_bytes: int
    max_bytes: int


def quota_of(job_id: int) -> Quota | None:
    """The quota of the job's team; None if it has no team, or that has no quota."""

    def read() -> tuple[int, str, int] | tuple[()]:
        team = Team.objects.filter(jobs=job_id).first()
        return (team.pk, str(team), _limit_of(team)) if team is not None and _limit_of(team) else ()

    team_row = cached(f"quota:job:{job_id}", read, _CACHED_S)
    return Quota(team_row[1], _cached_size(team_row[0]), team_row[2]) if team_row else None


def quotas_of(teams: Iterable[Team]) -> list[Quota]:
    """The quotas of those of these teams that have one."""
    return [Quota(str(team), _cached_size(team.pk), _limit_of(team)) for team in teams if _limit_of(team)]


def _limit_of(team: Team) -> int:
    return settings.TEAM_MAX_BYTES if team.max_bytes is None else team.max_bytes


def _cached_size(team_id: int) -> int:
    return int(cached(f"quota:team:{team_id}", lambda: _count_bytes(team_id), _CACHED_S))


def _count_bytes(team_id: int) -> int:
    jobs = Job.objects.filter(team=team_id).order_by().values("pk")
    files = Artifact.objects.filter(attempt__job__in=jobs, is_superseded=False).exclude(state=Artifact.State.REMOVED)
    coming = Upload.objects.filter(job__in=jobs, state__in=_ARRIVING_STATES)
    sums = files.aggregate(n=Sum("blob__size_bytes")), coming.aggregate(n=Sum("offset_bytes"))
    return sum(row["n"] or 0 for row in sums)
