"""Routes: created and changed by people. Messages are rows, written in the transaction of their event."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Mapping
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.utils import timezone

from ingest.locks import lock_rows
from ingest.models import Team
from ingest.refusals import Refused
from ingest.selectors import teams_of
from triage import search
from triage.destinations import ALL, Destination, Field
from triage.destinations.email import recipients
from triage.models import Activity, Route
from triage.models.route import SEALED
from triage.sealing import SealBroken, seal
from triage.selectors.routes import EVENTS
from triage.services import outbound

PING = "ping"
#: how long the former secret still signs
FORMER_SECRET_KEPT = timedelta(hours=24)
MAX_ROUTES = 100
#: fields of kinds with a column of their own; the rest are options
_COLUMNS = ("url", "secret", "inbound_secret")
#: what a change keeps if it does not name it
_KEPT = ("name", "kind", "events", "query", "quiet_from", "quiet_until", "zone", "team", "is_active")
MAX_RECIPIENTS = 20
#: the sweep sends it again while it is due: old messages need not fill a busy queue
_WAKE_EXPIRES_S = 60


def route_save(
    *,
    by: Any,
    name: str,
    kind: str = "webhook",
    url: str = "",
    secret: str = "",
    options: Mapping[str, str] | None = None,
    events: Iterable[str] | None = None,
    query: str = "",
    quiet_from: time | None = None,
    quiet_until: time | None = None,
    zone: str = "UTC",
    team: Team | None = None,
    is_active: bool = True,
    existing: Route | None = None,
    is_host_free: bool = False,
) -> Route:
    """Create or change a route. An empty secret field keeps the stored one. ``is_host_free``: its host may be one that
    nobody knows yet; each message asks again.

    Raises:
        Refused: with the sentence of the field.
    """
    if kind not in ALL:
        _refuse("kind", f"There is no kind “{kind}”; there are: {', '.join(ALL)}.")
    if existing and existing.kind != kind:
        _refuse("kind", "The kind of a route stays: delete it, and create another.")
    destination = ALL[kind]
    if not name.strip():
        _refuse("name", "Give it a name that says who receives the messages.")
    chosen_events = _events(destination, events)
    _checked_query(query)
    _checked_hours(quiet_from, quiet_until, zone)
    if team is not None and team not in teams_of(by):
        _refuse("team", "You are no member of this team: leave it out, or ask an administrator.")
    if existing is None and Route.objects.filter(owner=by).count() >= MAX_ROUTES:
        _refuse("name", f"You have {MAX_ROUTES} routes: delete one first.")
    route = existing or Route(owner=by, kind=kind, secret=seal(_secret()) if destination.makes_secret else "")
    before = _log_data(route) if existing else None
    _fill(route, destination, {"url": url, "secret": secret, **(options or {})}, is_host_free=is_host_free)
    route.name, route.events, route.query, route.team = name.strip()[:120], chosen_events, query.strip(), team
    route.quiet_from, route.quiet_until, route.zone = quiet_from, quiet_until, zone
    if is_active and not route.is_active:
        route.problem, route.given_up = "", 0
    route.is_active, route.resume_at = is_active, None
    with transaction.atomic():
        route.save()
        _log("route_saved", route, by, before=before, after=_log_data(route))
    return route


def route_change(*, route: Route, by: Any, given: Mapping[str, Any], is_host_free: bool = False) -> Route:
    """Change what is given of a route, as :func:`route_save` names it; the rest stays.

    Raises:
        Refused: with the sentence of the field.
    """
    kept: dict[str, Any] = {name: getattr(route, name) for name in _KEPT}
    url_field = ALL[route.kind].form.get("url")
    if url_field is not None and not url_field.is_secret:  # an empty secret one keeps what is stored
        kept["url"] = _opened_or_empty(route, "url")
    options = {**route.options, **given.get("options", {})}
    return route_save(by=by, existing=route, is_host_free=is_host_free, **{**kept, **given, "options": options})


@transaction.atomic
def route_delete(*, route: Route, by: Any) -> None:
    """Delete a route and its messages; the activity log keeps a record."""
    lock_rows(Route.objects).get(pk=route.pk)  # before its messages: a worker may be about to record some
    _log("route_deleted", route, by, before=_log_data(route))
    route.delete()


@transaction.atomic
def secret_rotate(*, route: Route, by: Any) -> str:
    """Create a new signing secret, which is shown only now. For a day, messages also have the old one's signature."""
    if not ALL[route.kind].makes_secret:
        raise Refused(
            f"The receiver creates the secret of {route.name}: enter the new one in its settings.", code="invalid"
        )
    is_former_usable = bool(_opened_or_empty(route, "secret"))
    route.former_secret = route.secret if is_former_usable else ""
    route.former_until = timezone.now() + FORMER_SECRET_KEPT
    made = _secret()
    route.secret = seal(made)
    route.save(update_fields=["secret", "former_secret", "former_until"])
    _log("route_rotated", route, by)
    return made


def _fill(route: Route, destination: Destination, values: Mapping[str, str], *, is_host_free: bool) -> None:
    """The fields of the kind, checked. An empty secret one keeps what is stored."""
    unknown = [name for name in values if values[name] and name not in destination.form]
    if unknown:
        names = ", ".join(destination.form)
        _refuse(unknown[0], f"{destination.title} has no field “{unknown[0][:40]}”: there are {names}.")
    options = {}
    for name, field in destination.form.items():
        value = str(values.get(name) or "").strip()
        stored = _opened_or_empty(route, name) if name in _COLUMNS else ""
        value = value or (stored if field.is_secret else "") or field.default
        _checked_field(field, value, is_host_free=is_host_free)
        if name not in _COLUMNS:
            options[name] = value
        elif value != stored:  # an equal one keeps its seal
            setattr(route, name, seal(value))
    route.options = options


def _opened_or_empty(route: Route, name: str) -> str:
    """Of what no key opens nothing is kept: whoever saves the route enters it again."""
    try:
        return route.opened(name)
    except SealBroken:
        return ""


def _checked_field(field: Field, value: str, *, is_host_free: bool) -> None:
    if field.is_required and not value:
        _refuse(field.name, f"Fill in “{field.label}”.")
    if len(value) > (2000 if field.name == "url" else 500) or any(ord(letter) < 32 for letter in value):
        _refuse(field.name, f"“{field.label}” is too long, or has control characters.")
    if field.name == "url" and value:
        try:
            outbound.target_of(value)
        except outbound.ForbiddenAddress as error:
            if not (is_host_free and isinstance(error, outbound.UnknownHost)):
                _refuse("url", str(error))
    if field.choices and value not in dict(field.choices):
        _refuse(field.name, f"{field.label} is one of {', '.join(dict(field.choices))}.")
    if field.name == "to":
        addresses = recipients(value)
        if len(addresses) > MAX_RECIPIENTS or not all("@" in address.strip("@") for address in addresses):
            _refuse("to", f"Enter at most {MAX_RECIPIENTS} e-mail addresses, separated by commas.")


def _events(destination: Destination, events: Iterable[str] | None) -> list[str]:
    chosen = sorted(set(destination.events if events is None else events))
    unknown = [event for event in chosen if event not in EVENTS]
    if unknown or not (chosen or destination.is_by_hand):
        problem = f"There is no event “{unknown[0]}”" if unknown else "Choose at least one event"
        _refuse("events", f"{problem}; there are: {', '.join(EVENTS)}.")
    return chosen


def _checked_query(query: str) -> None:
    try:
        search.parse(query)
    except search.SearchError as error:
        _refuse("query", str(error))


def _checked_hours(quiet_from: time | None, quiet_until: time | None, zone: str) -> None:
    if (quiet_from is None) != (quiet_until is None):
        _refuse("quiet_from", "Quiet hours need a beginning and an end; leave both empty for none.")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        _refuse("zone", f"“{zone[:64]}” is no time zone: write it like Europe/Berlin.")


def _secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _log_data(route: Route) -> dict[str, Any]:
    """The route in the activity log, without secrets."""
    names = ("name", "kind", "events", "query", "is_active")
    return {**{name: getattr(route, name) for name in names}, "address": address_shown(route)}


def address_shown(route: Route) -> str:
    """The address for people. Of a secret one the host and the last characters: enough to recognise it."""
    try:
        url = route.opened("url")
    except SealBroken:
        return "an address that cannot be read"
    url_field = ALL[route.kind].form.get("url")
    if url_field is None or not url:
        return str(next(iter(route.options.values()), ""))
    if not url_field.is_secret:
        return " ".join(part for part in (url, route.options.get("project"), route.options.get("channel")) if part)
    host = url.split("/")[2] if url.count("/") > 1 else ""
    return f"{url.split(':')[0]}://{host}/…{url[-4:]}"


def seal_problem(route: Route) -> str:
    """Why the secrets of a route cannot be read, in a sentence; empty: they can."""
    try:
        for name in SEALED:
            route.opened(name)
    except SealBroken as error:
        return str(error)
    return ""


def _log(kind: str, route: Route, by: Any, **data: Any) -> None:
    stored = {key: value for key, value in data.items() if value is not None}
    Activity.objects.create(kind=kind, actor=by, data={"subject": route.name, "route": route.pk, **stored})


def _refuse(field: str, sentence: str) -> None:
    raise Refused(sentence, code="invalid", fields={field: sentence})
