"""A database of a former version keeps its rows, and gets the tables that a new one has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection

from tests.upgrades import BEFORE_RELEASES, another_database, migrated_to
from triage.models import Activity, Route

pytestmark = pytest.mark.django_db(transaction=True)

#: the last steps before the first release; a squashed migration replaces them
STEPS = {"ingest": "0008_kept_lines", "triage": "0012_words_in_their_row"}


def test_webhooks_of_an_older_version_become_routes_with_their_cluster_as_search(
    before_releases: str, tmp_path: Path
) -> None:
    with another_database(tmp_path, like=before_releases):
        then = migrated_to(BEFORE_RELEASES, step_by_step=True)
        cluster = then.get_model("ingest", "Cluster").objects.create(slug="here")
        owner = then.get_model("auth", "User").objects.create(username="mara")
        hook = {"name": "chat", "url": "https://chat.example/", "events": ["incident.opened"], "secret": "whsec_AAAA"}
        then.get_model("triage", "Webhook").objects.create(**hook, cluster_id=cluster.pk, owner_id=owner.pk)
        activity = {"kind": "webhook_saved", "actor_id": owner.pk, "data": {"subject": "chat"}}
        then.get_model("triage", "Activity").objects.create(**activity)
        call_command("migrate", verbosity=0)
        route = Route.objects.get()
        assert (route.name, route.kind, route.query) == ("chat", "webhook", "cluster:here")
        assert route.owner.username == "mara"
        assert Activity.objects.get().kind == "route_saved"
        assert not Permission.objects.filter(codename__endswith="_webhook").exists()


def test_a_database_from_before_the_release_and_a_new_one_have_the_same_tables(
    before_releases: str, tmp_path: Path
) -> None:
    with another_database(tmp_path, like=before_releases):
        migrated_to(STEPS, step_by_step=True)
        call_command("migrate", verbosity=0)  # nothing is left to do but to note that the steps are one
        former = tables()
    new = tables()  # of the tests' own database, which was made new
    assert former.keys() == new.keys()
    for name in new:
        assert former[name] == new[name], name
    assert {"triage_incident", "ingest_run", "triage_searchentry"} <= new.keys()


#: A planner writes its statistics when it likes.
PLANNERS_OWN = {"sqlite_stat1", "sqlite_stat4"}


def tables() -> dict[str, Any]:
    """Columns, constraints and triggers of each table, in no order."""
    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        names = set(connection.introspection.table_names(cursor))
        for name in sorted(names - PLANNERS_OWN):
            columns = connection.introspection.get_table_description(cursor, name)
            constraints = connection.introspection.get_constraints(cursor, name)
            found[name] = (
                sorted((row.name, str(row.type_code), row.null_ok, row.default, row.display_size) for row in columns),
                sorted((_named(key), repr(sorted(value.items()))) for key, value in constraints.items()),
            )
        programs = {
            "sqlite": "SELECT sql FROM sqlite_master WHERE type IN ('trigger') OR sql LIKE 'CREATE VIRTUAL%'",
            "postgresql": "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace "
            "WHERE proname LIKE 'triage%' UNION SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
        }
        cursor.execute(programs[connection.vendor])
        found["programs"] = sorted(row[0] for row in cursor.fetchall())
    return found


def _named(key: str) -> str:
    """Names that a database or Django makes itself are made of the table's first name, or count."""
    is_made = re.search(r"_[0-9a-f]{8}(_|$)|_(pkey|key|check|not_null)$|^(__unnamed_constraint|fk)_\d+", key)
    return "" if is_made else key
