"""URLs of the triage API, below ``/api/v1/``."""

from django.urls import path

from triage.api import incidents, statistics, webhooks

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
    path("webhooks/", webhooks.WebhooksView.as_view(), name="api-webhooks"),
    path("webhooks/<int:pk>/", webhooks.WebhookView.as_view(), name="api-webhook"),
    path("webhooks/<int:pk>/rotate/", webhooks.WebhookRotateView.as_view(), name="api-webhook-rotate"),
    path("webhooks/<int:pk>/ping/", webhooks.WebhookPingView.as_view(), name="api-webhook-ping"),
    path("webhooks/<int:pk>/deliveries/", webhooks.DeliveriesView.as_view(), name="api-deliveries"),
    path(
        "webhooks/<int:pk>/deliveries/<uuid:delivery>/redeliver/",
        webhooks.RedeliverView.as_view(),
        name="api-redeliver",
    ),
    path("statistics/", statistics.StatisticsView.as_view(), name="api-statistics"),
    path("search/", statistics.SearchView.as_view(), name="api-search"),
]
