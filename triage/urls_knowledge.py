"""URLs of the site's own rules."""

from django.urls import path

from triage.views import replay, rules

urlpatterns = [
    path("replay/", replay.planner, name="replay"),
    path("rules/", rules.listing, name="rules"),
    path("rules/new/", rules.edit, name="rule-new"),
    path("rules/<int:pk>/", rules.edit, name="rule"),
]
