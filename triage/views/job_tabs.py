"""The content of each tab of a job's page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from ingest.models import Artifact, Job
from ingest.parameters import seconds, whole
from ingest.selectors import progress
from triage.charts.cost import job_chart
from triage.selectors.answers import answer_of
from triage.selectors.comparing import comparison
from triage.selectors.cost import job_cost
from triage.selectors.events import LEVELS, SORTS, Filter, job_events
from triage.selectors.files import PAGE_SIZE, UNUSED, file_page
from triage.selectors.flows import captures_attached, flows_view
from triage.selectors.incident import EVIDENCE_ROLES, log_url
from triage.selectors.job_facts import PAGE_SIZE as FACTS_PAGE_SIZE
from triage.selectors.job_facts import facts_view
from triage.selectors.jobs import job_runs
from triage.selectors.stacks import stacks_view
from triage.services.attaching import capture_proposals


def _events(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    names = ("role", "words", "node", "level", "stage")
    only = Filter(**{name: request.GET.get(name, "") for name in names})
    sort, span = request.GET.get("sort", ""), _span(request)
    events_and_stages: Any = SimpleLazyObject(lambda: job_events(view.diagnosis, only, sort, span))
    return {
        "piece": ("job", request.GET.urlencode(), *_state(job)),
        "events": SimpleLazyObject(lambda: events_and_stages[0]),
        "stages": SimpleLazyObject(lambda: events_and_stages[1]),
        "only": only,
        "sort": sort if sort in SORTS else "",
        "sorts": SORTS,
        "span": span,
        "roles": EVIDENCE_ROLES,
        "levels": list(LEVELS),
    }


def _flows(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    chosen = {name: request.GET.get(name, "") for name in ("counters", "port")}
    context: dict[str, Any] = {"shown": flows_view(view.diagnosis, chosen=request.GET.get("flow", ""), **chosen)}
    context["attached"] = captures_attached(job)
    told = context["shown"].reasons if context["shown"] else ()
    context["answer"] = answer_of(view.report, "flows", shown=told)
    if view.diagnosis and not view.report.get("logs"):
        context["proposals"] = capture_proposals(user=request.user, diagnosis=view.diagnosis)
    return context


def _stacks(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    words = request.GET.get("frames", "").strip()[:200]
    link = partial(log_url, job.slug, view.attempt.number if view.attempt else 0)
    return {
        "shown": stacks_view(view.report, words=words, link=link),
        "answer": answer_of(view.report, "stacks"),
        "frames": words,
        "params": request.GET,
    }


def facts_filter(request: HttpRequest) -> dict[str, Any]:
    """The facts that the address asks for."""
    words = request.GET.get("words", "").strip()[:200]
    return {"words": words, "is_odd_only": bool(request.GET.get("differs"))}


def _facts(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    asked, number = facts_filter(request), whole(request.GET.get("page"), 1)
    shown = facts_view(request.user, job, view, number, **asked)
    return {
        **asked,
        "shown": shown,
        "params": request.GET,
        "page_number": number,
        "has_next": shown is not None and number * FACTS_PAGE_SIZE < shown.matching,
    }


def _files(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    words, state = request.GET.get("words", ""), request.GET.get("state", "")
    number = whole(request.GET.get("page"), 1)
    found = file_page(job, view, words=words, state=state, page=number)
    return {
        "files": [(row, row.folder.removeprefix(found.folder)) for row in found.rows],
        "folder": found.folder,
        "total": found.total,
        "tally": found.tally,
        "words": words,
        "state": state,
        "states": [*Artifact.State.choices, (UNUSED, "nothing concluded")],
        "page_number": number,
        "has_next": number * PAGE_SIZE < found.total,
    }


def _compare(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    compared = comparison(request.user, job, view.diagnosis, request.GET.get("with", ""))
    lists = [
        ("Only in this run", compared.only_here, job.slug),
        ("Only in the other run", compared.only_there, compared.other.slug if compared.other else ""),
    ]
    if compared.in_both:
        lists.append(("In both", [here for here, _ in compared.in_both], job.slug))
    return {"comparison": compared, "comparison_lists": lists}


def _cost(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    cost = job_cost(job)
    chart = job_chart(cost.productive, cost.started_at, cost.ended_at) if cost else None
    return {"cost": cost, "ettr_chart": chart}


def _work(request: HttpRequest, job: Any, view: Any) -> dict[str, Any]:
    return {"runs": job_runs(job), "progress": progress(job)}


#: tab → the context of its template ``triage/job/<tab>.html``; in the order of the page
CONTEXTS: dict[str, Callable[[HttpRequest, Any, Any], dict[str, Any]]] = {
    "events": _events,
    "flows": _flows,
    "stacks": _stacks,
    "facts": _facts,
    "files": _files,
    "compare": _compare,
    "cost": _cost,
    "work": _work,
}


def _state(found: Any) -> tuple[str, ...]:
    """The state of the job's own rows, because changes of its evidence write no act."""
    columns = (str(getattr(found, field.attname)) for field in Job._meta.concrete_fields)
    marks = (found.is_working, found.is_troubled, found.is_growing)
    return (*columns, str(found.cluster), str(found.team), *map(str, marks))


def _span(request: HttpRequest) -> tuple[float, float] | None:
    """The time range in the address, as the timeline's zoom writes it."""
    begin, end = seconds(request.GET.get("t0")), seconds(request.GET.get("t1"))
    return (begin, end) if begin is not None and end is not None else None
