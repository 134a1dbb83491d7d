"""Routes: created and changed by people. Messages are rows, written in the transaction of their event."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Iterable, Mapping
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ingest import broker
from ingest.models import Job, Team
from ingest.refusals import Refused
from ingest.selectors import teams_of
from triage import search
from triage.destinations import ALL, Address, Destination, Field
from triage.destinations.email import recipients
from triage.destinations.webhook import FORMATS
from triage.domain.route_message import evidence_told
from triage.models import Activity, Delivery, Incident, Reference, Route
from triage.search.kinds import JOB_LOOKUPS
from triage.selectors.routes import EVENTS, active_routes, is_told_of, may_receive
from triage.services import outbound

PING = "ping"
#: how long the former secret still signs
FORMER_KEPT = timedelta(hours=24)
MAX_ROUTES = 100
#: fields of kinds with a column of their own; the rest are options
_COLUMNS = ("url", "secret", "inbound_secret")
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
) -> Route:
    """Create or change a route. An empty secret field keeps the stored one.

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
    wanted = _events(destination, events)
    _checked_query(query)
    _checked_hours(quiet_from, quiet_until, zone)
    if team is not None and team not in teams_of(by):
        _refuse("team", "You are no member of this team: leave it out, or ask an administrator.")
    if existing is None and Route.objects.filter(owner=by).count() >= MAX_ROUTES:
        _refuse("name", f"You have {MAX_ROUTES} routes: delete one first.")
    route = existing or Route(owner=by, kind=kind, secret=_secret() if destination.makes_secret else "")
    before = _told(route) if existing else None
    _fill(route, destination, {"url": url, "secret": secret, **(options or {})})
    route.name, route.events, route.query, route.team = name.strip()[:120], wanted, query.strip(), team
    route.quiet_from, route.quiet_until, route.zone = quiet_from, quiet_until, zone
    if is_active and not route.is_active:
        route.problem, route.given_up = "", 0
    route.is_active, route.resume_at = is_active, None
    with transaction.atomic():
        route.save()
        _log("route_saved", route, by, before=before, after=_told(route))
    return route


@transaction.atomic
def route_delete(*, route: Route, by: Any) -> None:
    """Delete a route and its messages; the activity log keeps a record."""
    _log("route_deleted", route, by, before=_told(route))
    route.delete()


@transaction.atomic
def secret_rotate(*, route: Route, by: Any) -> str:
    """Create a new signing secret, which is shown only now. For a day, messages also have the old one's signature."""
    if not ALL[route.kind].makes_secret:
        raise Refused(
            f"The secret of {route.name} is made elsewhere: enter the new one in its settings.", code="invalid"
        )
    route.former_secret, route.former_until = route.secret, timezone.now() + FORMER_KEPT
    route.secret = _secret()
    route.save(update_fields=["secret", "former_secret", "former_until"])
    _log("route_rotated", route, by)
    return route.secret


def ping(*, route: Route) -> Delivery:
    """A test message, also if the route is switched off; it waits for no other message."""
    body = {"route": route.pk, "name": route.name, "url": link(f"/routes/{route.pk}/")}
    (delivery,) = _keep([route], PING, uuid.uuid4().hex, None, None, body)
    return delivery


@transaction.atomic
def redeliver(*, delivery: Delivery) -> Delivery:
    """Send a message again, under its own id: a receiver that has it recognises it. It waits for no other message."""
    Delivery.objects.filter(pk=delivery.pk).update(
        state=Delivery.State.WAITING, is_in_order=False, tries=0, due_at=timezone.now(), delivered_at=None
    )
    delivery.refresh_from_db()
    transaction.on_commit(routes_wake)
    return delivery


@transaction.atomic
def ticket_request(*, route: Route, incident: Incident, by: Any, data: dict[str, Any]) -> Delivery:
    """Ask for a ticket about the incident there. Raises :class:`Refused` if it has one, or the route may not know."""
    if not ALL[route.kind].is_by_hand or not route.is_active or not may_receive(route, incident.cluster_id):
        raise Refused("This route makes no tickets for this incident: choose another.", code="invalid")
    if is_told_of(route, incident):
        raise Refused("A ticket there was made or requested before.", code="invalid")
    Activity.objects.create(
        incident=incident, job=incident.job, kind="ticketed", actor=by, data={"subject": route.name}
    )
    (delivery,) = _keep([route], "incident.ticket", str(incident.pk), incident.cluster_id, incident, data)
    return delivery


def announce(
    *,
    event: str,
    subject: str,
    job: Job,
    data: dict[str, Any],
    incident: Incident | None = None,
    source: int | None = None,
) -> list[Delivery]:
    """Write the message for every route that wants this event, except the route whose destination said it (its id is
    ``source``). Call it in the transaction of the event.

    The same ``event`` and ``subject`` again is the same message. One query if no route is active; two for each keeper
    of a route that may want it, and one or two for each route that has a search or follows incidents.
    """
    routes = [
        route
        for route in active_routes()
        if route.pk != source
        and _may_want(route, event, incident)
        and may_receive(route, job.cluster_id)
        and _wants(route, event, incident, job)
    ]
    return _keep(routes, event, subject, job.cluster_id, incident, data) if routes else []


def _may_want(route: Route, event: str, incident: Incident | None) -> bool:
    """Whether the event may go this way, without a query: a program, and events of jobs, need the event itself."""
    return event in route.events or (incident is not None and not ALL[route.kind].is_program)


def _wants(route: Route, event: str, incident: Incident | None, job: Job) -> bool:
    """Whether the event goes this way: it is chosen and the search matches, or it follows up an incident sent there.

    A conversation about an incident begins when it first matches, also by a later diagnosis, and hears its end even if
    it does not match any more. One event begins it, not two.
    """
    kind = ALL[route.kind]
    if incident is None:
        return event in route.events and _matches_job(route.query, job)
    if kind.is_program:  # a program gets every event that it chose
        return event in route.events and _matches(route, incident)
    is_known = is_told_of(route, incident)
    if kind.is_by_hand and not is_known and event == "incident.opened" and _joins_ticket(route, incident):
        return True
    if event == "incident.opened" and is_known:
        return False
    if is_known:
        return kind.is_following or event in route.events or event == "incident.withdrawn"
    begins = event in route.events or (event == "incident.updated" and "incident.opened" in route.events)
    return begins and event != "incident.withdrawn" and _matches(route, incident)


def _joins_ticket(route: Route, incident: Incident) -> bool:
    """Whether an earlier incident of the same fingerprint has a ticket there: then that is this incident's, too."""
    same = Q(incident__fingerprint=incident.fingerprint, incident__cluster=incident.cluster_id)
    known = route.references.filter(same).order_by("-pk").first() if incident.fingerprint else None
    if known is None:
        return False
    fields = {name: getattr(known, name) for name in ("data", "url", "title", "state")}
    Reference.objects.get_or_create(route=route, incident=incident, defaults=fields)
    return True


def _matches(route: Route, incident: Incident) -> bool:
    if not route.query:
        return True
    condition = search.parse(route.query).condition(user=route.owner)
    return Incident.objects.filter(condition, pk=incident.pk).exists()


def _matches_job(query: str, job: Job) -> bool:
    """Whether a search that asks for properties of jobs alone matches the job; another never does."""
    parsed = search.parse(query)
    if any(leaf.key not in JOB_LOOKUPS for leaf in parsed.leaves):
        return False
    return not parsed.terms or Job.objects.filter(parsed.job_condition(), pk=job.pk).exists()


def address_of(route: Route, *, now: Any) -> Address:
    """Where the route's messages go, with the secrets that sign now."""
    secrets_now = [route.secret] if route.secret else []
    if route.former_secret and route.former_until and route.former_until > now:
        secrets_now.append(route.former_secret)
    return Address(route.url, tuple(secrets_now), route.options)


def job_payload(job: Job) -> dict[str, Any]:
    """The job in a message."""
    return {"slug": job.slug, "name": job.name, "cluster": job.cluster.slug, "url": link(f"/jobs/{job.slug}/")}


def link(path: str) -> str:
    return settings.SITE_URL.rstrip("/") + path


def routes_wake() -> None:
    """Let a worker send what is due soon. Without a broker it stays due, and a later sweep wakes one."""
    broker.send("triage.tasks.notify_routes", expires=_WAKE_EXPIRES_S)


def _keep(
    routes: list[Route], event: str, subject: str, cluster_id: int | None, incident: Incident | None, data: Any
) -> list[Delivery]:
    now = timezone.now()

    def body_of(told: Any) -> str:
        said = {"type": event, "timestamp": now.isoformat(), "data": told}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))

    body = ticket = body_of(data)
    if incident is not None and any(ALL[route.kind].is_by_hand for route in routes):
        ticket = body_of({**data, "evidence": evidence_told(incident.diagnosis.report)})
    rows = [
        Delivery(
            route=route,
            event=event,
            subject=f"{event} {subject}"[:120],
            cluster_id=cluster_id,
            incident=incident,
            body=ticket if ALL[route.kind].is_by_hand else body,
            is_in_order=event != PING,
            due_at=now,
        )
        for route in routes
    ]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    transaction.on_commit(routes_wake)
    return rows


def _fill(route: Route, destination: Destination, given: Mapping[str, str]) -> None:
    """The fields of the kind, checked. An empty secret one keeps what is stored."""
    unknown = [name for name in given if given[name] and name not in destination.form]
    if unknown:
        _refuse(unknown[0], f"{destination.title} has no field “{unknown[0]}”.")
    options = {}
    for name, one in destination.form.items():
        value = str(given.get(name) or "").strip()
        stored = getattr(route, name) if name in _COLUMNS else ""
        value = value or (stored if one.is_secret else "") or one.default
        _checked_field(one, value)
        if name in _COLUMNS:
            setattr(route, name, value)
        else:
            options[name] = value
    route.options = options


def _checked_field(one: Field, value: str) -> None:
    if one.is_required and not value:
        _refuse(one.name, f"Fill in “{one.label}”.")
    if len(value) > (2000 if one.name == "url" else 500) or any(ord(letter) < 32 for letter in value):
        _refuse(one.name, f"“{one.label}” is too long, or has control characters.")
    if one.name == "url" and value:
        try:
            outbound.target_of(value)
        except outbound.Forbidden as error:
            _refuse("url", str(error))
    if one.name == "format" and value not in FORMATS:
        _refuse("format", f"The format is one of {', '.join(FORMATS)}.")
    if one.name == "to":
        found = recipients(value)
        if len(found) > MAX_RECIPIENTS or not all("@" in each.strip("@") for each in found):
            _refuse("to", f"Enter at most {MAX_RECIPIENTS} e-mail addresses, separated by commas.")


def _events(destination: Destination, events: Iterable[str] | None) -> list[str]:
    wanted = sorted(set(destination.events if events is None else events))
    unknown = [event for event in wanted if event not in EVENTS]
    if unknown or not (wanted or destination.is_by_hand):
        said = f"There is no event “{unknown[0]}”" if unknown else "Choose at least one event"
        _refuse("events", f"{said}; there are: {', '.join(EVENTS)}.")
    return wanted


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


def _told(route: Route) -> dict[str, Any]:
    """The route in the activity log, without secrets."""
    names = ("name", "kind", "events", "query", "is_active")
    return {**{name: getattr(route, name) for name in names}, "address": address_shown(route)}


def address_shown(route: Route) -> str:
    """The address for people. Of a secret one the host and the last characters: enough to recognise it."""
    kind = ALL[route.kind]
    known = kind.form.get("url")
    if known is None or not route.url:
        return str(next(iter(route.options.values()), ""))
    if not known.is_secret:
        return " ".join(one for one in (route.url, route.options.get("project"), route.options.get("channel")) if one)
    host = route.url.split("/")[2] if route.url.count("/") > 1 else ""
    return f"{route.url.split(':')[0]}://{host}/…{route.url[-4:]}"


def _log(kind: str, route: Route, by: Any, **data: Any) -> None:
    kept = {key: value for key, value in data.items() if value is not None}
    Activity.objects.create(kind=kind, actor=by, data={"subject": route.name, "route": route.pk, **kept})


def _refuse(field: str, sentence: str) -> None:
    raise Refused(sentence, code="invalid", fields={field: sentence})
