"""The pool of healthy jobs, and what the engine is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest import selectors, services
from ingest.isolation import ReaderLost
from ingest.models import Artifact, HistoryEntry, Job
from ingest.services.history import history_for, history_learn
from tests.factories import work_on
from tests.ingest.conftest import LOG

pytestmark = pytest.mark.django_db(transaction=True)


def a_job(name: str, tmp_path: Path, *, outcome: str = "succeeded", **fields: Any) -> Job:
    job = services.job_create(name=name, declared_outcome=outcome, **fields)
    services.artifact_receive(job=job, path="a.log", chunks=[LOG, f"INFO hello from {name}\n".encode()])
    history_learn(work_on(job), job, selectors.parsed_for(job.attempts.get(), tmp_path))
    return job


def test_a_job_that_succeeded_joins_the_pool_and_leaves_it_when_it_turns_out_not_to_have(tmp_path: Path) -> None:
    job = a_job("one", tmp_path, family="llama")
    assert HistoryEntry.objects.get().family == "llama"
    job.declared_outcome = "failed"
    history_learn(work_on(job), job, selectors.parsed_for(job.attempts.get(), tmp_path))
    assert not HistoryEntry.objects.exists()


def test_a_job_that_was_slow_is_no_example_of_what_is_normal(tmp_path: Path) -> None:
    job = a_job("one", tmp_path)
    history_learn(work_on(job), job, selectors.parsed_for(job.attempts.get(), tmp_path), is_steady=False)
    assert not HistoryEntry.objects.exists()


def test_a_job_whose_messages_cost_too_much_to_learn_leaves_the_pool_and_is_diagnosed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job("one", tmp_path)

    def lose(*_: Any, **__: Any) -> None:
        raise ReaderLost("Reading this needs more memory than one reading may take.")

    monkeypatch.setattr("ingest.services.history.engine_call", lose)
    work = work_on(job)
    history_learn(work, job, selectors.parsed_for(job.attempts.get(), tmp_path))
    assert not HistoryEntry.objects.exists()
    assert "more memory" in work.run.log.get().message


def test_a_job_is_compared_with_its_family_and_never_with_itself(tmp_path: Path) -> None:
    mine = [a_job(f"llama {n}", tmp_path, family="llama") for n in range(4)]
    a_job("bert", tmp_path, family="bert")
    history = history_for(mine[0])
    assert {job.job_id for job in history.jobs} == {"llama-1", "llama-2", "llama-3"}


def test_a_job_of_a_new_family_borrows_from_all(tmp_path: Path) -> None:
    a_job("llama", tmp_path, family="llama")
    lonely = services.job_create(name="new", family="new")
    assert [job.job_id for job in history_for(lonely).jobs] == ["llama"]
    HistoryEntry.objects.update(is_excluded=True)
    assert not history_for(lonely).jobs


def test_the_pools_digest_is_the_same_for_the_same_jobs(tmp_path: Path) -> None:
    for n in range(3):
        a_job(f"llama {n}", tmp_path, family="llama")
    one, two = (services.job_create(name=name, family="llama") for name in ("x", "y"))
    assert history_for(one).digest == history_for(two).digest


def test_the_engine_reads_raw_bytes_of_an_evidence_line(job: Job) -> None:
    services.artifact_receive(job=job, path="a.log", chunks=[LOG])
    read = selectors.reader_for(job.attempts.get())
    assert read("a.log", 0, 20) == LOG[:20]
    assert read("a.log", len(LOG) - 5, 100) == LOG[-5:]
    assert read("../../etc/passwd", 0, 20) == b""


def test_a_file_taken_out_is_missing_from_the_next_revision_and_may_come_back(job: Job, tmp_path: Path) -> None:
    artifact = services.artifact_receive(job=job, path="a.log", chunks=[LOG]).artifact
    assert artifact is not None
    services.artifact_delete(artifact=Artifact.objects.get(pk=artifact.pk))
    job.refresh_from_db()
    assert job.revision == 2
    assert not selectors.parsed_for(job.attempts.get(), tmp_path)
    assert services.artifact_receive(job=job, path="a.log", chunks=[LOG]).is_new
    assert len(selectors.parsed_for(job.attempts.get(), tmp_path)) == 1


def test_what_people_said_of_a_job_reaches_the_engine(job: Job) -> None:
    stated = {"declared_framework": "megatron", "model": "70b", "layout": {"tp": 8, "world_size": 64}}
    Job.objects.update(nodes_text="n1, n2\nn3", **stated)
    job.refresh_from_db()
    hints = selectors.hints_for(job)
    assert hints.nodes == ("n1", "n2", "n3")
    assert (hints.world_size, hints.family, hints.outcome) == (64, "megatron/70b", "")
