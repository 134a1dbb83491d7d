"""URLs of the evidence pages."""

from django.urls import path

from ingest import views

urlpatterns = [
    path("upload/", views.upload, name="upload"),
    path("jobs/<slug:slug>/describe/", views.describe, name="job-describe"),
    path("ingest/progress/<slug:slug>/", views.job_progress, name="job-progress"),
    path("ingest/runs/<int:pk>/retry/", views.run_retry, name="run-retry"),
    path("account/services/", views.service_accounts, name="services"),
    path("account/tokens/", views.tokens, name="tokens"),
]
