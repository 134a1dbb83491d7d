"""URLs of routes, and of what else leaves the site."""

from django.urls import path

from triage.views import routes, summaries, tickets

urlpatterns = [
    path("incidents/<int:number>/tickets/", tickets.of_incident, name="incident-tickets"),
    path("incidents/<int:number>/ticket/", tickets.make_for_incident, name="incident-ticket"),
    path("incidents/<int:number>/summary/", summaries.summary, name="incident-summary"),
    path("incidents/<int:number>/summary/make/", summaries.make, name="incident-summary-make"),
    path("routes/", routes.listing, name="routes"),
    path("routes/new/<slug:kind>/", routes.new, name="route-new"),
    path("routes/<int:pk>/", routes.route, name="route"),
    path("routes/<int:pk>/act/", routes.act, name="route-act"),
    path("routes/<int:pk>/deliveries/<uuid:delivery>/", routes.delivery, name="delivery"),
    path("routes/<int:pk>/deliveries/<uuid:delivery>/redeliver/", routes.redeliver, name="redeliver"),
]
