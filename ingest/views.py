"""Pages of the evidence layer: upload, progress, retry, tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from diagnosis.values import numbers
from ingest import selectors, services
from ingest.api.uploads import CHUNK_BYTES
from ingest.bodies import ADMISSION, admission_answer, takes_bytes
from ingest.forms import DescriptionForm, JobForm, initial_values
from ingest.models import Job, Run, ServiceAccount, Team, Token
from ingest.parameters import whole
from ingest.refusals import Refused, translate_storage_errors
from ingest.roles import ABILITY_OF_SCOPE, SCOPE_ALLOWS, can
from ingest.services import accounts


@takes_bytes("POST")
@require_http_methods(["GET", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    """The upload page. POST creates the job and stores the form's files.

    Requests of JavaScript get JSON, and send the files one by one through the resumable API.
    """
    if not can(request.user, "upload"):
        raise PermissionDenied("Your role may not upload: ask an administrator for the engineer role.")
    target = _target(request)
    if ADMISSION in request.META:
        return admission_answer(request, limit_bytes=settings.UPLOAD_MAX_BYTES)
    form = JobForm(request.POST or None, request.FILES or None, user=request.user)
    is_script = request.headers.get("Accept", "").startswith("application/json")
    if request.method == "POST":
        if target is not None:
            form.fields["name"].required = False
            form.is_for_new_job = False
        if form.is_valid():
            try:
                with translate_storage_errors():
                    job = target or services.job_create(user=request.user, **form.job_fields())
                    return _store_files(request, job, form.cleaned_data["files"], is_script=is_script)
            except Refused as refusal:
                for name, sentence in (refusal.fields or {"__all__": refusal.detail}).items():
                    form.add_error(name if name in form.fields else None, sentence)
        if is_script:
            errors = [{"field": name, "detail": str(text)} for name, texts in form.errors.items() for text in texts]
            return JsonResponse({"errors": errors}, status=422)
    owners = Team.objects.filter(members=request.user.pk) if target is None else Team.objects.filter(jobs=target)
    quotas = selectors.quotas_of(owners)
    context = {"form": form, "job": target, "chunk_bytes": CHUNK_BYTES, "quotas": quotas, "nav": "upload"}
    return render(request, "ingest/upload.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
def describe(request: HttpRequest, slug: str) -> HttpResponse:
    """Change the description of a job. It is diagnosed again, because family, layout and outcome influence the
    diagnosis.
    """
    if not can(request.user, "upload"):
        raise PermissionDenied("Your role may not change jobs: ask an administrator for the engineer role.")
    job = get_object_or_404(selectors.jobs_visible_to(request.user).select_related("team"), slug=slug)
    teams = selectors.teams_of(request.user) | Team.objects.filter(jobs=job)  # the job may keep its own team
    form = DescriptionForm(request.POST or None, initial=initial_values(job), teams=teams.distinct())
    if request.method == "POST" and form.is_valid():
        services.job_change(job=job, **form.job_fields())
        services.diagnosis_request(job=job, user=request.user, is_forced=True)
        messages.success(request, "Saved. The job is being diagnosed again.")
        return redirect(f"/jobs/{job.slug}/")
    context = {"form": form, "job": job, "nav": "jobs"}
    return render(request, "ingest/describe.html", context, status=422 if form.errors else 200)


def _target(request: HttpRequest) -> Job | None:
    """The job in the address, which gets the evidence; None without one."""
    slug = request.GET.get("job")
    return get_object_or_404(selectors.jobs_visible_to(request.user), slug=slug) if slug else None


def _store_files(request: HttpRequest, job: Job, files: list[Any], *, is_script: bool) -> HttpResponse:
    if is_script:
        return JsonResponse({"slug": job.slug, "url": f"/jobs/{job.slug}/"}, status=201)
    for file in files:
        try:
            receipt = services.artifact_receive(job=job, path=file.name, chunks=file.chunks(), user=request.user)
            if not receipt.is_new:
                messages.info(request, f"{file.name} was uploaded before: nothing changed.")
        except Refused as refusal:
            messages.error(request, refusal.detail)
    services.diagnosis_request(job=job, user=request.user)
    return redirect(f"/jobs/{job.slug}/")


@require_GET
def job_progress(request: HttpRequest, slug: str) -> HttpResponse:
    """The fragment that a job's page polls. It contains the next poll while anything can still change."""
    job = get_object_or_404(selectors.jobs_visible_to(request.user), slug=slug)
    progress = selectors.progress(job)
    if request.GET.get("was") == "settled" and not progress.is_active:
        return render(request, "ingest/_progress_told.html", {"progress": progress})
    response = render(request, "ingest/_progress.html", {"progress": progress})
    if not progress.is_active and request.headers.get("HX-Request"):
        response["HX-Refresh"] = "true"  # the rest of the page has new content now
    return response


@require_POST
def run_retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Retry failed work."""
    if not can(request.user, "upload"):
        raise PermissionDenied
    run = Run.objects.select_related("job").filter(pk=pk, job__in=selectors.jobs_visible_to(request.user)).first()
    if run is None:
        raise Http404
    if not services.run_retry(run=run):
        messages.info(request, "This work has not failed: there is nothing to retry.")
    return redirect(f"/jobs/{run.job.slug}/")


@require_POST
def runs_cancel(request: HttpRequest, slug: str) -> HttpResponse:
    """Cancel the work on a job's evidence."""
    job = _job_to_work_on(request, slug)
    if services.runs_cancel(job=job, user=request.user):
        messages.success(request, "The work was cancelled. It can be started again below.")
    else:
        messages.info(request, "No work was left to cancel.")
    return redirect(f"/jobs/{slug}/")


@require_POST
def runs_resume(request: HttpRequest, slug: str) -> HttpResponse:
    """Start the cancelled work on a job's evidence again."""
    job = _job_to_work_on(request, slug)
    if not services.runs_resume(job=job):
        messages.info(request, "No work of this job is cancelled any more.")
    return redirect(f"/jobs/{slug}/")


def _job_to_work_on(request: HttpRequest, slug: str) -> Job:
    if not can(request.user, "upload"):
        raise PermissionDenied
    return get_object_or_404(selectors.jobs_visible_to(request.user), slug=slug)


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """A person's API tokens. The secret of a new token is shown only in the answer that creates it."""
    secret, error = "", ""
    if request.method == "POST":
        own = Token.objects.filter(user__username=request.user.get_username())
        if "revoke" in request.POST:
            return _revoke(request, own, "tokens")
        try:
            secret = _token_of_form(request, request.user)
        except Refused as refusal:
            error = refusal.detail
    context = {
        "tokens": Token.objects.filter(user__username=request.user.get_username()),
        "scopes": _scopes_for(request.user),
        "secret": secret,
        "error": error,
    }
    return render(request, "ingest/tokens.html", context, status=422 if error else 200)


@require_http_methods(["GET", "POST"])
def service_accounts(request: HttpRequest) -> HttpResponse:
    """Service accounts and their tokens, for administrators."""
    if not can(request.user, "administer"):
        raise PermissionDenied("Only administrators create service accounts: ask one.")
    secret, error = "", ""
    posted = request.POST
    if request.method == "POST":
        if "revoke" in posted:
            return _revoke(request, Token.objects.exclude(user__service_account=None), "services")
        try:
            if posted.get("act") == "make":
                accounts.account_create(
                    by=request.user,
                    name=posted.get("name", ""),
                    role=posted.get("role", ""),
                    teams=Team.objects.filter(slug__in=posted.getlist("teams")),
                    purpose=posted.get("purpose", ""),
                )
                return redirect("services")
            account = get_object_or_404(ServiceAccount, pk=whole(posted.get("account")))
            if posted.get("act") == "close":
                accounts.account_close(account=account)
                messages.success(request, f"{account} is closed and its tokens are revoked.")
                return redirect("services")
            secret = _token_of_form(request, account.user)
        except Refused as refusal:
            error = refusal.detail
    rows = ServiceAccount.objects.select_related("user").prefetch_related(
        "user__groups", "user__teams", "user__api_tokens"
    )
    context = {
        "accounts": rows,
        "teams": Team.objects.all(),
        "roles": accounts.ROLES,
        "scopes": _scope_rows(scope for scope in Token.Scope if scope != Token.Scope.ADMINISTER),
        "form": posted if error else {},
        "secret": secret,
        "error": error,
    }
    return render(request, "ingest/services.html", context, status=422 if error else 200)


def _token_of_form(request: HttpRequest, user: Any) -> str:
    days_text = request.POST.get("days", "").strip()
    days = numbers.whole(days_text, digits=5)
    if days_text and days is None:
        raise Refused("Give the days as a whole number, or leave them empty.", code="invalid")
    _, secret = services.token_create(
        user=user,
        name=request.POST.get("name", ""),
        scopes=request.POST.getlist("scopes"),
        days=days,
    )
    return secret


def _revoke(request: HttpRequest, among: QuerySet[Token], back: str) -> HttpResponse:
    services.token_revoke(token=get_object_or_404(among, pk=whole(request.POST["revoke"])))
    messages.success(request, "The token is revoked.")
    return redirect(back)


def _scopes_for(user: Any) -> list[tuple[str, Any, str]]:
    """Scopes that allow this person anything."""
    abilities = {scope: ABILITY_OF_SCOPE.get(scope.value, "") for scope in Token.Scope}
    return _scope_rows(scope for scope, ability in abilities.items() if not ability or can(user, ability))


def _scope_rows(scopes: Iterable[Token.Scope]) -> list[tuple[str, Any, str]]:
    """Value, label and what it allows."""
    return [(scope.value, scope.label, SCOPE_ALLOWS[scope.value]) for scope in scopes]
