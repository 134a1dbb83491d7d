"""One incident: its page, and people's decisions on it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from diagnosis.model import STAGES
from ingest.parameters import whole
from triage import search
from triage.domain.standing import LATER_STATES
from triage.export import markdown
from triage.models import Decision, Incident
from triage.selectors.advice import advice_view
from triage.selectors.assignees import MAX_PEOPLE, assignees_of
from triage.selectors.demonstration import notice_of_job
from triage.selectors.grouping import grouping_of
from triage.selectors.incident import frequent_categories, incident_view
from triage.selectors.incidents import incidents_visible_to, queue_incidents
from triage.selectors.neighbours import neighbour_in_list, neighbour_in_queue
from triage.services import reviewing, summarising
from triage.services.grouping import incidents_merge, incidents_split
from triage.services.reviewing import ReviewError
from triage.share_picture import card_of, draw
from triage.views.common import ability_required, back, complain, demonstration, incident_or_404, say

_LATER_ACTS = (("actioned", "Action taken"), ("resolved", "Resolved"))
#: the incidents left are counted up to here
MAX_LEFT = 100
#: what a rejection means most often, to be said in one click
_REJECTION_REASONS = (
    "A consequence, not the cause",
    "Another category",
    "Nothing failed",
    "A planned stop or a test",
)
_DECISION_VERBS = {
    "confirm": "Confirmed",
    "correct": "Corrected",
    "reject": "Rejected",
    "inconclusive": "Judged inconclusive:",
}


@require_GET
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """What failed, where, and do I agree?"""
    found = incident_or_404(request, number)
    view: Any = SimpleLazyObject(lambda: incident_view(request.user, found))
    job, within = found.job, _list_parameters(request)
    context = {
        "nav": "incidents",
        "incident": found,
        "piece": ("incident", number, found.assignee_id == request.user.pk, job.name, str(job.team), str(job.cluster)),
        "view": view,
        "ladder": SimpleLazyObject(lambda: advice_view(found, view.report, view.activities, view.decisions)),
        "stages": STAGES,
        "frequent": SimpleLazyObject(lambda: frequent_categories(request.user, job.cluster.slug)),
        "acts": _acts(found),
        "rejection_reasons": _REJECTION_REASONS,
        "acts_stay": True,
        "q": within.get("q", ""),
        **demonstration(request, notice_of_job(job)),
        "kept": f"?{urlencode(within)}" if within else "",
        "is_asleep": found.snoozed_until is not None and found.snoozed_until > timezone.now(),
    }
    context["shown_at"] = timezone.now().timestamp()
    context["has_summaries"] = summarising.is_on()
    return render(request, "triage/incident.html", context)


def _acts(found: Incident) -> list[tuple[str, str]]:
    """The acts that the incident's state allows, with their menu labels."""
    acts = []
    if found.state != Incident.State.AWAITING_REVIEW:
        acts = [(name, words) for name, words in _LATER_ACTS if name != found.state]
    if found.state in LATER_STATES:
        acts.append(("reopened", "Reopen"))
    return [*acts, ("woken", "Wake")] if found.snoozed_until else acts


def _list_parameters(request: HttpRequest) -> dict[str, str]:
    """The search and order of the list in the address; empty for the queue."""
    return {name: request.GET[name] for name in ("q", "sort") if name in request.GET} if "q" in request.GET else {}


@require_GET
def neighbour(request: HttpRequest, number: int, *, is_next: bool) -> HttpResponse:
    """Redirect to the next (or previous) incident of the queue, or of the list in the address."""
    found, within = incident_or_404(request, number), _list_parameters(request)
    if within:
        try:
            query = search.parse(within["q"])
        except search.SearchError as error:
            raise BadRequest(str(error)) from error
        sort = within.get("sort", "")
        to = neighbour_in_list(request.user, found, query, sort=sort, is_next=is_next)
    else:
        to = neighbour_in_queue(request.user, found, is_next=is_next, now=timezone.now())
    kept = f"?{urlencode(within)}" if within else ""
    if to is not None:
        return redirect(reverse("incident", args=[to]) + kept)
    where = "list" if within else "queue"
    if is_next:
        say(request, f"#{number} was the last of this {where}.")
        return redirect(reverse("incidents") + kept if within else "queue")
    say(request, f"#{number} is the first of this {where}.")
    return redirect(reverse("incident", args=[number]) + kept)


@require_GET
def grouping(request: HttpRequest, number: int) -> HttpResponse:
    """Why it is in a group or alone: a fragment of its page."""
    found = incident_or_404(request, number)
    context = {"incident": found, "grouping": grouping_of(request.user, found)}
    return render(request, "triage/incident/grouping.html", context)


@require_GET
def incident_markdown(request: HttpRequest, number: int) -> HttpResponse:
    """The incident as Markdown, for a ticket or a chat."""
    view = incident_view(request.user, incident_or_404(request, number))
    base = f"{request.scheme}://{request.get_host()}"
    return HttpResponse(markdown(view, base), content_type="text/markdown; charset=utf-8")


@require_GET
def incident_picture(request: HttpRequest, number: int) -> HttpResponse:
    """The incident as a picture, for a chat or ticket: as people left it."""
    found = incident_or_404(request, number)
    view = incident_view(request.user, found)
    advice = advice_view(found, view.report, view.activities, view.decisions).advice
    url = request.build_absolute_uri(reverse("incident", args=[number]))
    card = card_of(found, view.strip, accused=view.standing_accused, advice=advice, url=url)
    return HttpResponse(draw(card), content_type="image/png")


@require_POST
@ability_required("review")
def decide(request: HttpRequest, number: int) -> HttpResponse:
    """Confirm, correct or reject one claim; with ``suspect`` confirm the category and that suspect."""
    found = incident_or_404(request, number)
    request_id = uuid.uuid4()
    claim, subject, suspect = (request.POST.get(name, "") for name in ("claim", "subject", "suspect"))
    arguments: dict[str, Any] = {"incident": found, "by": request.user, "request_id": request_id}
    arguments["reason"] = request.POST.get("reason", "")
    arguments["seen"] = whole(request.POST["seen"]) if "seen" in request.POST else None
    try:
        if suspect:
            decision = reviewing.incident_confirm(suspect=suspect, **arguments)
        else:
            arguments |= {name: request.POST.get(name, "") for name in ("word", "value")}
            decision = reviewing.decision_make(claim=claim, subject=subject, **arguments)
    except ReviewError as error:
        complain(request, str(error))
        return redirect("incident", number)
    else:
        what = f"suspect {subject}" if claim == Decision.Claim.SUSPECT else f"the {claim}"
        what += f" and suspect {suspect}" if suspect else ""
        if decision.is_repeat:
            say(request, f"You decided this already: {what} of #{number} stays as it is.")
        else:
            left = _left_words(request.user) if claim != Decision.Claim.SUSPECT else ""
            say(request, f"{_DECISION_VERBS[decision.word]} {what} of #{number}.{left}", undo=request_id)
    return _whole_page(request, back(request, reverse("incident", args=[number])))


def _whole_page(request: HttpRequest, to: HttpResponseRedirect) -> HttpResponse:
    """A redirect away from the page of the act: htmx would put that page into a part of it."""
    if "next" in request.POST and request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": to.url})
    return to


def _left_words(user: Any) -> str:
    """How many incidents still await review, for whoever works through the queue."""
    count = queue_incidents(user, timezone.now())[:MAX_LEFT].count()
    if count == 0:
        return " Nothing else awaits review."
    more = f"{count}+" if count == MAX_LEFT else str(count)
    return f" {more} more {'awaits' if count == 1 else 'await'} review."


@require_POST
@ability_required("review")
def decision_undo(request: HttpRequest, number: int, decision: int) -> HttpResponse:
    """Undo one decision of any person; the activity records who undid it."""
    found = incident_or_404(request, number)
    try:
        reviewing.decision_undo(decision=get_object_or_404(Decision, pk=decision, incident=found), by=request.user)
    except ReviewError as error:
        complain(request, str(error))
    else:
        say(request, "Undone.")
    return back(request, reverse("incident", args=[number]))


@require_POST
@ability_required("review")
def act(request: HttpRequest, number: int) -> HttpResponse:
    """Actioned, resolved, reopened, snoozed, woken."""
    found = incident_or_404(request, number)
    name, until = request.POST.get("act", ""), None
    if name == "snoozed":
        hours = whole(request.POST.get("hours"))
        until = timezone.now() + timedelta(hours=hours) if 0 < hours < 9000 else _day(request)
    request_id, reason = uuid.uuid4(), request.POST.get("reason", "")
    try:
        done = reviewing.incident_act(
            incident=found, act=name, by=request.user, reason=reason, until=until, request_id=request_id
        )
    except ReviewError as error:
        complain(request, str(error))
    else:
        say(request, f"#{number} is {name}.", undo=done.repeats or request_id)
    return back(request, reverse("incident", args=[number]))


def _day(request: HttpRequest) -> datetime | None:
    try:
        return datetime.fromisoformat(request.POST.get("until", "")).replace(tzinfo=UTC)
    except ValueError:
        return None


@require_GET
@ability_required("review")
def assignees(request: HttpRequest, number: int) -> HttpResponse:
    """The people who may have it, as a choice: a fragment of its page."""
    found = incident_or_404(request, number)
    people = assignees_of(found)
    if len(people) > MAX_PEOPLE:
        return HttpResponse(status=204)
    return render(request, "triage/incident/assignees.html", {"incident": found, "people": people})


@require_POST
@ability_required("review")
def assign(request: HttpRequest, number: int) -> HttpResponse:
    """Assign it (``assignee`` a name; ``me``; empty: nobody)."""
    found, name = incident_or_404(request, number), request.POST.get("assignee", "")
    users = get_user_model().objects.filter(is_active=True)
    person: Any = request.user if name == "me" else users.filter(username=name).first() if name else None
    request_id = uuid.uuid4()
    try:
        if name and person is None:
            raise reviewing.unknown_person(name)
        done = reviewing.incident_assign(incident=found, assignee=person, by=request.user, request_id=request_id)
    except ReviewError as error:
        complain(request, str(error))
        return back(request, reverse("incident", args=[number]))
    words = f"Assigned to {person.get_username()}." if person else "Nobody is assigned now."
    say(request, words, undo=done.repeats or request_id)
    return back(request, reverse("incident", args=[number]))


@require_POST
@ability_required("review")
def comment(request: HttpRequest, number: int) -> HttpResponse:
    """Add a comment in Markdown."""
    found = incident_or_404(request, number)
    try:
        reviewing.comment_add(incident=found, body=request.POST.get("body", ""), by=request.user)
    except ReviewError as error:
        complain(request, str(error))
    return back(request, reverse("incident", args=[number]) + "#activity")


@require_POST
@ability_required("review")
def group(request: HttpRequest, number: int) -> HttpResponse:
    """Merge with other incidents by their numbers, or split ``id``s (else this one) from the group."""
    found, request_id = incident_or_404(request, number), uuid.uuid4()
    try:
        if request.POST.get("act") == "split":
            chosen = _visible_incidents(request, request.POST.getlist("id")) or [found]
            count = incidents_split(incidents=chosen, by=request.user, request_id=request_id)
            separate = f"#{chosen[0].pk} is" if count == 1 else f"{count} incidents are"
            say(request, f"{separate} separate again; new incidents like it will be too.", undo=request_id)
        else:
            others = _visible_incidents(
                request, request.POST.get("numbers", "").replace("#", " ").replace(",", " ").split()
            )
            others += _visible_incidents(request, request.POST.getlist("id"))
            made = incidents_merge(incidents=[found, *others], by=request.user, request_id=request_id)
            count = incidents_visible_to(request.user).filter(group=made).count()
            say(request, f"Group {made.pk} now holds {count} incidents.", undo=made.repeats or request_id)
    except ReviewError as error:
        complain(request, str(error))
    return back(request, reverse("incident", args=[number]))


def _visible_incidents(request: HttpRequest, numbers: list[str]) -> list[Incident]:
    """The incidents with these numbers that this person may see; ignores anything but numbers."""
    ids = [number for part in numbers if (number := whole(part))]
    return list(incidents_visible_to(request.user).filter(pk__in=ids[:500])) if ids else []
