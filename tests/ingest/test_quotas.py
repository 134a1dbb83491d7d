"""The quota of a team: beyond it evidence of its jobs is refused with a sentence, and that of others is not."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from ingest import selectors
from ingest.models import Artifact, Job, Team, Upload
from ingest.refusals import Refused
from ingest.services.quotas import quota_check
from tests.factories import make_cluster, make_job, make_team
from tests.ingest.conftest import LOG
from tests.ingest.test_collectors import lines
from tests.ingest.test_resuming import begin, patch
from tests.pages import page_text

pytestmark = pytest.mark.django_db(transaction=True)
api_urls = pytest.mark.urls("tests.ingest.urls")


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was counted is remembered."""
    cache.clear()
    monkeypatch.setattr(selectors.quotas, "_CACHED_S", 0)


@pytest.fixture
def team(job: Job) -> Team:
    red = make_team("red")
    Team.objects.update(max_bytes=2 * len(LOG))
    Job.objects.update(team=red)
    return red


@api_urls
def test_files_beyond_the_quota_are_refused_until_others_are_deleted(put: Callable[..., Any], team: Team) -> None:
    assert put("a.log", LOG).status_code == 201
    assert put("b.log", LOG + b"more\n").status_code == 507
    refused = put("b.log", LOG + b"more\n").json()
    assert "team red hold 10," in refused["detail"]
    assert refused["type"].endswith("team_quota") or refused.get("code") == "team_quota"
    assert put("b.log", LOG).status_code == 201
    assert put("c.log", b"one line\n").status_code == 507
    Artifact.objects.filter(path="b.log").update(state=Artifact.State.REMOVED)
    assert put("c.log", b"one line\n").status_code == 201


@api_urls
def test_an_upload_in_pieces_is_refused_at_its_begin_and_counts_with_what_arrived(
    api: Any, job: Job, team: Team
) -> None:
    assert begin(api, job, 3 * LOG).status_code == 507
    url = begin(api, job, LOG)["Location"]
    patch(api, url, LOG[:4000], 0)
    quota = selectors.quota_of(job.pk)
    assert quota is not None
    assert quota.held_bytes == 4000
    assert patch(api, url, LOG[4000:], 4000).status_code == 204


@api_urls
def test_a_file_that_grows_stops_at_the_quota_and_goes_on_when_there_is_room(api: Any, job: Job, team: Team) -> None:
    said = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in
                    {"job": job.slug, "path": "live.log"}.items())  # fmt: skip
    url = api.post("/api/v1/uploads/", headers={"Upload-Defer-Length": "1", "Upload-Metadata": said})["Location"]
    assert patch(api, url, LOG, 0).status_code == 204
    assert patch(api, url, 2 * LOG, len(LOG)).status_code == 507
    assert Upload.objects.get().offset_bytes == len(LOG)
    Team.objects.update(max_bytes=5 * len(LOG))
    assert patch(api, url, 2 * LOG, len(LOG)).status_code == 204


@api_urls
def test_pushed_lines_of_a_full_team_are_refused_and_those_of_other_jobs_stored(api: Any, engineer: Any) -> None:
    other = make_team("blue", members=[engineer], clusters=[make_cluster("ours")])
    for name in ("mine", "yours"):
        assert lines(api, b'{"message": "one"}\n', **{"Faultline-Job": name}).json()["stored"] == 1
    Job.objects.filter(name="yours").update(team=make_team("red"))
    Team.objects.exclude(pk=other.pk).update(max_bytes=1)
    answer = lines(api, b'{"message": "two"}\n', **{"Faultline-Job": "yours"}).json()
    assert (answer["stored"], answer["refused"]) == (0, 1)
    assert "team red" in answer["sentence"]
    assert lines(api, b'{"message": "two"}\n', **{"Faultline-Job": "mine"}).json()["stored"] == 1


def test_the_setting_is_the_quota_of_teams_without_one(settings: Any) -> None:
    one, own, free = make_team("one"), make_team("own"), make_team("free")
    Team.objects.filter(pk=own.pk).update(max_bytes=7)
    Team.objects.filter(pk=free.pk).update(max_bytes=0)
    assert [quota.max_bytes for quota in selectors.quotas_of(Team.objects.all())] == [7]
    settings.TEAM_MAX_BYTES = 9
    assert [(quota.team, quota.max_bytes) for quota in selectors.quotas_of(Team.objects.all())] == [
        ("one", 9),
        ("own", 7),
    ]
    quota_check(make_job().pk, 10**12)
    quota_check(make_job(team=free).pk, 10**12)
    with pytest.raises(Refused, match="this would be 10 more"):
        quota_check(make_job(team=one).pk, 10)


def test_members_see_the_quota_on_the_upload_page_and_a_form_tells_what_it_refused(engineer: Any) -> None:
    client = Client()
    client.force_login(engineer)
    make_team("blue")
    make_team("red", members=[engineer], clusters=[make_cluster("ours")])
    Team.objects.update(max_bytes=len(LOG))
    page = page_text(client.get("/upload/"))
    assert "The jobs of team red hold 0 B" in page
    assert "blue" not in page
    files = [SimpleUploadedFile("a.log", LOG), SimpleUploadedFile("b.log", LOG)]
    page = page_text(client.post("/upload/", {"name": "night", "files": files}, follow=True))
    assert Artifact.objects.count() == 1
    assert "ask an administrator for more" in page
    assert "No more is taken" in page_text(client.get("/upload/?job=ours--night"))
