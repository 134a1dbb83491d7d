"""URLs of the statistics pages, of nodes, and of the flows' data."""

from django.urls import path

from triage.views import flows, nodes, planning, statistics, tickets

urlpatterns = [
    path("statistics/", statistics.page, name="statistics"),
    path("statistics/planning/", planning.planning, name="planning"),
    path("statistics/<slug:table>.csv", statistics.table_csv, name="statistics-csv"),
    path("jobs/<slug:slug>/flows/<int:attempt>/<slug:flow>/", flows.ranks, name="flow-ranks"),
    path(
        "jobs/<slug:slug>/flows/<int:attempt>/<slug:flow>/<str:form>",
        flows.download,
        name="flow-download",
    ),
    path("jobs/<slug:slug>/flows-attach/", flows.attach, name="flow-attach"),
    path("jobs/<slug:slug>/flows-detach/<int:act>/", flows.detach, name="flow-detach"),
    path("nodes/", nodes.fleet, name="nodes"),
    path("nodes/<path:name>/tickets/", tickets.of_node, name="node-tickets"),
    path("nodes/<path:name>/ticket/", tickets.make_for_node, name="node-ticket"),
    path("nodes/<path:name>/", nodes.node, name="node"),
]
