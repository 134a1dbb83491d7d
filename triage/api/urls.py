"""URLs of the triage API, below ``/api/v1/``."""

from django.urls import path

from triage.api import hooks, incidents, jobs, restarts, routes, setup, statistics, tickets

urlpatterns = [
    path("incidents/", incidents.IncidentsView.as_view(), name="api-incidents"),
    path("incidents/<int:number>/", incidents.IncidentView.as_view(), name="api-incident"),
    path("incidents/<int:number>/findings/", incidents.FindingsView.as_view(), name="api-incident-findings"),
    path("incidents/<int:number>/tickets/", tickets.TicketsView.as_view(), name="api-incident-tickets"),
    path("nodes/<path:name>/tickets/", tickets.NodeTicketsView.as_view(), name="api-node-tickets"),
    path("incidents/<int:number>/decisions/", incidents.DecisionsView.as_view(), name="api-incident-decisions"),
    path(
        "incidents/<int:number>/decisions/<int:decision>/undo/",
        incidents.DecisionUndoView.as_view(),
        name="api-decision-undo",
    ),
    path("jobs/<slug:slug>/move/", jobs.JobMoveView.as_view(), name="api-job-move"),
    path("jobs/<slug:slug>/attempts/<int:number>/restart/", restarts.RestartView.as_view(), name="api-restart"),
    path("routes/", routes.RoutesView.as_view(), name="api-routes"),
    path("routes/<int:pk>/", routes.RouteView.as_view(), name="api-route"),
    path("routes/<int:pk>/rotate/", routes.RouteRotateView.as_view(), name="api-route-rotate"),
    path("routes/<int:pk>/ping/", routes.RoutePingView.as_view(), name="api-route-ping"),
    path("routes/<int:pk>/pagerduty/", hooks.PagerDutyView.as_view(), name="api-route-pagerduty"),
    path("routes/<int:pk>/deliveries/", routes.DeliveriesView.as_view(), name="api-deliveries"),
    path(
        "routes/<int:pk>/deliveries/<uuid:delivery>/redeliver/",
        routes.RedeliverView.as_view(),
        name="api-redeliver",
    ),
    path("setup/", setup.SetupView.as_view(), name="api-setup"),
    path("statistics/", statistics.StatisticsView.as_view(), name="api-statistics"),
    path("search/", statistics.SearchView.as_view(), name="api-search"),
]
