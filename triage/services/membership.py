"""Maps the groups of a sign-in provider to roles and teams, at each sign-in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from ingest.models import Team
from ingest.roles import ABILITIES
from triage.models import Activity


def roles_for(groups: Iterable[str], *, roles: Mapping[str, set[str]], default: str) -> set[str]:
    """The roles of these groups; the default role if they have none; empty without a default."""
    group_set = set(groups)
    granted = {role for role, role_groups in roles.items() if role_groups & group_set}
    return granted or ({default} if default in ABILITIES else set())


@transaction.atomic
def membership_sync(
    *, user: Any, groups: Iterable[str], roles: Mapping[str, set[str]], teams: Mapping[str, set[str]], default: str
) -> None:
    """Give the user the roles and teams of these groups, and remove the other roles and teams of the mapping.

    Without a mapping of roles, only a person without any role gets one: administrators decide then. Teams outside the
    mapping do not change; missing teams of the mapping are created.
    """
    group_set = set(groups)
    before = _membership(user)
    current = set(user.groups.values_list("name", flat=True)) & ABILITIES.keys()
    wanted = roles_for(group_set, roles=roles, default=default) if roles or not current else current
    user.groups.remove(*Group.objects.filter(name__in=current - wanted))
    user.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in wanted - current))
    for slug, team_groups in teams.items():
        if team_groups & group_set:
            Team.objects.get_or_create(slug=slug)[0].members.add(user)
        else:
            user.teams.remove(*Team.objects.filter(slug=slug))
    after = _membership(user)
    if after != before:
        Activity.objects.create(
            kind="membership", actor=user, data={"subject": user.get_username(), "before": before, "after": after}
        )


def _membership(user: Any) -> dict[str, list[str]]:
    return {
        "roles": sorted(user.groups.values_list("name", flat=True)),
        "teams": sorted(user.teams.values_list("slug", flat=True)),
    }
