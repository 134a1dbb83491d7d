"""Pages of the evidence layer: upload, progress, retry, tokens."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ingest import selectors, services
from ingest.api.uploads import CHUNK_BYTES
from ingest.forms import JobForm
from ingest.models import Job, Run, Token
from ingest.refusals import Refused, told
from ingest.roles import can


@require_http_methods(["GET", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    """The upload page. POST makes the job and takes the form's files.

    With JavaScript it answers JSON, and the files follow one by one through the resumable API.
    """
    if not can(request.user, "upload"):
        raise PermissionDenied("Your role may not upload: ask an administrator for the engineer role.")
    clusters = selectors.clusters_visible_to(request.user)
    target = _target(request)
    form = JobForm(request.POST or None, request.FILES or None, clusters=clusters)
    is_script = request.headers.get("Accept", "").startswith("application/json")
    if request.method == "POST":
        if target is not None:
            form.fields["name"].required = False
        if form.is_valid():
            try:
                with told():
                    job = target or services.job_create(user=request.user, **form.job_fields())
                    return _take(request, job, form.cleaned_data["files"], is_script=is_script)
            except Refused as refusal:
                for name, sentence in (refusal.fields or {"__all__": refusal.detail}).items():
                    form.add_error(name if name in form.fields else None, sentence)
        if is_script:
            errors = [{"field": name, "detail": str(text)} for name, texts in form.errors.items() for text in texts]
            return JsonResponse({"errors": errors}, status=422)
    context = {"form": form, "job": target, "chunk_bytes": CHUNK_BYTES, "nav": "upload"}
    return render(request, "ingest/upload.html", context, status=422 if form.errors else 200)


def _target(request: HttpRequest) -> Job | None:
    """The job that evidence is added to, if the address names one."""
    slug = request.GET.get("job")
    return get_object_or_404(selectors.jobs_visible_to(request.user), slug=slug) if slug else None


def _take(request: HttpRequest, job: Job, files: list[Any], *, is_script: bool) -> HttpResponse:
    if is_script:
        return JsonResponse({"slug": job.slug, "url": f"/jobs/{job.slug}/"}, status=201)
    for file in files:
        try:
            receipt = services.artifact_receive(job=job, path=file.name, chunks=file.chunks(), user=request.user)
            if not receipt.is_new:
                messages.info(request, f"{file.name} was here already: nothing new was made of it.")
        except Refused as refusal:
            messages.error(request, refusal.detail)
    services.diagnosis_request(job=job, user=request.user)
    return redirect(f"/jobs/{job.slug}/")


@require_GET
def job_progress(request: HttpRequest, slug: str) -> HttpResponse:
    """The fragment that a job's page polls; it carries the next poll while anything will still change by itself."""
    job = get_object_or_404(selectors.jobs_visible_to(request.user), slug=slug)
    found = selectors.progress(job)
    response = render(request, "ingest/_progress.html", {"progress": found})
    if not found.is_active and request.headers.get("HX-Request"):
        response["HX-Refresh"] = "true"  # the page around it has something to show now
    return response


@require_POST
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Try failed work again."""
    if not can(request.user, "upload"):
        raise PermissionDenied
    run = Run.objects.select_related("job").filter(pk=pk, job__in=selectors.jobs_visible_to(request.user)).first()
    if run is None:
        raise Http404
    if not services.run_retry(run=run):
        messages.info(request, "That work has not failed: there is nothing to retry.")
    return redirect(f"/jobs/{run.job.slug}/")


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """A person's keys to the API. A new one's secret is shown in the answer that makes it, and never again."""
    secret, error = "", ""
    if request.method == "POST":
        revoked = request.POST.get("revoke")
        if revoked:
            services.token_revoke(
                token=get_object_or_404(Token, pk=revoked, user__username=request.user.get_username())
            )
            messages.success(request, "The token is revoked.")
            return redirect("tokens")
        try:
            name, scopes = request.POST.get("name", ""), request.POST.getlist("scopes")
            _, secret = services.token_create(user=request.user, name=name, scopes=scopes)
        except Refused as refusal:
            error = refusal.detail
    context = {
        "tokens": Token.objects.filter(user__username=request.user.get_username()),
        "scopes": Token.Scope.choices,
        "secret": secret,
        "error": error,
        "host": request.build_absolute_uri("/"),
    }
    return render(request, "ingest/tokens.html", context, status=422 if error else 200)
