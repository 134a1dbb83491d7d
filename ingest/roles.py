"""What a signed-in person may do. Roles are Django groups; this is the only table of their abilities."""

from __future__ import annotations

from typing import Any

#: a viewer reads what their teams may see; so do all other roles
ABILITIES: dict[str, frozenset[str]] = {
    "viewer": frozenset(),
    "engineer": frozenset({"upload", "review", "statistics"}),
    "manager": frozenset({"review", "statistics", "export", "routes", "demonstration", "move", "organise"}),
    "admin": frozenset(
        {"upload", "review", "statistics", "export", "routes", "demonstration", "move", "organise", "administer"}
    ),
}

#: scope of a token -> the ability that its user needs, too
ABILITY_OF_SCOPE = {"upload": "upload", "review": "review", "manage": "routes", "administer": "administer"}

#: scope of a token -> what it allows, for the person who chooses it
SCOPE_ALLOWS = {
    "upload": "send evidence",
    "read": "read jobs, incidents and logs",
    "review": "decide on incidents, comment and assign",
    "manage": "make and change routes",
    "administer": "make people, teams, clusters, service accounts and tokens",
}


def role_names(user: Any) -> frozenset[str]:
    """The names of the user's roles; a superuser is an admin. One query per user object, which then caches them."""
    if not user.is_authenticated:
        return frozenset()
    names: frozenset[str] | None = getattr(user, "_role_names", None)
    if names is None:
        names = frozenset(user.groups.values_list("name", flat=True)) & ABILITIES.keys()
        if user.is_superuser:
            names |= {"admin"}
        user._role_names = names
    return names


def can(user: Any, ability: str) -> bool:
    """Whether one of the user's roles has this ability."""
    return any(ability in ABILITIES[name] for name in role_names(user))
