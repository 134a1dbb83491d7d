"""The evidence layer's own addresses."""

from django.urls import include, path

urlpatterns = [path("api/v1/", include("ingest.api.urls")), path("", include("ingest.urls"))]
