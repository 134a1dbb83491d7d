"""What people, teams, clusters, service accounts, tokens and routes an installation wants (/help/accounts/).

A field that is left out keeps what is stored. A list is the whole list.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert
from msgspec.json import schema

from ingest.refusals import Refused

#: most entries of one kind in one set-up
MAX_ENTRIES = 1000
_MAX_BIGINT = 2**63 - 1

Role = Literal["viewer", "engineer", "manager", "admin"]
ServiceRole = Literal["viewer", "engineer", "manager"]
Scope = Literal["upload", "read", "review", "manage", "administer"]
Slug = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
UserName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9@.+_-]{0,149}$")]
#: text without control characters
_LINE = r"^[^\u0000-\u001f\u007f]*$"
Line = Annotated[str, Meta(pattern=_LINE, max_length=120)]
Name = Annotated[str, Meta(pattern=r"^[^\u0000-\u0020\u007f][^\u0000-\u001f\u007f]*$", max_length=120)]
Purpose = Annotated[str, Meta(pattern=_LINE, max_length=300)]
Secret = Annotated[str, Meta(pattern=_LINE, max_length=500)]
LongLine = Annotated[str, Meta(pattern=_LINE, max_length=2000)]
Email = Annotated[str, Meta(pattern=r"^[^\u0000-\u0020\u007f@]+@[^\u0000-\u0020\u007f@]+$", max_length=254)]
Password = Annotated[str, Meta(pattern=r"^[^\u0000]+$", max_length=500)]
TokenSecret = Annotated[str, Meta(pattern=r"^fl_[A-Za-z0-9_-]{43,200}$")]
Slugs = Annotated[list[Slug], Meta(max_length=MAX_ENTRIES)]


class Entry(Struct, forbid_unknown_fields=True, kw_only=True):
    """One row that must be there."""


class WantedCluster(Entry):
    """A machine park; without a team it is open to everybody."""

    slug: Slug
    title: Line | UnsetType = UNSET
    gpus_per_node: Annotated[int, Meta(ge=1, le=1024)] | UnsetType = UNSET
    shares_history: bool | UnsetType = UNSET


class WantedTeam(Entry):
    """People and service accounts name their teams; a team names its clusters."""

    slug: Slug
    title: Line | UnsetType = UNSET
    clusters: Slugs | UnsetType = UNSET
    #: null: the quota of the installation
    max_bytes: Annotated[int, Meta(ge=0, le=_MAX_BIGINT)] | UnsetType | None = UNSET


class WantedPerson(Entry):
    """Somebody who signs in. The password is for a new person; without one a random password is made."""

    username: UserName
    roles: Annotated[list[Role], Meta(max_length=4)] | UnsetType = UNSET
    teams: Slugs | UnsetType = UNSET
    email: Email | UnsetType = UNSET
    password: Password | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class WantedService(Entry):
    """A service account: the user of a program."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{1,60}$")]
    role: ServiceRole
    teams: Slugs | UnsetType = UNSET
    purpose: Purpose | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class WantedToken(Entry):
    """A valid token of this user with this name. The secret is given, or made and shown once."""

    user: UserName
    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=5)]
    days: Annotated[int, Meta(ge=1, le=3650)] | UnsetType = UNSET
    secret: TokenSecret | UnsetType = UNSET
    is_revoked: bool = False


class WantedRoute(Entry):
    """A route, which its owner and its name identify (/help/integrations/)."""

    owner: UserName
    name: Name
    kind: Annotated[str, Meta(pattern=r"^[a-z_]{1,20}$")] | UnsetType = UNSET
    team: Slug | UnsetType = UNSET
    url: LongLine | UnsetType = UNSET
    secret: Secret | UnsetType = UNSET
    inbound_secret: Secret | UnsetType = UNSET
    options: dict[str, LongLine] | UnsetType = UNSET
    events: Annotated[list[Line], Meta(max_length=50)] | UnsetType = UNSET
    query: LongLine | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class WantedSetup(Entry):
    """All of it, in the order in which it is made."""

    clusters: Annotated[list[WantedCluster], Meta(max_length=MAX_ENTRIES)] = []
    teams: Annotated[list[WantedTeam], Meta(max_length=MAX_ENTRIES)] = []
    people: Annotated[list[WantedPerson], Meta(max_length=MAX_ENTRIES)] = []
    services: Annotated[list[WantedService], Meta(max_length=MAX_ENTRIES)] = []
    tokens: Annotated[list[WantedToken], Meta(max_length=MAX_ENTRIES)] = []
    routes: Annotated[list[WantedRoute], Meta(max_length=MAX_ENTRIES)] = []


def setup_of(document: Any) -> WantedSetup:
    """The set-up that a parsed document states.

    Raises:
        Refused: with the place and what is wrong there; never with the value, which may be a secret.
    """
    try:
        return convert(document, WantedSetup)
    except ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        where = place.rstrip("`").lstrip(".")
        field = where or "document"
        raise Refused(f"{field}: {said}.", code="invalid", fields={field: said}) from None


def given_fields(entry: Entry, *names: str) -> dict[str, Any]:
    """The values of these fields, without those that were left out."""
    values = {name: getattr(entry, name) for name in names}
    return {name: value for name, value in values.items() if value is not UNSET}


def setup_schema() -> dict[str, Any]:
    """The JSON schema of a set-up, with its parts in their places: no component of another schema has their names."""
    whole = schema(WantedSetup)
    parts: dict[str, Any] = whole["$defs"]
    top = dict(parts["WantedSetup"])
    top["properties"] = {name: _part_in_place(said, parts) for name, said in top["properties"].items()}
    return top


def _part_in_place(said: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    name = said["items"]["$ref"].rpartition("/")[2]
    return {**said, "items": parts[name]}
