"""Migrations that change rows keep what an older version of the site stored."""

from __future__ import annotations

import pytest
from django.apps import apps as installed
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.factories import make_cluster, make_user
from triage.models import Activity, Route

pytestmark = pytest.mark.django_db(transaction=True)


def test_webhooks_of_an_older_version_become_routes_with_their_cluster_as_search():
    owner, cluster = make_user("mara", "manager"), make_cluster("here")
    call_command("migrate", "triage", "0006", verbosity=0)
    old = MigrationExecutor(connection).loader.project_state([("triage", "0006_faster_search")]).apps
    try:
        old.get_model("triage", "Webhook").objects.create(
            name="chat",
            url="https://chat.example/",
            events=["incident.opened"],
            secret="whsec_AAAA",
            cluster_id=cluster.pk,
            owner_id=owner.pk,
        )
        Activity.objects.create(kind="webhook_saved", actor=owner, data={"subject": "chat"})
    finally:
        # an older version has no such content type; here today's models made one
        ContentType.objects.filter(app_label="triage", model="route").delete()
        call_command("migrate", "triage", verbosity=0)
    route = Route.objects.get()
    assert (route.name, route.kind, route.query, route.owner) == ("chat", "webhook", "cluster:here", owner)
    assert Activity.objects.get().kind == "route_saved"
    assert installed.get_model("triage", "Route") is Route
    assert not Permission.objects.filter(codename__endswith="_webhook").exists()
