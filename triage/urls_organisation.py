"""URLs of people, teams and clusters."""

from django.urls import path

from triage.views import organisation

urlpatterns = [
    path("people/", organisation.people, name="people"),
    path("people/<str:username>/", organisation.person, name="person"),
    path("teams/", organisation.teams, name="teams"),
    path("clusters/", organisation.clusters, name="clusters"),
]
