"""All URLs of the site."""

from allauth.account.decorators import secure_admin_login
from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView

from triage.views import (
    all_logs,
    checks,
    client_download,
    incident,
    job_tabs,
    jobs,
    live_log,
    logs,
    looking,
    queue,
    running,
    site,
    tried,
)

handler400 = site.bad_request
handler403 = site.forbidden
handler404 = site.not_found
handler429 = "triage.account_adapters.too_often"
handler500 = site.server_error

# the admin uses the site's sign-in: its own has no rate limits and no second factor
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]


def oidc_urls() -> list[URLPattern | URLResolver]:
    """URLs of sign-in with a provider, if one is configured."""
    return [path("", include("triage.oidc"))] if settings.OIDC_ISSUER else []


_LOG = "<slug:slug>/{}/<int:attempt>/<path:path>"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", queue.queue, name="queue"),
    path("incidents/", queue.incidents, name="incidents"),
    path("incidents/suggest/", queue.suggest, name="incident-suggest"),
    path("incidents/bulk/", queue.bulk, name="bulk"),
    path("incidents.csv", queue.incidents_csv, name="incidents-csv"),
    path("incidents/<int:number>/", incident.incident, name="incident"),
    path("incidents/<int:number>.md", incident.incident_markdown, name="incident-markdown"),
    path("incidents/<int:number>.png", incident.incident_picture, name="incident-picture"),
    path("incidents/<int:number>/next/", incident.neighbour, {"is_next": True}, name="incident-next"),
    path("incidents/<int:number>/previous/", incident.neighbour, {"is_next": False}, name="incident-previous"),
    path("incidents/<int:number>/decide/", incident.decide, name="decide"),
    path("incidents/<int:number>/decisions/<int:decision>/undo/", incident.decision_undo, name="decision-undo"),
    path("incidents/<int:number>/act/", incident.act, name="incident-act"),
    path("incidents/<int:number>/check/", checks.output, name="incident-check"),
    path("incidents/<int:number>/tried/", tried.record, name="incident-tried"),
    path("incidents/<int:number>/tried/<int:act>/undo/", tried.undo, name="incident-tried-undo"),
    path("incidents/<int:number>/assign/", incident.assign, name="assign"),
    path("incidents/<int:number>/assignees/", incident.assignees, name="incident-assignees"),
    path("incidents/<int:number>/news/", looking.news, name="incident-news"),
    path("incidents/<int:number>/comment/", incident.comment, name="comment"),
    path("incidents/<int:number>/group/", incident.group, name="incident-group"),
    path("incidents/<int:number>/grouping/", incident.grouping, name="incident-grouping"),
    path("undo/last/", queue.undo_last, name="undo-last"),
    path("undo/<uuid:request_id>/", queue.undo, name="undo"),
    path("views/", queue.view_save, name="view-save"),
    path("views/<slug:slug>/delete/", queue.view_delete, name="view-delete"),
    path("", include("ingest.urls")),
    path("running/", running.running, name="running"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("demonstration/remove/", jobs.demonstration_end, name="demonstration-remove"),
    path("samples/load/", jobs.sample, name="sample-load"),
    path("jobs/<slug:slug>/", jobs.job, name="job"),
    path("jobs/<slug:slug>/delete/", jobs.job_delete, name="job-delete"),
    path("jobs/<slug:slug>/move/", jobs.job_move, name="job-move"),
    path("jobs/<slug:slug>/diagnose/", jobs.job_diagnose, name="job-diagnose"),
    path("jobs/<slug:slug>/facts.csv", jobs.facts_csv, name="job-facts-csv"),
    path("jobs/<slug:slug>/files/<int:pk>/delete/", jobs.file_delete, name="file-delete"),
    path("jobs/<slug:slug>/timeline/<int:attempt>/", jobs.job_timeline, name="job-timeline"),
    path("jobs/<slug:slug>/timeline/<int:attempt>/trace.json.gz", jobs.job_trace, name="job-trace"),
    path("jobs/<slug:slug>/curves/<slug:other>/", jobs.job_curves, name="job-curves"),
    path("jobs/<slug:slug>/live/<int:attempt>/", live_log.live_log, name="job-live"),
    path("jobs/<slug:slug>/live/<int:attempt>/state/", running.running_state, name="job-running"),
    path("jobs/<slug:slug>/live/<int:attempt>/lines/", live_log.live_lines, name="job-live-lines"),
    path("jobs/<slug:slug>/search/<int:attempt>/", all_logs.search, name="job-search"),
    path("jobs/<slug:slug>/search/<int:attempt>/step/", all_logs.step, name="job-search-step"),
    path("jobs/" + _LOG.format("logs"), logs.log, name="log"),
    path("jobs/" + _LOG.format("context"), logs.log_context, name="log-context"),
    path("jobs/" + _LOG.format("find"), logs.log_find, name="log-find"),
    path("jobs/" + _LOG.format("templates"), logs.log_templates, name="log-templates"),
    path("jobs/" + _LOG.format("map"), logs.log_minimap, name="log-map"),
    path("jobs/" + _LOG.format("instant"), logs.log_instant, name="log-instant"),
    path("jobs/" + _LOG.format("raw"), logs.log_raw, name="log-raw"),
    *(path(f"jobs/<slug:slug>/{tab}/", jobs.job, {"tab": tab}, name=f"job-{tab}") for tab in job_tabs.CONTEXTS),
    path("", include("triage.urls_statistics")),
    path("", include("triage.urls_knowledge")),
    path("", include("triage.urls_help")),
    path("", include("triage.urls_routes")),
    path("", include("triage.urls_organisation")),
    path("api/v1/", include("ingest.api.urls")),
    path("api/v1/", include("triage.api.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("glossary/", site.glossary, name="glossary"),
    path("api/docs/", site.api_docs, name="api-docs"),
    path("admin/", admin.site.urls),
    path("", include("triage.urls_accounts")),
    *oidc_urls(),
    path("faultline.pyz", client_download.download, name="client"),
    path("healthz", site.healthz, name="healthz"),
    path("metrics", site.metrics, name="metrics"),
]
