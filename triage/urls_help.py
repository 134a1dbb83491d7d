"""URLs of the documents."""

from django.urls import path

from triage.views import manual

urlpatterns = [
    path("help/", manual.contents, name="help"),
    path("help/pictures/<path:name>", manual.image, name="help-picture"),
    path("help/<slug:name>/", manual.one, name="help-document"),
]
