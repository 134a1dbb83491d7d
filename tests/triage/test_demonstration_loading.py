"""The demonstration comes to a site that is not in use, and is removed by one button."""

import pytest
from django.apps import apps
from django.core.management import call_command
from django.urls import reverse

from ingest.models import Job
from tests.factories import make_incident, make_job, make_user
from tests.pages import page_text
from tests.triage.year_figures import figures
from triage.models import Incident
from triage.services import demonstration, samples
from triage.services.demonstration import history_load

pytestmark = pytest.mark.django_db
PAGES = ("/", "/incidents/", "/jobs/", "/nodes/", "/statistics/", "/statistics/planning/")


def test_a_site_without_it_proves_nothing_about_it(client):
    make_incident()
    client.force_login(make_user("boss", "manager"))
    for page in PAGES:
        assert "demonstration" not in page_text(client.get(page)).lower(), page


def rows():
    """How many rows each table has, but for the log of acts."""
    models = [model for name in ("ingest", "triage") for model in apps.get_app_config(name).get_models()]
    return {model.__name__: model.objects.count() for model in models if model.__name__ != "Activity"}


def test_one_button_takes_it_away_whole_and_leaves_what_is_real(client):
    make_incident(make_job("mine"), accused=("gpu-1",))
    boss = make_user("boss", "manager")
    before = rows()
    history_load()
    client.force_login(boss)
    assert figures(boss, "cluster:demonstration").total > 200
    answer = client.post(reverse("demonstration-remove"), follow=True)
    assert "The demonstration was removed." in page_text(answer)
    assert rows() == before
    assert "demonstration" not in page_text(client.get("/statistics/")).lower()
    assert figures(make_user("other", "manager"), "cluster:demonstration").total == 0


def test_it_stays_away_until_somebody_asks_for_it(monkeypatch):
    monkeypatch.setattr(samples, "SAMPLES", ())
    monkeypatch.setattr("triage.management.commands.samples.SAMPLES", ())
    call_command("samples")
    assert Incident.objects.count() > 200
    call_command("samples", remove=True)
    call_command("samples")
    assert not Job.objects.exists()
    call_command("samples", again=True)
    assert Incident.objects.count() > 200
    assert not demonstration.was_removed()


def test_a_site_in_use_gets_no_made_up_history(monkeypatch):
    monkeypatch.setattr("triage.management.commands.samples.SAMPLES", ())
    make_job("mine")
    call_command("samples")
    assert Job.objects.count() == 1
