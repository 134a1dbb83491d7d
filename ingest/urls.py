"""URLs of the evidence pages, and those that collectors expect at the root."""

from django.urls import path

from ingest import views
from ingest.api import collectors

urlpatterns = [
    path("v1/logs", collectors.OtlpLogsView.as_view(), name="otlp-logs"),
    path("loki/api/v1/push", collectors.LokiPushView.as_view(), name="loki-push"),
    path("upload/", views.upload, name="upload"),
    path("jobs/<slug:slug>/describe/", views.describe, name="job-describe"),
    path("ingest/progress/<slug:slug>/", views.job_progress, name="job-progress"),
    path("ingest/runs/<int:pk>/retry/", views.run_retry, name="run-retry"),
    path("ingest/runs/<slug:slug>/cancel/", views.runs_cancel, name="runs-cancel"),
    path("ingest/runs/<slug:slug>/resume/", views.runs_resume, name="runs-resume"),
    path("account/services/", views.service_accounts, name="services"),
    path("account/tokens/", views.tokens, name="tokens"),
]
