"""Makes people, teams, clusters, service accounts, tokens and routes as a set-up wants them. A second time changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import UNSET, UnsetType

from ingest.models import Cluster, ServiceAccount, Team, Token
from ingest.refusals import Refused
from ingest.roles import ABILITIES, can
from ingest.services import token_create, token_revoke
from ingest.services.accounts import account_close, account_create
from triage.destinations import ALL
from triage.domain.wanted_setup import (
    WantedCluster,
    WantedPerson,
    WantedRoute,
    WantedService,
    WantedSetup,
    WantedTeam,
    WantedToken,
    given_fields,
)
from triage.models import Activity, Route
from triage.services import outbound
from triage.services.initial_passwords import initial_password_make, initial_password_of
from triage.services.routes import route_change, route_save

type Kind = Literal["cluster", "team", "person", "service", "token", "route"]
#: what a repeated set-up of a route writes although nothing changes
_NOT_COMPARED = {"resume_at"}


@dataclass(frozen=True, slots=True)
class Ensured:
    """What became of one entry. ``secret`` is a password, token or signing secret that was made now; it is stored
    nowhere in this form.
    """

    kind: Kind
    name: str
    is_new: bool = False
    #: names of the fields that were changed; empty if all was so before
    changes: tuple[str, ...] = ()
    secret: str = ""
    #: what does not work yet, in a sentence
    note: str = ""

    @property
    def state(self) -> str:
        return "created" if self.is_new else "changed" if self.changes else "unchanged"


@transaction.atomic
def setup_ensure(*, setup: WantedSetup, by: Any = None) -> list[Ensured]:
    """Make everything as it is wanted, or nothing. Results are in the order of kinds, then of the document.

    Raises:
        Refused: with the sentence of the first entry that cannot be.
    """
    found = [_cluster(wanted) for wanted in setup.clusters]
    found += [_team(wanted) for wanted in setup.teams]
    found += [_person(wanted, by) for wanted in setup.people]
    found += [_service(wanted, by) for wanted in setup.services]
    found += [_token(wanted) for wanted in setup.tokens]
    found += [_route(wanted) for wanted in setup.routes]
    done = [
        f"{one.kind} {one.name}: {', '.join(one.changes) or one.state}" for one in found if one.state != "unchanged"
    ]
    if done:
        Activity.objects.create(kind="set_up", actor=by, data={"subject": f"{len(done)} accounts", "done": done})
    return found


def _cluster(wanted: WantedCluster) -> Ensured:
    row, is_new = Cluster.objects.get_or_create(slug=wanted.slug)
    changes = _change(row, given_fields(wanted, "title", "gpus_per_node", "shares_history"))
    return Ensured("cluster", wanted.slug, is_new, tuple(changes))


def _team(wanted: WantedTeam) -> Ensured:
    row, is_new = Team.objects.get_or_create(slug=wanted.slug)
    changes = _change(row, given_fields(wanted, "title", "max_bytes"))
    if wanted.clusters is not UNSET:
        clusters = _rows(Cluster, wanted.clusters, f"team {wanted.slug}")
        changes += _replace(row.clusters, clusters, "clusters")
    return Ensured("team", wanted.slug, is_new, tuple(changes))


def _person(wanted: WantedPerson, by: Any) -> Ensured:
    where = f"person {wanted.username}"
    person = get_user_model().objects.filter(username=wanted.username).first()
    if person is not None and ServiceAccount.objects.filter(user=person).exists():
        raise _refusal(where, "this is a service account: choose another name")
    made = ""
    is_new = person is None
    if person is None:
        person = get_user_model()(username=wanted.username)
        made = _password_set(person, wanted.password, where)
    elif (former := initial_password_of(person)) is not None and former.is_expired:
        made = initial_password_make(person=person)
    fields = given_fields(wanted, "email", "is_active")
    if wanted.roles is not UNSET:
        is_admin = "admin" in wanted.roles
        fields |= {"is_staff": is_admin, "is_superuser": is_admin}
    if by is not None and by.pk == person.pk and False in (fields.get("is_active"), fields.get("is_superuser")):
        raise _refusal(where, "this is you: let another administrator take your role or disable you")
    changes = ["password"] if made else []
    changes += _change(person, fields)
    changes += _membership(person, wanted.roles, wanted.teams, where)
    return Ensured("person", wanted.username, is_new, tuple(changes), made)


def _password_set(person: Any, given: str | UnsetType, where: str) -> str:
    """Set the given password, or a random one, which is returned; saves the person."""
    if isinstance(given, UnsetType):
        return initial_password_make(person=person)
    try:
        validate_password(given, person)
    except ValidationError as error:
        raise _refusal(where, " ".join(error.messages).rstrip(".")) from None
    person.set_password(given)
    person.save()
    return ""


def _service(wanted: WantedService, by: Any) -> Ensured:
    where = f"service {wanted.name}"
    account = ServiceAccount.objects.select_related("user").filter(user__username=wanted.name).first()
    is_new = account is None
    if account is None:
        account = account_create(by=by, name=wanted.name, role=wanted.role)
    changes = _change(account, given_fields(wanted, "purpose"))
    changes += _membership(account.user, [wanted.role], wanted.teams, where)
    if wanted.is_active is False and account.user.is_active:
        account_close(account=account)
        changes.append("is_active")
    elif wanted.is_active is True:
        changes += _change(account.user, {"is_active": True})
    return Ensured("service", wanted.name, is_new, tuple(changes))


def _token(wanted: WantedToken) -> Ensured:
    where = f"token {wanted.name} of {wanted.user}"
    user = _user(wanted.user, where)
    is_valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    valid = list(Token.objects.filter(is_valid, user=user, name=wanted.name, revoked_at=None))
    digest = Token.digest_of(wanted.secret) if isinstance(wanted.secret, str) else ""
    kept = None if wanted.is_revoked else next((one for one in valid if not digest or one.digest == digest), None)
    is_to_replace = wanted.is_revoked or bool(digest)  # a person's second token of this name stays
    others = [one for one in valid if one != kept] if is_to_replace else []
    for other in others:
        token_revoke(token=other)
    name = f"{wanted.user}/{wanted.name}"
    if wanted.is_revoked:
        return Ensured("token", name, changes=("is_revoked",) if others else ())
    if kept is not None:
        changes = _change(kept, {"scopes": sorted(set(wanted.scopes))})
        return Ensured("token", name, changes=(*changes, *(["others revoked"] if others else [])))
    days = wanted.days if isinstance(wanted.days, int) else None
    given = wanted.secret if isinstance(wanted.secret, str) else ""
    try:
        _, secret = token_create(user=user, name=wanted.name, scopes=wanted.scopes, days=days, secret=given)
    except Refused as refusal:
        raise _refusal(where, refusal.detail.rstrip(".")) from refusal
    return Ensured("token", name, is_new=True, secret="" if given else secret)


def _route(wanted: WantedRoute) -> Ensured:
    where = f"route {wanted.name} of {wanted.owner}"
    owner = _user(wanted.owner, where)
    if not can(owner, "routes"):
        raise _refusal(where, "the owner's role has no routes: give the role manager or admin")
    given = given_fields(wanted, "kind", "url", "secret", "options", "events", "query", "is_active")
    if isinstance(wanted.inbound_secret, str):
        given["options"] = {**given.get("options", {}), "inbound_secret": wanted.inbound_secret}
    if isinstance(wanted.team, str):
        given["team"] = _rows(Team, [wanted.team], where)[0]
    same = list(Route.objects.filter(owner=owner, name=wanted.name)[:2])
    if len(same) > 1:
        raise _refusal(where, "there are several of this name: rename or delete all but one")
    name = f"{wanted.owner}/{wanted.name}"
    note = _host_note(given["url"]) if given.get("url") else ""
    try:
        if same:
            return Ensured("route", name, changes=tuple(_route_changes(same[0], owner, given)), note=note)
        made = route_save(by=owner, is_host_free=True, **{"name": wanted.name, **given})
    except Refused as refusal:
        raise _refusal(where, refusal.detail.rstrip(".")) from refusal
    secret = made.opened("secret") if ALL[made.kind].makes_secret else ""
    return Ensured("route", name, is_new=True, secret=secret, note=note)


def _host_note(url: Any) -> str:
    """A set-up is often made before the names of its network: a host that nobody knows yet is told, not refused."""
    try:
        outbound.target_of(str(url))
    except outbound.UnknownHost as error:
        return f"{error} Messages are sent as soon as it is."
    except outbound.ForbiddenAddress:  # the route is refused
        pass
    return ""


def _route_changes(route: Route, owner: Any, given: dict[str, Any]) -> list[str]:
    """Change a route; returns the names of the columns that differ now."""
    before = _columns(route)
    mark = transaction.savepoint_create()
    after = _columns(route_change(route=route, by=owner, given=given, is_host_free=True))
    changes = [name for name, value in after.items() if value != before[name]]
    if not changes:  # then there is no row in the log, and a wait for the receiver does not end
        transaction.savepoint_rollback(mark)
    return changes


def _columns(route: Route) -> dict[str, Any]:
    return {
        field.name: getattr(route, field.attname)
        for field in route._meta.concrete_fields
        if field.name not in _NOT_COMPARED
    }


def _user(username: str, where: str) -> Any:
    found = get_user_model().objects.filter(username=username).first()
    if found is None:
        raise _refusal(where, f"there is no user {username}: add it to people or services")
    return found


def _rows[Row: (Cluster, Team)](model: type[Row], slugs: Iterable[str], where: str) -> list[Row]:
    wanted = set(slugs)
    found = list(model._default_manager.filter(slug__in=wanted))
    missing = sorted(wanted - {row.slug for row in found})
    if missing:
        kind = model._meta.verbose_name
        raise _refusal(where, f"there is no {kind} {missing[0]}: add it to {kind}s")
    return found


def _membership(
    person: Any, roles: Iterable[str] | UnsetType, teams: Iterable[str] | UnsetType, where: str
) -> list[str]:
    """Give a person exactly these roles and teams; returns what changed."""
    changes: list[str] = []
    if not isinstance(roles, UnsetType):
        kept = person.groups.exclude(name__in=ABILITIES)
        wanted = [Group.objects.get_or_create(name=role)[0] for role in set(roles)]
        changes += _replace(person.groups, [*kept, *wanted], "roles")
    if not isinstance(teams, UnsetType):
        changes += _replace(person.teams, _rows(Team, teams, where), "teams")
    return changes


def _change(row: models.Model, fields: dict[str, Any]) -> list[str]:
    """Set these columns if they differ; returns the names of those that did."""
    changes = [name for name, value in fields.items() if getattr(row, name) != value]
    for name in changes:
        setattr(row, name, fields[name])
    if changes:
        row.save(update_fields=changes)
    return changes


def _replace(related: Any, rows: list[Any], name: str) -> list[str]:
    """Make these the related rows; returns the name if others were related."""
    if {row.pk for row in related.all()} == {row.pk for row in rows}:
        return []
    related.set(rows)
    return [name]


def _refusal(where: str, said: str) -> Refused:
    return Refused(f"{where}: {said}.", code="invalid", fields={where: said})
