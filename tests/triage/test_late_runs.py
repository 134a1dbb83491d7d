"""Results of triage's runs that end after another worker took them over are not stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from ingest.models import Artifact, HistoryEntry, Run
from ingest.services import history, run_do
from ingest.services.work import Superseded
from tests.factories import make_attempt, make_job, work_on
from triage.models import Activity
from triage.services import condensing

pytestmark = pytest.mark.django_db


def take_over(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(tries=F("tries") + 1, worker="another")


def test_what_a_job_printed_is_not_learned_late(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    work = work_on(job)
    monkeypatch.setattr(history, "may_be_healthy", lambda _: True)

    def learned_slowly(*_: Any, **__: Any) -> None:
        take_over(work.run)

    monkeypatch.setattr(history, "engine_call", learned_slowly)
    HistoryEntry.objects.create(job=job, key="history/1.json", mask_version="1")
    with pytest.raises(Superseded):
        history.history_learn(work, job, [])
    assert HistoryEntry.objects.exists()


def test_a_job_is_not_condensed_late(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job()
    make_attempt(job)
    run = Run.objects.create(job=job, kind=Run.Kind.CONDENSE)

    def condensed_slowly(*_: Any, **__: Any) -> dict[str, int]:
        take_over(run)
        return {}

    monkeypatch.setattr(condensing.evidence, "is_removed", lambda _: False)
    monkeypatch.setattr(condensing.evidence, "parsed_for", lambda *_: [])
    monkeypatch.setattr(condensing, "engine_call", condensed_slowly)
    monkeypatch.setattr(condensing, "kept_lines_put", lambda _: None)
    run_do(run.pk, condensing.job_condense)
    run.refresh_from_db()
    assert (run.state, run.worker) == ("running", "another")
    assert not Activity.objects.filter(kind="evidence_condensed").exists()
    assert not Artifact.objects.exists()
