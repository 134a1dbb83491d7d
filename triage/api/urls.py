"""Addresses of the desk's API, below ``/api/v1/``."""

from django.urls import path

from triage.api import incidents, statistics

urlpatterns = [
    path("incidents/", incidents.IncidentsView.as_view(), name="api-incidents"),
    path("incidents/<int:number>/", incidents.IncidentView.as_view(), name="api-incident"),
    path("incidents/<int:number>/findings/", incidents.FindingsView.as_view(), name="api-incident-findings"),
    path("incidents/<int:number>/decisions/", incidents.DecisionsView.as_view(), name="api-incident-decisions"),
    path(
        "incidents/<int:number>/decisions/<int:decision>/undo/",
        incidents.DecisionUndoView.as_view(),
        name="api-decision-undo",
    ),
    path("statistics/", statistics.StatisticsView.as_view(), name="api-statistics"),
    path("search/", statistics.SearchView.as_view(), name="api-search"),
]
