"""URLs of the evidence API, below ``/api/v1/``."""

from django.urls import path

from ingest.api import collectors, job_files, jobs, me, uploads

urlpatterns = [
    path("me/", me.MeView.as_view(), name="api-me"),
    path("me/token/", me.MeTokenView.as_view(), name="api-me-token"),
    path("jobs/", jobs.JobsView.as_view(), name="api-jobs"),
    path("jobs/<slug:slug>/", jobs.JobView.as_view(), name="api-job"),
    path("jobs/<slug:slug>/wanted/", jobs.WantedView.as_view(), name="api-job-wanted"),
    path("jobs/<slug:slug>/runs/", jobs.RunsView.as_view(), name="api-job-runs"),
    path("jobs/<slug:slug>/runs/<int:pk>/cancel/", jobs.RunCancelView.as_view(), name="api-run-cancel"),
    path("jobs/<slug:slug>/runs/<int:pk>/retry/", jobs.RunRetryView.as_view(), name="api-run-retry"),
    path("jobs/<slug:slug>/uploads/", jobs.JobUploadsView.as_view(), name="api-job-uploads"),
    path("jobs/<slug:slug>/artifacts/", jobs.ArtifactsView.as_view(), name="api-job-artifacts"),
    path("jobs/<slug:slug>/artifacts/<str:sha256>", uploads.ArtifactView.as_view(), name="api-artifact"),
    path("jobs/<slug:slug>/files/<path:path>", job_files.JobFileView.as_view(), name="api-job-file"),
    path("jobs/<slug:slug>/diagnose/", jobs.DiagnoseView.as_view(), name="api-job-diagnose"),
    path("lines/", collectors.LinesView.as_view(), name="api-lines"),
    path("node-events/", collectors.NodeEventsView.as_view(), name="api-node-events"),
    path("uploads/", uploads.UploadsView.as_view(), name="api-uploads"),
    path("uploads/capabilities", uploads.CapabilitiesView.as_view(), name="api-uploads-capabilities"),
    path("uploads/<uuid:pk>", uploads.UploadView.as_view(), name="api-upload"),
]
