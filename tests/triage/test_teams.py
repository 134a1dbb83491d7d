"""The team of a job: where it comes from, and that lists and figures count by it."""

from __future__ import annotations

import pytest

from ingest.services import job_change, job_create
from tests.factories import make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage.models import Incident

pytestmark = pytest.mark.django_db


def facet(client, url="/incidents/"):
    page = page_text(client.get(url))
    rail = page[page.index('aria-label="Facets"') : page.index("</aside>")]
    return rail.partition("<summary>Team</summary>")[2].partition("</details>")[0]


def test_a_job_belongs_to_the_only_team_of_whoever_makes_it(ada):
    assert job_create(name="alone", cluster="default", user=ada).team is None
    red = make_team("red", members=[ada])
    assert job_create(name="one", cluster="default", user=ada).team == red
    blue = make_team("blue", members=[ada])
    assert job_create(name="two", cluster="default", user=ada).team is None
    assert job_create(name="said", cluster="default", user=ada, team=blue).team == blue


def test_the_list_counts_teams_and_a_click_shows_one(client, ada, django_assert_max_num_queries):
    red, blue = make_team("red"), make_team("blue")
    for n, team in enumerate((red, red, blue, None)):
        make_incident(make_job(f"job-{n}", team=team), headline=f"failure {n}")
    with django_assert_max_num_queries(8):
        rail = facet(client)
    assert 'href="?q=team%3Ared"' in rail and '<span class="n">2</span>' in rail
    page = page_text(client.get("/incidents/?q=team:red"))
    assert "Incidents of team red." in page
    assert "failure 1" in page and "failure 2" not in page and "failure 3" not in page
    assert "failure 3" in page_text(client.get("/incidents/?q=!team:red"))


def test_where_no_job_has_a_team_there_is_no_such_facet(client, ada):
    make_incident()
    assert facet(client) == ""


def test_teams_of_clusters_that_a_person_may_not_see_are_not_counted(client, ada):
    far = make_team("far", members=[make_user("faraway")], clusters=[make_cluster("private")])
    make_incident(make_job(cluster=make_cluster("private"), team=far))
    make_incident(make_job(team=make_team("near")))
    assert "near" in facet(client) and "far" not in facet(client)


def test_incidents_follow_their_job_to_another_team_and_open_pages_show_it(client, ada):
    red, blue = make_team("red"), make_team("blue")
    job = make_job(team=red)
    make_incident(job)
    assert "red" in facet(client)
    job_change(job=job, team=blue)
    assert Incident.objects.get().team == blue
    assert "blue" in facet(client) and "red" not in facet(client)
    job_change(job=job, team=None)
    assert Incident.objects.get().team is None
    assert facet(client) == ""


def test_statistics_break_down_by_team_and_name_what_has_none(client, ada):
    make_incident(make_job(team=make_team("red")), gpu_hours=5)
    make_incident(gpu_hours=7)
    page = page_text(client.get("/statistics/?by=team"))
    assert ">red</a>" in page
    assert "not given" in page
