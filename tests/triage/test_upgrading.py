"""The database of the last release goes on in this version, and this version serves while its database is migrated to
the next one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from ingest import services
from ingest.models import Artifact, Job, Run
from ingest.services import sweeping
from tests.factories import make_incident, make_user
from tests.ingest.conftest import LOG, sha
from tests.patience import WORK_S
from tests.upgrades import RELEASES, another_database, migrated_to, used_here

pytestmark = pytest.mark.django_db(transaction=True)

#: rows of each table that the next version changes
ROWS = 500


def test_a_database_of_each_release_goes_on_in_this_version(tmp_path: Path) -> None:
    for release in RELEASES.values():
        with another_database(tmp_path):
            then = migrated_to(release)
            job = then.get_model("ingest", "Job").objects.create(
                slug="old", name="old", cluster=then.get_model("ingest", "Cluster").objects.create(slug="default")
            )
            attempt = then.get_model("ingest", "Attempt").objects.create(job=job, number=0)
            then.get_model("ingest", "Run").objects.create(job=job, attempt=attempt, kind="parse")
            call_command("migrate", verbosity=0)
            sweeping.sweep()  # a run that nobody has done yet
            assert Run.objects.get(kind="parse").state == "succeeded"
            reader = Client()
            reader.force_login(make_user("mara", "engineer"))
            assert reader.get("/jobs/old/").status_code == 200


def test_requests_and_runs_while_the_database_is_migrated_to_the_next_version_all_succeed(
    tmp_path: Path, settings: Any
) -> None:
    with another_database(tmp_path, like=connection.settings_dict["NAME"]) as database:
        ada = make_user("ada", "engineer")
        token = services.token_create(user=ada, name="sender", scopes=["upload", "read"])[1]
        incident = make_incident()
        job = incident.job
        Artifact.objects.all().delete()
        Run.objects.bulk_create(Run(job=job, kind=Run.Kind.PARSE, state=Run.State.SUCCEEDED) for _ in range(ROWS))
        Job.objects.bulk_create(Job(slug=f"other-{n}", name="other", cluster=job.cluster) for n in range(ROWS))
        begun, ended = threading.Barrier(3), threading.Event()
        answers: Counter[tuple[str, int]] = Counter()
        problems: list[BaseException] = []

        def load(turn: Callable[[int], Any]) -> None:
            try:
                with used_here(database):
                    for n in range(10_000):
                        answer = turn(n)
                        answers[turn.__name__, answer.status_code] += 1
                        if n == 1:
                            begun.wait(WORK_S)
                        if ended.is_set() and n > 1:
                            return
            except BaseException as error:  # told by the test
                problems.append(error)

        def sending() -> Callable[[int], Any]:
            api = APIClient()
            api.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")

            def sent(n: int) -> Any:
                data = LOG + b"file %d\n" % n
                url = f"/api/v1/jobs/{job.slug}/artifacts/{sha(data)}?path={n}.log&attempt=0"
                return api.put(url, data, content_type="application/octet-stream")

            return sent

        def reading() -> Callable[[int], Any]:
            client = Client()
            client.force_login(ada)
            pages = (f"/incidents/{incident.pk}/", "/incidents/", f"/jobs/{job.slug}/", "/")

            def read(n: int) -> Any:
                return client.get(pages[n % len(pages)])

            return read

        threads = [threading.Thread(target=load, args=(make(),)) for make in (sending, reading)]
        for thread in threads:
            thread.start()
        begun.wait(WORK_S)
        settings.MIGRATION_MODULES = {app: f"scripts.next_version.{app}" for app in ("ingest", "triage")}
        call_command("migrate", verbosity=0)
        ended.set()
        for thread in threads:
            thread.join(WORK_S)
        assert problems == []
        assert {status for (_, status) in answers} <= {200, 201}, answers
        assert {name for name, _ in answers} == {"sent", "read"}
        sent = sum(count for (name, _), count in answers.items() if name == "sent")
        assert dict(Artifact.objects.values_list("path", "state")) == {f"{n}.log": "parsed" for n in range(sent)}
        assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
