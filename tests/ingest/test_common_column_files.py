"""Small files that are read together have one directory of column files, which lives as long as one of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages

from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors, services, storage
from ingest.models import Artifact, Job, Run
from ingest.services import artifact_parsing, evidence_removal, rereading
from ingest.services.artifacts import artifact_delete
from ingest.services.work import Superseded
from tests.archives import tar_of
from triage.selectors.logsearch import templates_of

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = ("apples", "pears", "plums")
FILES = {f"{word}.log": b"2026-03-01 08:00:00 start\n" + b"%s are ripe\n" % word.encode() for word in WORDS}


@pytest.fixture(autouse=True)
def no_folders_of_other_tests() -> None:
    shutil.rmtree(storages["parsed"].location, ignore_errors=True)  # type: ignore[attr-defined]


@pytest.fixture
def artifacts(put: Callable[..., Any], job: Job) -> list[Artifact]:
    put("all.tar", tar_of(FILES))
    return list(Artifact.objects.order_by("path"))


def folders() -> list[Path]:
    """All directories of column files."""
    return [file.parent for file in Path(storages["parsed"].location).rglob("parsed.json")]  # type: ignore[attr-defined]


def test_each_has_its_own_lines_and_messages_of_the_common_tables(artifacts: list[Artifact]) -> None:
    assert len({artifact.parsed_key for artifact in artifacts}) == len(folders()) == 1
    assert [artifact.parsed_number for artifact in artifacts] == [0, 1, 2]
    for artifact in artifacts:
        lines = selectors.lines_of(artifact)
        assert lines is not None
        assert stored_rows.read([lines], ["line"])["line"].to_list() == [1, 2]
    said = {
        artifact.path: stored_rows.read([rows], ["text"])["text"].to_list()
        for artifact, rows in selectors.messages_of(artifacts)
    }
    assert [said[f"{word}.log"][-1] for word in WORDS] == [f"{word} are ripe" for word in WORDS]


def test_the_engine_gets_one_path_for_a_common_table(artifacts: list[Artifact], tmp_path: Path) -> None:
    several = selectors.parsed_for(artifacts[0].attempt, tmp_path)
    assert len(several) == 3
    assert len({id(parsed.uniques) for parsed in several}) == 1


def test_a_search_names_the_file_of_a_message(artifacts: list[Artifact]) -> None:
    chosen = [artifacts[2], artifacts[0]]
    found = {row.text: (row.path, row.files) for row in templates_of(chosen).rows}
    assert found["plums are ripe"] == ("plums.log", 1)
    assert found["apples are ripe"] == ("apples.log", 1)
    assert {files for text, (_, files) in found.items() if "ripe" not in text} == {2}
    assert not any("pears" in text for text in found)


def test_the_last_file_that_is_deleted_takes_them(artifacts: list[Artifact]) -> None:
    for left in (2, 1):
        artifact_delete(artifact=artifacts.pop())
        assert (len(artifacts), len(folders())) == (left, 1)
    artifact_delete(artifact=artifacts.pop())
    assert folders() == []


def test_removed_evidence_takes_them(artifacts: list[Artifact], job: Job) -> None:
    evidence_removal.evidence_remove(job=job)
    assert folders() == []


def test_reading_again_replaces_them(artifacts: list[Artifact], job: Job) -> None:
    former = folders()
    assert rereading.artifacts_reread(job=job, is_forced=True) == len(FILES)
    assert len(folders()) == 1
    assert folders() != former
    assert not Artifact.objects.exclude(state=Artifact.State.PARSED).exists()


def test_a_lost_claim_leaves_none(job: Job, put: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise Superseded

    monkeypatch.setattr(artifact_parsing, "_record", lost)
    put("all.tar", tar_of(FILES))
    assert folders() == []


def test_bytes_that_were_changed_are_found_by_their_digest(
    job: Job, put: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.broker.send", lambda *_, **__: True)
    for path, data in FILES.items():
        put(path, data)
    changed = Artifact.objects.get(path="pears.log")
    Path(storages["blobs"].path(changed.blob.key)).write_bytes(FILES["plums.log"] + b"\n")  # type: ignore[attr-defined]
    services.run_do(Run.objects.get(kind=Run.Kind.PARSE).pk, artifact_parsing.artifacts_parse)
    changed.refresh_from_db()
    assert (changed.state, changed.problem) == (Artifact.State.FAILED, storage.BLOB_CHANGED)
    assert Artifact.objects.filter(state=Artifact.State.PARSED).count() == len(FILES) - 1
