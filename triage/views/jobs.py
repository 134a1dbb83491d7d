"""Jobs: the list, and one job's page with its tabs."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ingest import services
from ingest.models import DEMONSTRATION
from ingest.models.outcome import Outcome
from ingest.parameters import seconds, whole
from ingest.refusals import Refused
from ingest.selectors import artifacts_of
from ingest.services import artifact_delete, diagnosis_request
from triage.charts import chart_response
from triage.charts.iterations import iteration_curves
from triage.domain.report_facts import moment_of, nodes_in_question
from triage.export import csv_lines
from triage.selectors.access import visible_clusters
from triage.selectors.deletion import deleted_job_words, deletion_refusal, losses_of
from triage.selectors.demonstration import notice_of_job, notice_of_rows
from triage.selectors.job_facts import CSV_COLUMNS, fact_rows
from triage.selectors.jobs import DISPUTED, job_for, job_page, job_view
from triage.selectors.running import alarms_of, attempt_state
from triage.services import moving
from triage.services.demonstration import demonstration_remove
from triage.services.samples import FIRST_SAMPLE, sample_load
from triage.timeline_figure import MAX_ROWS, timeline_figure
from triage.timeline_trace import trace_bytes
from triage.views.common import ability_required, complain, demonstration, say
from triage.views.job_tabs import CONTEXTS, facts_filter


def job_or_404(request: HttpRequest, slug: str) -> Any:
    """The job, or 404, also if it exists but the person has no access."""
    job = job_for(request.user, slug)
    if job is None:
        deletion = deleted_job_words(request.user, slug)
        unknown = f"There is no job “{slug}”, or it belongs to a cluster that your teams do not see."
        raise Http404(deletion or unknown)
    return job


@require_GET
def jobs(request: HttpRequest) -> HttpResponse:
    """All jobs, newest first."""
    words, outcome = request.GET.get("words", ""), request.GET.get("outcome", "")
    number = whole(request.GET.get("page"), 1)
    page = job_page(request.user, words=words, outcome=outcome, page=number)
    context = {
        "nav": "jobs",
        "page": page,
        "words": words,
        "outcome": outcome,
        "outcomes": [*Outcome.choices, (DISPUTED, "said otherwise")],
    }
    count = sum(row.cluster.slug == DEMONSTRATION for row in page.jobs)
    context |= demonstration(request, notice_of_rows(request.user, count))
    return render(request, "triage/jobs.html", context)


@require_GET
def job(request: HttpRequest, slug: str, tab: str = "events") -> HttpResponse:
    """What did this job do over time, and where does it hurt?"""
    found = job_or_404(request, slug)
    is_timed = tab in {"compare", "flows"}
    view: Any = SimpleLazyObject(
        lambda: job_view(found, attempt=whole(request.GET.get("attempt"), -1), with_timeline=is_timed)
    )
    others = set(visible_clusters(request.user).values())
    kept = ("attempt", "t0", "t1")
    context = {
        "nav": "jobs",
        "job": found,
        "view": view,
        "report": SimpleLazyObject(lambda: view.report),
        "tab": tab,
        "tab_template": f"triage/job/{tab}.html",
        "move_targets": sorted(others - {found.cluster.slug, DEMONSTRATION}),
        "kept": urlencode({name: request.GET[name] for name in kept if request.GET.get(name)}),
        "tabs": _tabs(),
    }
    if found.is_growing:
        context["running"] = SimpleLazyObject(lambda: attempt_state(view.attempt) if view.attempt else None)
    else:
        context["past_alarms"] = SimpleLazyObject(lambda: alarms_of(view.attempt))
    context |= CONTEXTS[tab](request, found, view) | demonstration(request, notice_of_job(found))
    return render(request, "triage/job.html", context)


@require_GET
def facts_csv(request: HttpRequest, slug: str) -> StreamingHttpResponse:
    """All facts of the Facts tab that match, one a row."""
    view = job_view(job_or_404(request, slug), attempt=whole(request.GET.get("attempt"), -1))
    rows = fact_rows(view, **facts_filter(request))
    if rows is None:
        raise Http404("There are no facts: no report of a machine was read.")
    lines = csv_lines(CSV_COLUMNS, rows)
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{slug}-facts.csv"'
    return response


def _tabs() -> list[tuple[str, str, str]]:
    """Name, label and address of each tab."""
    urls = {name: f"job-{name}" for name in CONTEXTS} | {"events": "job"}
    return [(name, name.capitalize(), url) for name, url in urls.items()]


@require_POST
@ability_required("upload")
def sample(request: HttpRequest) -> HttpResponse:
    """Load a recording that comes with Faultline, and show its job."""
    job = sample_load(stem=FIRST_SAMPLE, user=request.user)
    say(request, "The sample is being read: its incident appears here within seconds.")
    return redirect("job", slug=job.slug)


@require_POST
@ability_required("demonstration")
def demonstration_end(request: HttpRequest) -> HttpResponse:
    """Remove the demonstration: recordings, generated history, and all decisions on them."""
    try:
        demonstration_remove(user=request.user)
    except Refused as error:
        complain(request, error.detail)
        return redirect("jobs")
    say(request, "The demonstration was removed. “manage.py samples --again” loads it again.")
    return redirect("queue")


@require_POST
@ability_required("upload")
def job_diagnose(request: HttpRequest, slug: str) -> HttpResponse:
    """Diagnose the job's evidence again, with the current engine and history."""
    found = job_or_404(request, slug)
    run = diagnosis_request(job=found, user=request.user, is_forced=True)
    later = "It is diagnosed as soon as its evidence is read."
    say(request, "The job is being diagnosed again." if run else later)
    return redirect("job", slug=slug)


@require_POST
@ability_required("move")
def job_move(request: HttpRequest, slug: str) -> HttpResponse:
    """Move the job to another cluster. The message offers to undo it."""
    found = job_or_404(request, slug)
    try:
        moved, act = moving.job_move(job=found, cluster=request.POST.get("cluster", ""), by=request.user)
    except Refused as error:
        complain(request, error.detail)
        return redirect("job", slug=slug)
    say(request, f"The job is in {moved.cluster} now, with its incidents.", undo=act)
    return redirect("job", slug=moved.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@ability_required("upload")
def job_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Show what would be lost and ask, then delete the job."""
    found = job_or_404(request, slug)
    losses, status = losses_of(found), 200
    refusal = deletion_refusal(request.user, found)
    problem = refusal or services.busy_with(found)
    is_asked = request.method == "POST"
    is_changed = is_asked and request.POST.get("expected") != losses.form_value
    if is_asked and (refusal or is_changed):
        status = 403 if refusal else 409
    elif is_asked:
        try:
            services.job_delete(job=found, user=request.user, reason=request.POST.get("reason", ""))
        except Refused as error:
            problem, status = error.detail, error.status
        else:
            say(request, f"The job {found.name} was deleted. The record of the deletion stays.")
            return redirect("jobs")
    context = {"nav": "jobs", "job": found, "losses": losses, "problem": problem, "is_changed": is_changed}
    return render(request, "triage/job_delete.html", context, status=status)


@require_POST
@ability_required("upload")
def file_delete(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Remove a file from the job; the job is diagnosed again."""
    found = job_or_404(request, slug)
    artifact = artifacts_of(found).filter(pk=pk).first()
    if artifact is None:
        raise Http404("That file is not part of this job any more.")
    artifact_delete(artifact=artifact, user=request.user)
    say(request, f"{artifact.path} was removed from the job.")
    return redirect("job-files", slug=slug)


@require_GET
def job_timeline(request: HttpRequest, slug: str, attempt: int) -> HttpResponse:
    """The timeline's picture as JSON for the range ``t0``–``t1`` (seconds), at most ``rows`` rows; with ``whole`` from
    its begin, else from where it becomes interesting.
    """
    view = job_view(job_or_404(request, slug), attempt=attempt, with_timeline=True)
    timeline = view.diagnosis.timeline if view.diagnosis else {}
    is_whole = "whole" in request.GET
    figure = timeline_figure(
        timeline,
        slug=slug,
        attempt=attempt,
        t0=seconds(request.GET.get("t0")),
        t1=seconds(request.GET.get("t1")),
        rows=whole(request.GET.get("rows"), MAX_ROWS),
        pinned=nodes_in_question(view.report),
        moment=None if is_whole else moment_of(view.report),
    )
    if figure is None:
        sentence = "The logs of this attempt have no times, or only one: there is no timeline."
        return JsonResponse({"empty": sentence})
    return chart_response(figure)


@require_GET
def job_curves(request: HttpRequest, slug: str, other: str) -> HttpResponse:
    """Iteration times of two runs as one chart."""
    jobs_asked = job_or_404(request, slug), job_or_404(request, other)
    views = [job_view(row, with_timeline=True).diagnosis for row in jobs_asked]
    if views[0] is None or views[1] is None:
        return JsonResponse({"empty": "One of the two runs is not diagnosed yet."})
    names = (jobs_asked[0].name, jobs_asked[1].name)
    return chart_response(iteration_curves(views[0], views[1], names))


@require_GET
def job_trace(request: HttpRequest, slug: str, attempt: int) -> HttpResponse:
    """The whole timeline as gzipped Chrome trace JSON, for Perfetto."""
    found = job_or_404(request, slug)
    view = job_view(found, attempt=attempt, with_timeline=True)
    if view.diagnosis is None or not view.diagnosis.timeline.get("lanes"):
        raise Http404("This attempt has no timeline: its logs have no times, or it is not diagnosed yet.")
    body = trace_bytes(view.diagnosis.timeline, f"{found.name}, attempt {attempt}")
    response = HttpResponse(body, content_type="application/gzip")
    response["Content-Disposition"] = f'attachment; filename="{slug}-{attempt}.trace.json.gz"'
    return response
