"""People, the route receiver and a job with flows for tests of triage."""

import io
import tarfile
from pathlib import Path

import pytest
from django.conf import settings as site

from diagnosis import ParseHints, parse
from tests import upgrades
from tests.diagnosis.kinds.reports import flows_json
from tests.factories import make_attempt, make_job, make_user
from tests.patience import PATIENCE_S
from tests.triage.desks import open_desks
from tests.triage.receiver import receiving
from tests.triage.report import sample
from triage.diagnosis_tables import tables_store
from triage.services import outbound, routes
from triage.services.diagnosing import diagnosis_store


@pytest.fixture(autouse=True)
def _charts_checked(monkeypatch):
    """plotly.py validates every property of every figure in a test."""
    monkeypatch.setattr("triage.charts.IS_CHECKED", True)


@pytest.fixture
def ada(client):
    """An engineer, signed in."""
    user = make_user("ada", "engineer")
    client.force_login(user)
    return user


@pytest.fixture
def manager():
    return make_user("mara", "manager")


@pytest.fixture
def incident():
    """The incident of a job whose evidence is all diagnosed."""
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=sample())
    attempt.job.refresh_from_db()
    attempt.job.diagnosing_revision = attempt.job.revision
    attempt.job.save()
    return attempt.incidents.get()


@pytest.fixture
def receiver(settings, monkeypatch):
    """A program that receives routes on this machine, on an allowed address."""
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setattr(outbound, "TIMEOUT_S", PATIENCE_S)
    with receiving() as found:
        yield found


@pytest.fixture
def route(manager, receiver):
    return routes.route_save(by=manager, name="chat", url=receiver.url, events=routes.EVENTS)


@pytest.fixture(scope="session")
def before_releases(tmp_path_factory, django_db_setup, django_db_blocker):
    """Name of an empty database as before all releases, made once step by step, to be copied."""
    with django_db_blocker.unblock(), upgrades.created(tmp_path_factory.mktemp("before"), "before") as made:
        with upgrades.used_here(made):
            upgrades.migrated_to(upgrades.BEFORE_RELEASES, step_by_step=True)
        yield made["NAME"]


@pytest.fixture(scope="session")
def flow_capture(tmp_path_factory):
    """The report and the tables of a recorded capture, analysed once."""
    work = tmp_path_factory.mktemp("flows")
    with tarfile.open(Path(site.BASE_DIR) / "samples" / "healthy_ddp_a.tar.gz") as archive:
        data = archive.extractfile("healthy_ddp_a/flows.csv").read()
    parsed = parse(io.BytesIO(data), "flows.csv", ParseHints(), work / "parsed")
    report = flows_json([parsed], tables=work / "tables")
    report.pop("suspects", None)
    return report, work / "tables"


@pytest.fixture
def flow_job(client, flow_capture, tmp_path):
    """A job with that diagnosis, seen by an engineer; ``stored`` is its diagnosis."""
    client.force_login(make_user("eng", "engineer"))
    job = make_job("seen")
    report, tables = flow_capture
    copies = tmp_path / "tables"
    copies.mkdir()
    for table in tables.iterdir():
        (copies / table.name).write_bytes(table.read_bytes())
    stored = diagnosis_store(attempt=make_attempt(job), revision=1, report={"engine": "t", "flows": report})
    tables_store(stored, copies)
    job.stored = stored
    return job


@pytest.fixture
def desks(settings):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    with open_desks() as found:
        yield found
