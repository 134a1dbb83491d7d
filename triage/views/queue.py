"""The queue, the list of incidents, and bulk acts."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from diagnosis.values.plain import counted
from ingest.models import DEMONSTRATION
from ingest.parameters import whole
from ingest.selectors import people_who_see
from triage import search
from triage.export import CSV_COLUMNS, csv_lines, csv_row
from triage.models import Activity, Incident
from triage.selectors.access import visible_clusters
from triage.selectors.demonstration import notice_of_rows
from triage.selectors.incident import activity_words
from triage.selectors.incidents import QUEUE_SIZE, SORTS, incident_page, incidents_visible_to, queue_sections
from triage.selectors.jobs import jobs_visible_to
from triage.selectors.jumps import jumps, numbered_incident
from triage.selectors.saved_views import saved_view_query, saved_views
from triage.services.grouping import incidents_merge, incidents_split
from triage.services.moving import job_move_undo
from triage.services.reviewing import ReviewError, unknown_person
from triage.services.reviewing_many import incidents_assign, incidents_decide
from triage.services.saved_views import saved_view_create, saved_view_delete
from triage.services.undoing import act_undo, last_act_undo, rows_of_act
from triage.views.common import ability_required, back, complain, demonstration, incident_or_404, say

#: a bulk act on more is refused, to limit mistakes: narrow the search
BULK_LIMIT = 500
#: act → the text of its button
_VERBS = {
    "confirm": "Confirm",
    "reject": "Reject",
    "inconclusive": "Judge inconclusive:",
    "assign": "Assign",
    "merge": "Merge",
    "split": "Split",
}
#: how many a question names; the others are counted
_MAX_NAMED = 12
_DONE_WORDS = {"confirm": "Confirmed", "reject": "Rejected", "inconclusive": "Judged inconclusive:"}


@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """What to look at first."""
    sections = queue_sections(request.user, timezone.now())
    context = {"nav": "queue", "sections": sections, "total": sum(len(rows) for _, rows in sections)}
    context["limit"] = QUEUE_SIZE
    context["is_new"] = SimpleLazyObject(lambda: not jobs_visible_to(request.user).exists())
    context |= _demonstration_notice(request, list(itertools.chain.from_iterable(rows for _, rows in sections)))
    return render(request, "triage/queue.html", context)


def _demonstration_notice(
    request: HttpRequest, rows: Sequence[Incident], query: search.Query | None = None
) -> dict[str, Any]:
    """The notice on the demonstration's incidents among the rows."""
    slugs = visible_clusters(request.user)
    count = sum(slugs.get(row.cluster_id) == DEMONSTRATION for row in rows)
    return demonstration(request, notice_of_rows(request.user, count, query))


@require_GET
def incidents(request: HttpRequest) -> HttpResponse:
    """The list: search, facets, sort, pages; all of it in the URL."""
    text = request.GET.get("q", "").strip()
    if text.startswith("#") and (incident := numbered_incident(request.user, text)):
        return redirect("incident", incident.pk)
    context = _list_context(request)
    return render(request, "triage/incidents.html", context, status=422 if context["problem"] else 200)


def _list_context(request: HttpRequest) -> dict[str, Any]:
    """The context of the list. An invalid search shows no incident, so that nobody acts on the wrong ones."""
    text, problem = _search_text(request)
    context: dict[str, Any] = {"page": None, "hints": [], "words": "", "meant": ""}
    sort = request.GET.get("sort", "newest")
    try:
        query = search.parse(text)
    except search.SearchError as error:
        problem, context["meant"] = str(error), error.meant
    else:
        if not problem:
            is_counted = request.GET.get("count") == "all"
            page = incident_page(
                request.user, query, sort=sort, page=whole(request.GET.get("page"), 1), is_counted=is_counted
            )
            hints = search.hints(query, jobs=jobs_visible_to(request.user), is_empty=not page.incidents)
            context |= {"page": page, "hints": hints, "words": query.words()}
            context["jumps"] = jumps(request.user, query) if page.page == 1 else []
            context |= _demonstration_notice(request, page.incidents, query)
    return {
        **context,
        "nav": "incidents",
        "q": text,
        "problem": problem,
        "sort": sort if sort in SORTS else "newest",
        "within": f"?{urlencode({'q': text, **({'sort': sort} if sort in SORTS and sort != 'newest' else {})})}",
        "sorts": SORTS,
        "saved": saved_views(request.user),
        "keys": search.KEYS,
    }


def _search_text(request: HttpRequest) -> tuple[str, str]:
    """The search in the address, after that of a saved view; and an error of the view, if any."""
    text = request.GET.get("q", "")
    slug = request.GET.get("filter")
    if not slug:
        return text, ""
    view = saved_view_query(request.user, slug)
    problem = "" if view is not None else f"There is no saved view “{slug}” that you may use."
    return f"{view or ''} {text}".strip(), problem


@require_GET
def suggest(request: HttpRequest) -> JsonResponse:
    """Suggestions at the cursor, as JSON for the search box."""
    text = request.GET.get("q", "")
    at = whole(request.GET.get("cursor"), len(text))
    suggestions = search.suggest(text, at, jobs=jobs_visible_to(request.user))
    rows = [{"text": s.text, "explanation": s.explanation, "start": s.start, "end": s.end} for s in suggestions]
    return JsonResponse({"suggestions": rows})


@require_GET
@ability_required("export")
def incidents_csv(request: HttpRequest) -> StreamingHttpResponse:
    """Every incident of the search as CSV, streamed."""
    text, problem = _search_text(request)
    try:
        query = search.parse(text)
    except search.SearchError as error:
        raise BadRequest(str(error)) from error
    if problem:
        raise BadRequest(problem)
    found = query.apply(incidents_visible_to(request.user), user=request.user).order_by("-opened_at", "-id")
    rows = found.select_related("job", "attempt", "cluster", "team", "assignee").iterator(2000)
    response = StreamingHttpResponse(csv_lines(CSV_COLUMNS, map(csv_row, rows)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="incidents.csv"'
    return response


@require_POST
@ability_required("review")
def bulk(request: HttpRequest) -> HttpResponse:
    """One act on the selected incidents, or on all of a search. Acts on several need a confirmation."""
    act = request.POST.get("act", "")
    text = request.POST.get("q", "")
    visible = incidents_visible_to(request.user)
    if request.POST.get("scope") == "query":
        try:
            chosen = search.parse(text).apply(visible, user=request.user)
        except search.SearchError as error:
            raise BadRequest(str(error)) from error
    else:
        chosen = visible.filter(pk__in=[whole(pk) for pk in request.POST.getlist("id")])
    found = list(chosen.select_related("job").order_by("-opened_at")[: BULK_LIMIT + 1])
    fallback = f"{reverse('incidents')}?{urlencode({'q': text})}" if text else reverse("incidents")
    if not found:
        complain(request, "Nothing was chosen: tick at least one incident.")
        return back(request, fallback)
    if len(found) > BULK_LIMIT:
        complain(request, f"That is more than {BULK_LIMIT} incidents: narrow the search first.")
        return back(request, fallback)
    if not act or (len(found) > 1 and request.POST.get("expected") != str(len(found))):
        context = {
            "nav": "incidents",
            "found": found,
            "named": found[:_MAX_NAMED],
            "categories": Counter(row.standing_category for row in found).most_common(),
            "act": act if act in _VERBS else "",
            "verb": _VERBS.get(act, "Act on"),
            "verbs": _VERBS,
            "post": request.POST,
            "cancel": back(request, fallback).url,
            "q": text,
            "users": people_who_see(row.cluster_id for row in found)[:200] if act == "assign" else [],
        }
        return render(request, "triage/bulk.html", context, status=409 if request.POST.get("expected") else 200)
    try:
        return _bulk_done(request, act, found, fallback)
    except ReviewError as error:
        complain(request, str(error))
        return back(request, fallback)


def _bulk_done(request: HttpRequest, act: str, found: list[Incident], fallback: str) -> HttpResponse:
    many = f"{len(found)} incidents" if len(found) > 1 else f"#{found[0].pk}"
    if act in _DONE_WORDS:
        undo, count = incidents_decide(
            incidents=found, word=act, by=request.user, reason=request.POST.get("reason", "")
        )
        rest = f" You had already judged the other {len(found) - count} in this way." if 0 < count < len(found) else ""
        done = f"{count} of {many}" if rest else many
        if count:
            say(request, f"{_DONE_WORDS[act]} {done}.{rest}", undo=undo)
        else:
            say(request, f"You had already judged {many} in this way: nothing changed.")
    elif act == "assign":
        person: Any
        name = request.POST.get("assignee", "")
        person = get_user_model().objects.filter(username=name, is_active=True).first() if name else request.user
        if person is None:
            raise unknown_person(name)
        assigned, _ = incidents_assign(incidents=found, assignee=person, by=request.user)
        if assigned is None:
            say(request, f"{person.get_username()} had {many} before: nothing changed.")
        else:
            say(request, f"Assigned {many} to {person.get_username()}.", undo=assigned)
    elif act == "merge":
        request_id = uuid.uuid4()
        title = request.POST.get("title", "")
        group = incidents_merge(incidents=found, by=request.user, title=title, request_id=request_id)
        say(request, f"{many} are now group {group.pk}.", undo=group.repeats or request_id)
    elif act == "split":
        request_id = uuid.uuid4()
        count = incidents_split(incidents=found, by=request.user, request_id=request_id)
        say(request, f"{count} of them left their group; new ones like them are separate.", undo=request_id)
    else:
        raise BadRequest(f"There is no act {act!r}.")
    return back(request, fallback)


@require_POST
@ability_required("review")
def undo(request: HttpRequest, request_id: uuid.UUID) -> HttpResponse:
    """Undo what this person did in one act."""
    if (job := job_move_undo(request_id=request_id, by=request.user)) is not None:
        say(request, f"Undone: the job is in {job.cluster} again.")
        return redirect("job", slug=job.slug)  # the move back changes its address
    try:
        count = act_undo(request_id=request_id, by=request.user)
    except ReviewError as error:
        complain(request, str(error))
        return back(request, reverse("queue"))
    if count:
        say(request, _undone_words(rows_of_act(request_id=request_id, by=request.user), count))
    else:
        complain(request, "There is nothing to undo: it was undone or changed since, or somebody else did it.")
    return back(request, reverse("queue"))


def _undone_words(rows: list[Activity], count: int) -> str:
    """What was undone, on which incident: the page may show another one by now."""
    acts = " and ".join(dict.fromkeys(map(activity_words, rows)))
    touched = {row.incident_id for row in rows}
    where = f"#{rows[0].incident_id}" if len(touched) == 1 else counted(count, "incident", "incidents")
    return f"Undone on {where}: you {acts}."


@require_POST
@ability_required("review")
def undo_last(request: HttpRequest) -> HttpResponse:
    """Undo this person's latest act: on the incident of the page, else on any. The toast says what it was."""
    number = whole(request.POST.get("incident"))
    incident = incident_or_404(request, number) if number else None
    rows = last_act_undo(by=request.user, now=timezone.now(), incident=incident)
    if rows:
        say(request, _undone_words(rows, len({row.incident_id for row in rows})))
    else:
        here = " here" if incident else ""
        complain(request, f"There is nothing to undo: no act of yours{here} in the last day.")
    return back(request, reverse("queue"))


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """Save the search under a name, private or shared."""
    try:
        view = saved_view_create(
            name=request.POST.get("name", ""),
            query=request.POST.get("q", ""),
            is_shared=bool(request.POST.get("is_shared")),
            by=request.user,
        )
    except ReviewError as error:
        complain(request, str(error))
        return back(request, reverse("incidents"))
    say(request, f"Saved as “{view.name}”.")
    return redirect(f"{reverse('incidents')}?filter={view.slug}")


@require_POST
def view_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete one of one's own saved views."""
    if saved_view_delete(slug=slug, by=request.user):
        say(request, "The view was deleted.")
    else:
        complain(request, "Only its owner can delete a view.")
    return redirect("incidents")
