"""Pages that say what went wrong and what to do."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import RequestFactory

from tests.factories import make_user
from tests.pages import page_text
from triage.views import site

pytestmark = pytest.mark.django_db


def test_a_form_with_too_many_rows_is_told_what_to_do(client, settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 10
    client.force_login(make_user("ada", "engineer"))
    response = client.post("/incidents/bulk/", {"id": [str(n) for n in range(20)]})
    assert response.status_code == 413
    assert "Choose fewer rows" in page_text(response)


def test_a_page_for_another_role_names_the_role(client):
    client.force_login(make_user("vera", "viewer"))
    response = client.get("/incidents.csv")
    assert response.status_code == 403
    assert "needs the role manager" in page_text(response)


def test_an_old_form_asks_to_be_sent_again(client):
    client.handler.enforce_csrf_checks = True
    client.force_login(make_user("ada", "engineer"))
    response = client.post("/views/", {"name": "x"})
    assert response.status_code == 403
    assert "reload the page" in page_text(response)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OperationalError("database is locked"), 503, "The database is busy"),
        (OperationalError("connection refused"), 503, "The database does not answer"),
        (OperationalError("database or disk is full"), 507, "The disk is full"),
        (OperationalError("no such column: x"), 500, "Internal server error"),
        (KeyError("x"), 500, "Internal server error"),
    ],
)
def test_a_database_that_is_locked_away_or_full_is_distinguished_from_a_fault(client, monkeypatch, error, status, said):
    client.force_login(make_user("ada", "engineer"))
    client.raise_request_exception = False

    def broken(*_, **__):
        raise error

    monkeypatch.setattr("triage.views.jobs.job_page", broken)
    response = client.get("/jobs/")
    assert response.status_code == status
    assert said in page_text(response)
    assert response.headers.get("Retry-After") == ("5" if status == 503 else None)


def test_a_broken_page_is_reported_without_asking_the_database(django_assert_num_queries):
    with django_assert_num_queries(0):
        response = site.server_error(RequestFactory().get("/"))
    assert response.status_code == 500
    assert b"Internal server error" in response.content
    assert b"<style" not in response.content


def test_errors_say_what_to_do(client, ada):
    assert "There is no incident #404" in page_text(client.get("/incidents/404/"))
    assert "There is no job" in page_text(client.get("/jobs/nope/"))
