"""Data of the Flows tab: a window of the timeline, and downloads."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from ingest.parameters import seconds
from triage.charts import chart_response
from triage.models import Activity, Diagnosis
from triage.selectors.flows import flow_job, ports_heat, ranks_view
from triage.selectors.jobs import job_view
from triage.selectors.strip import tracks_of
from triage.services.attaching import capture_attach, capture_detach
from triage.views.common import ability_required, say
from triage.views.jobs import job_or_404


def _diagnosis(request: HttpRequest, slug: str, attempt: int) -> Diagnosis:
    view = job_view(job_or_404(request, slug), attempt=attempt, with_timeline=True)
    if view.diagnosis is None:
        raise Http404("This attempt is not diagnosed yet.")
    return view.diagnosis


@require_safe
def ranks(request: HttpRequest, slug: str, attempt: int, flow: str) -> HttpResponse:
    """Ranks × time (for port counters: ports × time) between ``t0`` and ``t1`` (seconds since the
    epoch).
    """
    diagnosis = _diagnosis(request, slug, attempt)
    found = flow_job(diagnosis, flow)
    if found is None:
        return JsonResponse({"empty": "There is no table of steps for this capture: diagnose the job again."})
    job, table = found
    t0, t1 = seconds(request.GET.get("t0")), seconds(request.GET.get("t1"))
    chart = ports_heat(job, table, t0=t0, t1=t1) if "ports" in job else ranks_view(diagnosis, job, table, t0=t0, t1=t1)
    response = chart_response(chart)
    response["Server-Timing"] = f"view;dur={chart['spent_ms']}"
    return response


@require_safe
def download(request: HttpRequest, slug: str, attempt: int, flow: str, form: str) -> FileResponse:
    """The whole timeline: ``trace`` is gzipped Chrome trace JSON for Perfetto, with the lanes of
    the incident's strip as tracks; ``csv`` has one row per rank and step.
    """
    from triage import flow_tables, flow_trace  # noqa: PLC0415  # heavy: SciPy

    diagnosis = _diagnosis(request, slug, attempt)
    found = flow_job(diagnosis, flow)
    if found is None:
        raise Http404("There is no table of steps for this capture.")
    is_trace, is_ports = form == "trace", "ports" in found[0]
    if is_trace and is_ports:
        raise Http404("Port counters have no timeline of ranks; they are there as CSV.")
    write = flow_tables.write_ports_csv if is_ports else flow_tables.write_steps_csv
    name = f"{slug}-{flow}.{'trace.json.gz' if is_trace else 'csv'}"
    with tempfile.TemporaryDirectory(prefix="faultline-trace-") as folder:
        target = Path(folder) / name
        if is_trace:
            flow_trace.write_trace(found[1], target, tracks_of(diagnosis.report))
        else:
            write(found[1], target)
        file = target.open("rb")  # stays readable after its name is deleted
    return FileResponse(file, as_attachment=True, filename=name)


@require_POST
@ability_required("upload")
def attach(request: HttpRequest, slug: str) -> HttpResponse:
    """Attach this job's captures to the job that they belong to."""
    source, target = job_or_404(request, slug), job_or_404(request, request.POST.get("job", ""))
    new = capture_attach(source=source, target=target, user=request.user)
    what = "1 capture is" if new == 1 else f"{new} captures are"
    say(request, f"{what} attached to {target.name}." if new else f"{target.name} had these captures already.")
    return redirect("job-flows", slug=target.slug)


@require_POST
@ability_required("upload")
def detach(request: HttpRequest, slug: str, act: int) -> HttpResponse:
    """Remove from this job what one attaching added; the source job keeps its captures."""
    job = job_or_404(request, slug)
    found = Activity.objects.filter(pk=act, job=job, kind="capture_attached").first()
    if found is None:
        raise Http404("No capture was attached to this job by that act.")
    count = capture_detach(act=found, user=request.user)
    what = "1 capture is" if count == 1 else f"{count} captures are"
    say(request, f"{what} removed from {job.name}." if count else "Its captures were removed from the job before.")
    return redirect("job-flows", slug=slug)
